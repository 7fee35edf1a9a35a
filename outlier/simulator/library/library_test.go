package library

import (
	"math"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"pgregory.net/rapid"
)

func TestLibrarySizeAndVariety(t *testing.T) {
	l := Open(1)
	uploads, spoken := 0, map[int]int{}
	for _, c := range l.Channels {
		spoken[c.language]++
		for k := range c.schedules {
			uploads += c.Sample(Kind(k), epoch).count
		}
	}
	if len(l.Channels) < 300 || uploads < 10_000 || len(spoken) != len(languages) {
		t.Errorf("%d channels, %d uploads, %d languages; want at least 300, at least 10,000, and %d",
			len(l.Channels), uploads, len(spoken), len(languages))
	}
	var texts strings.Builder
	for _, h := range l.Index(epoch).Hits() {
		texts.WriteString(h.Title + "\n")
	}
	for what, class := range map[string]string{
		"emoji": `[😀-🙏🔥]`, "CJK": `\p{Han}`, "kana": `\p{Katakana}`, "Hangul": `\p{Hangul}`,
		"right to left": `\p{Arabic}`, "quotes": `["「]`, "control characters": `\x1b`, "markup": `<script>`,
	} {
		if !regexp.MustCompile(class).MatchString(texts.String()) {
			t.Errorf("no title has %s", what)
		}
	}
}

// IDs are well-formed and unique, and each identifies its upload.
func TestIDsIdentifyTheirUpload(t *testing.T) {
	l := Open(1)
	seen := map[string]bool{}
	for _, h := range l.Index(epoch).Hits() {
		id := h.ID()
		if !regexp.MustCompile(`^[a-zA-Z0-9-_]{11}$`).MatchString(id) || seen[id] {
			t.Fatalf("video id %q is malformed, or another upload has it, too", id)
		}
		seen[id] = true
		u, ok := l.findUpload(id, epoch)
		if !ok || u.address() != h.address() {
			t.Fatalf("id %s of upload %x identifies %x (found: %v)", id, h.address(), u.address(), ok)
		}
	}
	for id := range l.ByID {
		if !regexp.MustCompile(`^[A-Za-z0-9_-]{24}$`).MatchString(id) {
			t.Errorf("channel id %q is malformed", id)
		}
	}
}

func TestUnknownIDsAreNotFound(t *testing.T) {
	l := Open(1)
	for _, id := range []string{"dQw4w9WgXcQ", "AAAAAAAAAAA", "-----------"} {
		if _, ok := l.findUpload(id, epoch); ok {
			t.Errorf("the invented id %s is found", id)
		}
	}
	c := l.Channels[0]
	next := c.nthUpload(Video, c.latestUpload(Video, epoch)+1)
	if _, ok := l.findUpload(next.ID(), epoch); ok {
		t.Error("an upload is found before it is published")
	}
	if _, ok := l.findUpload(next.ID(), next.Published); !ok {
		t.Error("an upload is not found when it is published")
	}
}

func TestChannelStatisticsFollowFromTheSample(t *testing.T) {
	l := Open(1)
	for _, c := range l.Channels[:50] {
		if c.Gone {
			continue
		}
		s := c.Sample(Video, epoch)
		var views []float64
		for _, e := range s.entries {
			views = append(views, float64(e.Views))
		}
		mean, deviation := moments(views)
		for _, e := range s.entries {
			near(t, c.ID+" "+e.ID()+" zScore", e.z, (float64(e.Views)-mean)/deviation)
			near(t, c.ID+" "+e.ID()+" averageViewsRatio", e.ratio, float64(e.Views)/mean)
		}
		shown := statisticsOf(s)
		near(t, c.ID+" average", shown["averageViews"], mean)
		near(t, c.ID+" deviation", s.deviation, deviation)
		near(t, c.ID+" variation", shown["viewVariationCoefficient"], deviation/mean)
		near(t, c.ID+" views per subscriber", shown["avgViewsToSubscribersRatio"], mean/shown["subscribers"])
		slices.Sort(views)
		if m := shown["medianViews"]; m < views[0] || m > views[len(views)-1] {
			t.Errorf("%s: median of views is %g, want one between %g and %g", c.ID, m, views[0], views[len(views)-1])
		}
		if len(views) > 120 {
			t.Errorf("%s: sample of %d, want at most 120", c.ID, len(views))
		}
	}
}

func moments(xs []float64) (mean, deviation float64) {
	for _, x := range xs {
		mean += x
	}
	mean /= float64(len(xs))
	for _, x := range xs {
		deviation += (x - mean) * (x - mean)
	}
	return mean, math.Sqrt(deviation / float64(len(xs)))
}

func near(t *testing.T, what string, got, want float64) {
	t.Helper()
	if !cmp.Equal(got, want, cmpopts.EquateApprox(1e-9, 1e-9)) {
		t.Errorf("%s = %g, want %g", what, got, want)
	}
}

func TestViewsNeverFall(t *testing.T) {
	l := Open(1)
	rapid.Check(t, func(t *rapid.T) {
		c := rapid.SampledFrom(l.Channels).Draw(t, "channel")
		u := c.nthUpload(Video, rapid.IntRange(0, 5000).Draw(t, "number"))
		early := u.Published.Add(time.Duration(rapid.Int64Range(0, int64(1000*24*time.Hour)).Draw(t, "age")))
		late := early.Add(time.Duration(rapid.Int64Range(0, int64(1000*24*time.Hour)).Draw(t, "later")))
		if u.Views(early) < 0 || u.Views(early) > u.Views(late) || u.Comments(early) > u.Comments(late) {
			t.Fatalf("%d views and %d comments at %s, and %d and %d at %s; want none below 0, and no fewer later",
				u.Views(early), u.Comments(early), early, u.Views(late), u.Comments(late), late)
		}
	})
}

// An answer has the newest 100 comments at most, the newest first.
func TestCommentsAreNewestHundred(t *testing.T) {
	l := Open(1)
	some, none := 0, 0
	for _, h := range l.Index(epoch).Hits()[:300] {
		a := l.CommentsAnswer(h.ID(), epoch)
		if a == nil {
			continue
		}
		item := field(a, "items").([]object)[0]
		comments, count := item["comments"].([]object), field(item, "statistics.count").(int64)
		if int64(len(comments)) != min(maxComments, count) {
			t.Fatalf("%s: %d comments of %d, want at most %d, and otherwise all", h.ID(), len(comments), count, maxComments)
		}
		before := epoch.Format(WithMillis)
		for _, c := range comments {
			at, likes := c["publishedAt"].(string), c["likesCount"].(int64)
			if at > before || at < h.Published.Format(WithMillis) || likes < 0 {
				t.Fatalf("%s of %s: a comment of %s with %d likes follows one of %s; "+
					"want the newest first, none before the video, no negative likes", h.ID(), h.Published, at, likes, before)
			}
			before = at
		}
		if len(comments) == 0 {
			none++
		} else {
			some++
		}
	}
	if some == 0 || none == 0 {
		t.Errorf("%d videos with comments, %d without; want both", some, none)
	}
}

func TestTranscriptJoinsItsEvents(t *testing.T) {
	l := Open(1)
	lacking := map[string]int{}
	for _, h := range l.Index(epoch).Hits()[:500] {
		a := l.TranscriptAnswer(h.ID(), epoch)
		items, _ := field(a, "items").([]object)
		switch {
		case a == nil:
			lacking["404"]++
			continue
		case len(items) == 0:
			lacking["items"]++
			continue
		}
		var texts []string
		events, last := items[0]["events"].([]object), int64(-1)
		if len(events) == 0 {
			lacking["events"]++
		}
		for i, e := range events {
			start := e["startMs"].(int64)
			if e["endMs"] != start+e["durationMs"].(int64) || start <= last {
				t.Fatalf("%s: event %d is out of order, or does not end after its duration: %+v", h.ID(), i, e)
			}
			last, texts = start, append(texts, e["text"].(string))
		}
		if got := strings.Join(texts, " "); got != items[0]["transcript"] {
			t.Fatalf("%s: transcript is %q, want the texts of its events, %q", h.ID(), items[0]["transcript"], got)
		}
	}
	if len(lacking) != 3 {
		t.Errorf("transcripts are missing in the ways %v, want all three", lacking)
	}
}

func TestAgesAsWebPagesShowThem(t *testing.T) {
	for age, want := range map[time.Duration]string{
		0: "just now", time.Second: "1 second ago", 90 * time.Minute: "1 hour ago",
		15 * 24 * time.Hour: "2 weeks ago", 800 * 24 * time.Hour: "2 years ago",
	} {
		if got := formatAge(age); got != want {
			t.Errorf("ago(%s) = %q, want %q", age, got, want)
		}
	}
}

func FuzzFind(f *testing.F) {
	l := Open(1)
	f.Add("dQw4w9WgXcQ")
	f.Add(l.Index(epoch).Hits()[0].ID())
	f.Fuzz(func(t *testing.T, id string) {
		if u, ok := l.findUpload(id, epoch); ok && (u.ID() != id || u.Published.After(epoch)) {
			t.Errorf("id %q finds %q, published at %s; want that id, published by %s", id, u.ID(), u.Published, epoch)
		}
	})
}

// epoch is the time of most tests.
var epoch = time.Date(2026, time.November, 1, 12, 0, 0, 0, time.UTC)
