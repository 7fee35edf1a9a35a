package simulator

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"time"
)

// The answers of the data endpoints. Each is nil if there is no such thing.

const (
	withMillis = "2006-01-02T15:04:05.000Z" // both forms of times are seen
	noMillis   = "2006-01-02T15:04:05Z"
)

func (l *library) channelAnswer(id string, k kind, now time.Time) any {
	c, ok := l.byID[id]
	if !ok || c.gone {
		return nil
	}
	s := c.sample(k, measured(now))
	item := channelItem{ID: id, Kind: "channel", Snippet: c.snippet(), Statistics: s.statistics()}
	if k == short {
		item.Shorts = new(s.shorts())
	} else {
		item.Videos = new(s.videos())
	}
	return channelAnswer{ID: id, Time: now.Format(withMillis), Item: item}
}

func (c *channel) snippet() channelSnippet {
	base := "https://thumbs.simulator.invalid/ch/" + c.id
	return channelSnippet{
		Handle: c.handle, Title: c.title, Description: c.description, Keywords: c.keywords,
		Thumbnails: thumbnails{
			Default: thumbnail{URL: base + "=s88"}, Medium: thumbnail{URL: base + "=s240"}, High: thumbnail{URL: base + "=s800"},
		},
	}
}

func (s *sample) videos() []videoEntry {
	entries := make([]videoEntry, len(s.entries))
	for i := range s.entries {
		e := &s.entries[i]
		id := e.id()
		entries[i] = videoEntry{
			ID: id, Title: e.title(), Thumbnails: keyed(id), Duration: e.duration,
			IsLiveBroadcast: e.live(), PublishedAtEstimate: estimate(e.published, s.at).Format(withMillis),
			ViewCount: e.views, Statistics: e.statistics(),
		}
	}
	return entries
}

func (s *sample) shorts() []shortEntry {
	entries := make([]shortEntry, len(s.entries))
	for i := range s.entries {
		e := &s.entries[i]
		id := e.id()
		entries[i] = shortEntry{
			ID: id, Title: e.title(), ViewCount: e.views, Statistics: e.statistics(),
			Thumbnails: []thumbnail{{frame(id, "portrait"), 405, 720}, {frame(id, "portrait-high"), 1080, 1920}},
		}
	}
	return entries
}

func (e *entry) statistics() entryStatistics {
	return entryStatistics{e.z, e.ratio, e.positive(), e.negative()}
}

func (s *sample) statistics() channelStatistics {
	t := channelStatistics{
		SubscriberCount:                s.subscribers,
		SubscriberCountRaw:             roughly(s.subscribers) + " subscribers",
		ViewCountEstimate:              s.mean * float64(s.total),
		ViewCountMonthlyEstimate:       s.mean * s.monthly(),
		VideosCount:                    s.total,
		VideosSampleCount:              s.size,
		VideosCountRaw:                 s.total,
		AverageViewsEstimate:           s.mean,
		MedianViewsEstimate:            s.median,
		StandardDeviationViewsEstimate: s.deviation,
		ViewVariationCoefficient:       quotient(s.deviation, s.mean),
		AvgViewsToSubscribersRatio:     s.viewsPerSubscriber(),
	}
	for i := range s.entries {
		t.PositiveOutliersCount += count(s.entries[i].positive())
		t.NegativeOutliersCount += count(s.entries[i].negative())
	}
	s.datedStatistics(&t)
	return t
}

// datedStatistics are what a list of shorts does not show: it has neither dates nor durations.
func (s *sample) datedStatistics(t *channelStatistics) {
	if s.kind == short || len(s.entries) == 0 {
		return
	}
	t.VideosCountRaw = roughly(int64(s.total)) + " videos"
	t.AverageVideoDurationEstimate = new(s.length)
	t.LastPublishedAtEstimate = new(estimate(s.newest, s.at).Format(withMillis))
	t.OldestParsedPublishedAtEstimate = new(estimate(s.entries[len(s.entries)-1].published, s.at).Format(withMillis))
}

func count(yes bool) int {
	if yes {
		return 1
	}
	return 0
}

func frame(id, size string) string {
	return "https://thumbs.simulator.invalid/vi/" + id + "/" + size + ".jpg"
}

func keyed(id string) thumbnails {
	return thumbnails{
		Default: thumbnail{frame(id, "default"), 120, 90},
		Medium:  thumbnail{frame(id, "mqdefault"), 320, 180},
		High:    thumbnail{frame(id, "hqdefault"), 480, 360},
	}
}

func (u *upload) isLive() bool { return u.kind == video && hash(u.address())%50 == 0 }

func (u *upload) live() map[string]bool {
	if u.isLive() {
		return map[string]bool{"wasLive": true}
	}
	return map[string]bool{}
}

// counts are the two numbers that creators may hide.
func (u *upload) counts(g gaps, at time.Time) (comments, likes *int64) {
	if !g.commentsDisabled {
		comments = new(u.comments(at))
	}
	if !g.likesHidden {
		likes = new(u.likes(at))
	}
	return comments, likes
}

func (l *library) detailsAnswer(id string, now time.Time) any {
	at := measured(now)
	u, ok := l.find(id, at)
	g := u.knownGaps(ok)
	if g.deleted {
		return nil
	}
	comments, likes := u.counts(g, at)
	s := detailSnippet{
		CategoryID: u.channel.niche.categoryID, ChannelID: u.channel.id, ChannelTitle: u.channel.title,
		Description: u.description(), IsLiveBroadcast: u.isLive(), PublishedAt: u.published.Format(noMillis),
		Thumbnails: keyed(id), Title: u.title(), Duration: u.duration,
	}
	if !g.noLanguages {
		s.DefaultAudioLanguage = languages[u.channel.language]
		s.DefaultLanguage = new(languages[u.channel.language])
	}
	return detailsAnswer{
		IDs: []string{id}, Time: now.Format(noMillis),
		Items: []detailItem{{id, "video", s, detailStatistics{comments, likes, u.views(at)}}},
	}
}

// knownGaps treats an upload that was not found as one that was deleted.
func (u *upload) knownGaps(found bool) gaps {
	if !found {
		return gaps{deleted: true}
	}
	return u.gaps()
}

// maxComments is how many comments the interface gives of a video: the last ones.
const maxComments = 100

func (l *library) commentsAnswer(id string, now time.Time) any {
	at := measured(now)
	u, ok := l.find(id, at)
	g := u.knownGaps(ok)
	if g.deleted {
		return nil
	}
	item := commentItem{ID: id, Comments: []comment{}}
	if !g.commentsDisabled {
		total := u.comments(at)
		item.Statistics.Count = total
		for n := total - 1; n >= 0 && n >= total-maxComments; n-- {
			item.Comments = append(item.Comments, u.comment(n, at))
		}
	}
	return commentsAnswer{IDs: []string{id}, Items: []commentItem{item}, Time: now.Format(withMillis)}
}

// comment is the n-th comment under u, as it stands at an instant.
func (u *upload) comment(n int64, at time.Time) comment {
	d := dice(u.channel.seed, aboutComment, u.address(), uint64(n))
	v := u.voice()
	written := u.reached(min(float64(n+1)/(u.potential*u.discussed), 1-1e-9)) // the last share is reached never
	if written.After(at) {
		written = at
	}
	likes := int64(math.Exp(1.5 * d.NormFloat64()))
	replies := max(0, int64(3*d.NormFloat64()))
	c := comment{
		AuthorText:  "@" + strings.ReplaceAll(pick(d, v.names), " ", "") + fmt.Sprint(d.IntN(10000)),
		Text:        fill(pick(d, v.comments), u.topicName(), d, v),
		PublishedAt: written.Format(withMillis), PublishedAtRaw: ago(at.Sub(written)),
		LikesCount: likes, LikesCountRaw: likes, ReplyCount: replies, ReplyCountRaw: replies,
	}
	c.AuthorChannelID = "UC" + spell(d.Uint64(), d.Uint64())
	if chance(d, 0.02) {
		c.AuthorIsChannelOwner, c.AuthorChannelID, c.AuthorText = true, u.channel.id, u.channel.handle
	}
	face := "https://thumbs.simulator.invalid/ch/" + c.AuthorChannelID
	c.AuthorThumbnail = []thumbnail{{face + "=s48", 48, 48}, {face + "=s88", 88, 88}, {face + "=s176", 176, 176}}
	return c
}

// maxEvents bounds a transcript.
const maxEvents = 600

func (l *library) transcriptAnswer(id string, now time.Time) any {
	u, ok := l.find(id, measured(now))
	g := u.knownGaps(ok)
	if g.deleted || g.transcript == transcript404 {
		return nil
	}
	a := transcriptAnswer{IDs: []string{id}, Items: []transcriptItem{}}
	switch g.transcript {
	case transcriptNoEvents:
		a.Items = append(a.Items, transcriptItem{ID: id, Events: []event{}})
	case hasTranscript:
		a.Items = append(a.Items, u.transcript())
	}
	return a
}

// transcript is all that is said: an event every two to four seconds.
func (u *upload) transcript() transcriptItem {
	d := dice(u.channel.seed, aboutTranscript, u.address())
	v, topic := u.voice(), u.topicName()
	var events []event
	var said []string
	for start := d.Int64N(1500); start < u.duration*1000 && len(events) < maxEvents; {
		next := start + 2000 + d.Int64N(2000)
		e := event{StartMs: start, DurationMs: next - start + d.Int64N(500), Text: fill(pick(d, v.says), topic, d, v)}
		e.EndMs = e.StartMs + e.DurationMs // events may overlap a little
		events = append(events, e)
		said = append(said, e.Text)
		start = next
	}
	return transcriptItem{ID: u.id(), Events: slices.Clip(events), Transcript: strings.Join(said, " ")}
}

// chatter is a spread of up to a tenth around an estimate.
func chatter(d *rand.Rand, mid float64) (from, to float64) {
	return math.Round(mid*(0.7+0.1*d.Float64())*100) / 100, math.Round(mid*(1.2+0.2*d.Float64())*100) / 100
}
