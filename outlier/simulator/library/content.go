package library

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"time"
)

// The answers of the data endpoints are nil if the entity does not exist.

const (
	WithMillis = "2006-01-02T15:04:05.000Z" // the service uses both forms
	noMillis   = "2006-01-02T15:04:05Z"
)

// ChannelAnswer is a channel with a sample of its uploads of a kind.
func (l *Library) ChannelAnswer(id string, k Kind, now time.Time) any {
	c, ok := l.ByID[id]
	if !ok || c.Gone {
		return nil
	}
	s := c.Sample(k, sampledAt(now))
	item := channelItem{ID: id, Kind: "channel", Snippet: c.snippet(), Statistics: s.Statistics()}
	if k == Short {
		item.Shorts = new(s.shorts())
	} else {
		item.Videos = new(s.videos())
	}
	return ChannelAnswer{ID: id, Time: now.Format(WithMillis), Item: item}
}

func (c *channel) snippet() channelSnippet {
	base := "https://" + PictureHost + "/ch/" + c.ID
	return channelSnippet{
		Handle: c.handle, Title: c.title, Description: c.description, Keywords: c.keywords,
		Thumbnails: thumbnails{
			Default: thumbnail{URL: base + "=s88"},
			Medium:  thumbnail{URL: base + "=s240"},
			High:    thumbnail{URL: base + "=s800"},
		},
	}
}

func (s *Sample) videos() []VideoEntry {
	entries := make([]VideoEntry, len(s.entries))
	for i := range s.entries {
		e := &s.entries[i]
		id := e.ID()
		entries[i] = VideoEntry{
			ID: id, Title: e.makeTitle(), Thumbnails: frameSizes(id), Duration: e.duration,
			IsLiveBroadcast: e.liveDetails(), PublishedAtEstimate: parseAge(e.Published, s.at).Format(WithMillis),
			ViewCount: e.Views, Statistics: e.statistics(),
		}
	}
	return entries
}

func (s *Sample) shorts() []shortEntry {
	entries := make([]shortEntry, len(s.entries))
	for i := range s.entries {
		e := &s.entries[i]
		id := e.ID()
		entries[i] = shortEntry{
			ID: id, Title: e.makeTitle(), ViewCount: e.Views, Statistics: e.statistics(),
			Thumbnails: []thumbnail{newFrame(id, "portrait"), newFrame(id, "portrait-high")},
		}
	}
	return entries
}

func (e *entry) statistics() EntryStatistics {
	return EntryStatistics{e.z, e.ratio, e.isPositive(), e.isNegative()}
}

// Statistics returns what the service shows of a sample.
func (s *Sample) Statistics() ChannelStatistics {
	t := ChannelStatistics{
		SubscriberCount:                s.subscribers,
		SubscriberCountRaw:             formatCount(s.subscribers) + " subscribers",
		ViewCountEstimate:              s.mean * float64(s.total),
		ViewCountMonthlyEstimate:       s.mean * s.monthlyUploads(),
		VideosCount:                    s.total,
		VideosSampleCount:              s.size,
		VideosCountRaw:                 s.total,
		AverageViewsEstimate:           s.mean,
		MedianViewsEstimate:            s.median,
		StandardDeviationViewsEstimate: s.deviation,
		ViewVariationCoefficient:       divideOrZero(s.deviation, s.mean),
		AvgViewsToSubscribersRatio:     s.viewsPerSubscriber(),
	}
	for i := range s.entries {
		t.PositiveOutliersCount += oneIf(s.entries[i].isPositive())
		t.NegativeOutliersCount += oneIf(s.entries[i].isNegative())
	}
	s.datedStatistics(&t)
	return t
}

// datedStatistics sets what needs dates and durations, which the list of shorts does not have.
func (s *Sample) datedStatistics(t *ChannelStatistics) {
	if s.kind == Short || len(s.entries) == 0 {
		return
	}
	t.VideosCountRaw = formatCount(int64(s.total)) + " videos"
	t.AverageVideoDurationEstimate = new(s.length)
	t.LastPublishedAtEstimate = new(parseAge(s.newest, s.at).Format(WithMillis))
	oldest := s.entries[len(s.entries)-1].Published
	t.OldestParsedPublishedAtEstimate = new(parseAge(oldest, s.at).Format(WithMillis))
}

func oneIf(yes bool) int {
	if yes {
		return 1
	}
	return 0
}

// PictureHost is the host in the addresses of pictures.
const PictureHost = "thumbs.simulator.invalid"

// pictureSizes are the width and height of pictures, by the names in their addresses.
var pictureSizes = map[string][2]int{
	"default": {120, 90}, "mqdefault": {320, 180}, "hqdefault": {480, 360},
	"portrait": {405, 720}, "portrait-high": {1080, 1920},
}

// PictureSize returns the width and height of pictures with a name; 0 if there are none.
func PictureSize(name string) (width, height int) {
	size := pictureSizes[name]
	return size[0], size[1]
}

func newFrame(id, name string) thumbnail {
	width, height := PictureSize(name)
	return thumbnail{"https://" + PictureHost + "/vi/" + id + "/" + name + ".jpg", width, height}
}

func frameSizes(id string) thumbnails {
	return thumbnails{Default: newFrame(id, "default"), Medium: newFrame(id, "mqdefault"), High: newFrame(id, "hqdefault")}
}

func (u *Upload) isLive() bool { return u.Kind == Video && Hash(u.address())%50 == 0 }

func (u *Upload) liveDetails() map[string]bool {
	if u.isLive() {
		return map[string]bool{"wasLive": true}
	}
	return map[string]bool{}
}

// hiddenCounts are the two numbers that a creator may hide.
func (u *Upload) hiddenCounts(g Gaps, at time.Time) (comments, likes *int64) {
	return orNull(g.commentsDisabled, u.Comments(at)), orNull(g.likesHidden, u.likes(at))
}

// DetailsAnswer is the details of an upload.
func (l *Library) DetailsAnswer(id string, now time.Time) any {
	at := sampledAt(now)
	u, ok := l.findUpload(id, at)
	g := u.knownGaps(ok)
	if g.deleted {
		return nil
	}
	comments, likes := u.hiddenCounts(g, at)
	s := detailSnippet{
		CategoryID: u.Channel.Niche.categoryID, ChannelID: u.Channel.ID, ChannelTitle: u.Channel.title,
		Description: u.makeDescription(), IsLiveBroadcast: u.isLive(), PublishedAt: u.Published.Format(noMillis),
		Thumbnails: frameSizes(id), Title: u.titleAt(at), Duration: u.duration,
	}
	if !g.noLanguages {
		s.DefaultAudioLanguage = languages[u.Channel.language]
		s.DefaultLanguage = new(languages[u.Channel.language])
	}
	return DetailsAnswer{
		IDs: []string{id}, Time: now.Format(noMillis),
		Items: []detailItem{{id, "video", s, DetailStatistics{comments, likes, u.Views(at)}}},
	}
}

// knownGaps treats an upload that was not found as deleted.
func (u *Upload) knownGaps(found bool) Gaps {
	if !found {
		return Gaps{deleted: true}
	}
	return u.gaps()
}

// maxComments is how many comments an answer has at most, the newest ones.
const maxComments = 100

// CommentsAnswer is the newest comments under an upload, at most [maxComments].
func (l *Library) CommentsAnswer(id string, now time.Time) any {
	at := sampledAt(now)
	u, ok := l.findUpload(id, at)
	g := u.knownGaps(ok)
	if g.deleted {
		return nil
	}
	item := commentItem{ID: id, Comments: []comment{}}
	if !g.commentsDisabled {
		total := u.Comments(at)
		item.Statistics.Count = total
		for n := total - 1; n >= 0 && n >= total-maxComments; n-- {
			item.Comments = append(item.Comments, u.nthComment(n, at))
		}
	}
	return commentsAnswer{IDs: []string{id}, Items: []commentItem{item}, Time: now.Format(WithMillis)}
}

// nthComment is the n-th comment under u, as of the given time.
func (u *Upload) nthComment(n int64, at time.Time) comment {
	d := Random(u.Channel.Seed, forComment, u.address(), uint64(n))
	v := u.phrases()
	written := u.reachesShareAt(min(float64(n+1)/(u.potential*u.discussed), 1-1e-9)) // all views are never reached
	if written.After(at) {
		written = at
	}
	likes := int64(math.Exp(1.5 * d.NormFloat64()))
	replies := max(0, int64(3*d.NormFloat64()))
	c := comment{
		AuthorText:  "@" + strings.ReplaceAll(pickOne(d, v.people), " ", "") + fmt.Sprint(d.IntN(10000)),
		Text:        fillTemplate(pickOne(d, v.comments), u.topicName(), d, v),
		PublishedAt: written.Format(WithMillis), PublishedAtRaw: formatAge(at.Sub(written)),
		LikesCount: likes, LikesCountRaw: likes, ReplyCount: replies, ReplyCountRaw: replies,
	}
	c.AuthorChannelID = "UC" + encodeBits(d.Uint64(), d.Uint64())
	if Chance(d, 0.02) {
		c.AuthorIsChannelOwner, c.AuthorChannelID, c.AuthorText = true, u.Channel.ID, u.Channel.handle
	}
	face := "https://" + PictureHost + "/ch/" + c.AuthorChannelID
	c.AuthorThumbnail = []thumbnail{{face + "=s48", 48, 48}, {face + "=s88", 88, 88}, {face + "=s176", 176, 176}}
	return c
}

// maxEvents bounds a transcript.
const maxEvents = 600

// TranscriptAnswer is the transcript of an upload, at most [maxEvents] events.
func (l *Library) TranscriptAnswer(id string, now time.Time) any {
	u, ok := l.findUpload(id, sampledAt(now))
	g := u.knownGaps(ok)
	if g.deleted || g.transcript == transcript404 {
		return nil
	}
	a := transcriptAnswer{IDs: []string{id}, Items: []transcriptItem{}}
	switch g.transcript {
	case transcriptNoEvents:
		a.Items = append(a.Items, transcriptItem{ID: id, Events: []event{}})
	case hasTranscript:
		a.Items = append(a.Items, u.makeTranscript())
	}
	return a
}

// makeTranscript has an event every two to four seconds.
func (u *Upload) makeTranscript() transcriptItem {
	d := Random(u.Channel.Seed, forTranscript, u.address())
	v, topic := u.phrases(), u.topicName()
	var events []event
	var said []string
	for start := d.Int64N(1500); start < u.duration*1000 && len(events) < maxEvents; {
		next := start + 2000 + d.Int64N(2000)
		e := event{StartMs: start, DurationMs: next - start + d.Int64N(500)} // events may overlap a little
		e.EndMs = e.StartMs + e.DurationMs
		e.Text = fillTemplate(pickOne(d, v.spoken), topic, d, v)
		events = append(events, e)
		said = append(said, e.Text)
		start = next
	}
	return transcriptItem{ID: u.ID(), Events: slices.Clip(events), Transcript: strings.Join(said, " ")}
}

// estimateRange is a range of 70 to 80 % up to 120 to 140 % of an estimate.
func estimateRange(d *rand.Rand, mid float64) (from, to float64) {
	return math.Round(mid*(0.7+0.1*d.Float64())*100) / 100, math.Round(mid*(1.2+0.2*d.Float64())*100) / 100
}
