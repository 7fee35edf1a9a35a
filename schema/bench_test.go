package schema

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"

	"outlierd/outlier"
)

// BenchmarkDecode compares the decoder with what one would write first: structs,
// encoding/json, and Arrow's record builder. Both yield the same columns of the
// history tables; the baseline has no extra, no drift and no tolerance. Run it with
// -cpu 1, as the program runs: a second processor would collect the garbage of the
// baseline, which makes more of it, unseen.
func BenchmarkDecode(b *testing.B) {
	hits, comments, transcript := searchBody(40), commentsBody(100), transcriptBody(800)
	for _, c := range []struct {
		name   string
		bodies []answerBody
	}{
		{"hits", []answerBody{hits}},
		{"comments", []answerBody{comments}},
		{"transcript", []answerBody{transcript}},
		{"mix", []answerBody{hits, comments, transcript}},
	} {
		size := 0
		for _, a := range c.bodies {
			size += len(a.body)
		}
		b.Run(c.name+"/outlierd", func(b *testing.B) {
			b.SetBytes(int64(size))
			b.ReportAllocs()
			d := NewDecoder(memory.DefaultAllocator)
			for i := 0; b.Loop(); i++ {
				for _, a := range c.bodies {
					if err := d.Decode(a.source, a.body); err != nil {
						b.Fatal(err)
					}
				}
				if i%batch == batch-1 {
					releaseParts(d.Take())
				}
			}
			releaseParts(d.Take())
		})
		b.Run(c.name+"/encoding-json", func(b *testing.B) {
			b.SetBytes(int64(size))
			b.ReportAllocs()
			n := newNaive()
			for i := 0; b.Loop(); i++ {
				for _, a := range c.bodies {
					if err := n.decode(a.source, a.body); err != nil {
						b.Fatal(err)
					}
				}
				if i%batch == batch-1 {
					n.take()
				}
			}
			n.take()
		})
	}
}

// batch is how many rounds either side collects before it hands its records over.
const batch = 64

func releaseParts(parts []Part) {
	for _, p := range parts {
		p.Release()
	}
}

// answerBody is an answer of a size and variety as the service's are.
type answerBody struct {
	source Source
	body   []byte
}

func benchSource(op outlier.Operation, entity string) Source {
	return Source{
		Response: 4711, Run: "019a9f3e-7b1c-7cc0-8000-1234567890ab", Job: "coffee", Op: op, Entity: entity,
		ObservedAt: time.Date(2025, 11, 20, 8, 0, 0, 0, time.UTC), Kind: "search", Queries: []string{"home espresso"},
	}
}

func searchBody(n int) answerBody {
	r := rand.New(rand.NewPCG(1, 1))
	var p naivePage
	for range n {
		h := naiveHit{ID: randomID(r, 11), Kind: "video", Time: "2025-11-20T08:00:00.123Z"}
		s := &h.Snippet
		s.ChannelID, s.ChannelTitle, s.ChannelHandle = randomID(r, 24), randomText(r, 3), "@"+randomID(r, 10)
		s.ChannelSubscribers = r.Int64N(5_000_000)
		s.Title, s.PublishedAt, s.Language = randomText(r, 9), "2025-11-03T14:05:09Z", "en"
		s.Thumbnails, s.Duration = randomThumbnails(h.ID), r.Int64N(3600)
		s.Monetization = naiveMoney{r.Float64(), r.Float64() * 10, r.Float64() * 1e3, r.Float64() * 1e4}
		s.ChannelMonetization = naiveChannelMoney{r.Float64() * 1e3, r.Float64() * 1e4, r.Float64(), r.Float64() * 10, true}
		h.Statistics = naiveHitStatistics{r.Int64N(1e4), r.Int64N(1e5), r.Int64N(1e7), r.NormFloat64() * 5, r.Float64() * 50, true, false}
		h.Classification = naiveClass{false, "positive"}
		p.Hits = append(p.Hits, h)
	}
	p.Pagination = map[string]int{"total": 10000, "from": 0, "size": n}
	return answerBody{benchSource(outlier.OpSearch, ""), mustJSON(p)}
}

func commentsBody(n int) answerBody {
	r := rand.New(rand.NewPCG(2, 2))
	item := naiveComments{ID: randomID(r, 11)}
	item.Statistics.Count = int64(18411)
	for range n {
		id := randomID(r, 24)
		item.Comments = append(item.Comments, naiveComment{
			AuthorChannelID: id, AuthorText: "@" + randomText(r, 1), AuthorIsChannelOwner: false,
			AuthorThumbnail: []naiveImage{{"https://yt3.ggpht.com/" + randomID(r, 80), int64(48), int64(48)}, {"https://yt3.ggpht.com/" + randomID(r, 80), int64(88), int64(88)}},
			Text:            randomText(r, 25), PublishedAt: "2025-11-03T14:06:00.000Z", PublishedAtRaw: "2 weeks ago",
			LikesCount: r.Int64N(1000), LikesCountRaw: r.Int64N(1000), ReplyCount: r.Int64N(10), ReplyCountRaw: r.Int64N(10),
		})
	}
	body := mustJSON(map[string]any{"ids": []string{item.ID}, "items": []naiveComments{item}, "time": "2025-11-20T08:00:04Z"})
	return answerBody{benchSource(outlier.OpComments, item.ID), body}
}

func transcriptBody(n int) answerBody {
	r := rand.New(rand.NewPCG(3, 3))
	item := naiveTranscript{ID: randomID(r, 11)}
	at := int64(0)
	for range n {
		took := 500 + r.Int64N(4000)
		line := randomText(r, 8)
		item.Events = append(item.Events, naiveEvent{at, took, at + took, line})
		item.Transcript += line + " "
		at += took
	}
	body := mustJSON(map[string]any{"ids": []string{item.ID}, "items": []naiveTranscript{item}})
	return answerBody{benchSource(outlier.OpTranscript, item.ID), body}
}

func mustJSON(v any) []byte {
	b, err := json.Marshal(v)
	if err != nil {
		panic(err)
	}
	return b
}

func randomID(r *rand.Rand, n int) string {
	const letters = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"
	b := make([]byte, n)
	for i := range b {
		b[i] = letters[r.IntN(len(letters))]
	}
	return string(b)
}

func randomText(r *rand.Rand, words int) string {
	list := []string{"espresso", "the", "moka", "pot", "a", "\"best\"", "coffee", "is", "Müller", "grind", "🔥", "in", "kitchen", "what", "you", "珈琲", "finer", "of", "machine", "don't"}
	var b strings.Builder
	for i := range words {
		if i > 0 {
			b.WriteByte(' ')
		}
		b.WriteString(list[r.IntN(len(list))])
	}
	return b.String()
}

func randomThumbnails(id string) naiveThumbnails {
	image := func(name string, w, h int64) naiveImage {
		return naiveImage{fmt.Sprintf("https://i.ytimg.com/vi/%s/%s.jpg", id, name), w, h}
	}
	return naiveThumbnails{image("default", 120, 90), image("mqdefault", 320, 180), image("hqdefault", 480, 360)}
}

// The comparison is fair only if both do the same work.
func TestBaselineOfTheBenchmarkYieldsTheSameRows(t *testing.T) {
	d, n := newDecoder(t), newNaive()
	for _, a := range []answerBody{searchBody(40), commentsBody(100), transcriptBody(800)} {
		if err := d.Decode(a.source, a.body); err != nil {
			t.Fatal(err)
		}
		if err := n.decode(a.source, a.body); err != nil {
			t.Fatal(err)
		}
	}
	if drift := d.Drift(); len(drift) > 0 {
		t.Errorf("drift %v", drift)
	}
	parts := take(t, d)
	for name, builder := range map[string]*array.RecordBuilder{
		"outliers_history": n.hits, "comment_counts_history": n.counts, "comments": n.comments,
		"transcripts": n.transcripts, "transcript_events": n.events,
	} {
		want := builder.NewRecordBatch()
		defer want.Release()
		for i, c := range want.Columns() {
			switch column := want.ColumnName(i); column {
			case "comment_key", "item", "seeds", "scan_id": // another hash; "" for NULL
			default:
				if got := parts[name].Column(i); !array.Equal(got, c) {
					t.Errorf("%s.%s: decoded %s, by way of structs %s", name, column, got, c)
				}
			}
		}
	}
}
