package library

import (
	"fmt"
	"math"
	"strings"
	"time"
)

// The answers, as the JSON of the interface. Those of the data endpoints are nil if the entity does not exist.

// object is a JSON object.
type object = map[string]any

// orNull returns the value, or nil if it is lacking.
func orNull(lacking bool, value any) any {
	if lacking {
		return nil
	}
	return value
}

const (
	WithMillis = "2006-01-02T15:04:05.000Z" // the service uses both forms
	noMillis   = "2006-01-02T15:04:05Z"
)

// Answer is the hit in an answer (interface, Outlier hit).
func (h *Hit) Answer(at time.Time) any {
	c := h.Channel
	monthly := h.sample.monthlyRevenue()
	snippet := object{
		"channelId": c.ID, "channelTitle": c.title, "channelHandle": c.handle, "channelSubscribers": h.sample.subscribers,
		"title": h.Title, "publishedAt": h.Published.Format(WithMillis), "language": languages[c.language],
		"thumbnails": orNull(h.Gaps.noThumbnails, frameSizes(h.ID())), "duration": h.duration,
		"channelMonetization": object{
			"revenueMonthlyEstimationFrom": monthly.from, "revenueMonthlyEstimationTo": monthly.to,
			"rpmEstimationFrom": h.sample.rpm.from, "rpmEstimationTo": h.sample.rpm.to, "adsense": c.adsense,
		},
	}
	if !h.Gaps.unpriced {
		revenue := h.revenue()
		snippet["monetization"] = object{
			"rpmEstimationFrom": h.rpm.from, "rpmEstimationTo": h.rpm.to,
			"revenueEstimationFrom": revenue.from, "revenueEstimationTo": revenue.to,
		}
	}
	statistics := h.counts(h.Gaps, at)
	statistics["viewCount"] = h.Views
	h.entry.compare(statistics)
	statistics["zScore"] = orNull(h.Gaps.unscored, h.z)
	return object{
		"id": h.ID(), "kind": h.Kind.String(), "time": at.Format(WithMillis), "snippet": snippet, "statistics": statistics,
		"classification": orNull(h.Gaps.unclassified, c.classification()),
	}
}

// compare adds how an upload compares with its channel.
func (e *entry) compare(statistics object) {
	statistics["zScore"], statistics["averageViewsRatio"] = e.z, e.ratio
	statistics["isPositiveOutlier"], statistics["isNegativeOutlier"] = e.isPositive(), e.isNegative()
}

// counts has the two numbers that a creator may hide.
func (u *Upload) counts(g Gaps, at time.Time) object {
	return object{
		"commentCount": orNull(g.commentsDisabled, u.Comments(at)), "likeCount": orNull(g.likesHidden, u.likes(at)),
	}
}

// Answer is the channel in the answer of a search, which the interface does not document.
func (s *Sample) Answer() any {
	c, g := s.channel, s.channel.gaps
	ratio, known := s.viewsRatio()
	return object{
		"id":      c.ID,
		"snippet": object{"handle": orNull(g.noHandle, c.handle), "title": c.title, "contentKind": c.uploadKinds()},
		"statistics": object{
			"subscribers":                orNull(g.subscribersHidden, s.subscribers),
			"averageViews":               orNull(s.count == 0, s.mean),
			"avgViewsToSubscribersRatio": orNull(!known, ratio),
		},
		"language":       object{"code": orNull(g.noLanguage, languages[c.language])},
		"monetization":   object{"adsense": orNull(g.noAdsense, c.adsense)},
		"classification": orNull(g.unclassified, c.classification()),
	}
}

// ChannelAnswer is a channel with a sample of its uploads of a kind (interface, Channel with videos and Channel with
// shorts).
func (l *Library) ChannelAnswer(id string, k Kind, now time.Time) any {
	c, ok := l.ByID[id]
	if !ok || c.Gone {
		return nil
	}
	s := c.Sample(k, sampledAt(now))
	picture := func(size string) object { return object{"url": "https://" + PictureHost + "/ch/" + c.ID + size} }
	return object{"id": id, "time": now.Format(WithMillis), "item": object{
		"id": id, "kind": "channel", k.String() + "s": s.list(), "statistics": s.Statistics(),
		"snippet": object{
			"handle": c.handle, "title": c.title, "description": c.description, "keywords": c.keywords,
			"thumbnails": object{"default": picture("=s88"), "medium": picture("=s240"), "high": picture("=s800")},
		},
	}}
}

// list returns the uploads of a sample. Less is known of shorts.
func (s *Sample) list() []object {
	uploads := make([]object, len(s.entries))
	for i := range s.entries {
		e := &s.entries[i]
		id, statistics := e.ID(), object{}
		e.compare(statistics)
		u := object{"id": id, "title": e.makeTitle(), "viewCount": e.Views, "statistics": statistics}
		if s.kind == Short {
			u["thumbnails"] = []object{newFrame(id, "portrait"), newFrame(id, "portrait-high")}
		} else {
			live := object{}
			if e.isLive() {
				live["wasLive"] = true
			}
			u["thumbnails"], u["duration"], u["isLiveBroadcast"] = frameSizes(id), e.duration, live
			u["publishedAtEstimate"] = parseAge(e.Published, s.at).Format(WithMillis)
		}
		uploads[i] = u
	}
	return uploads
}

// Statistics are what the service shows of a sample.
func (s *Sample) Statistics() object {
	positive, negative := 0, 0
	for i := range s.entries {
		positive += countTrue(s.entries[i].isPositive())
		negative += countTrue(s.entries[i].isNegative())
	}
	statistics := object{
		"subscriberCount": s.subscribers, "subscriberCountRaw": formatCount(s.subscribers) + " subscribers",
		"viewCountEstimate": s.mean * float64(s.total), "viewCountMonthlyEstimate": s.monthlyViews(),
		"videosCount": s.total, "videosSampleCount": s.count, "videosCountRaw": s.total,
		"averageViewsEstimate": s.mean, "medianViewsEstimate": s.median, "standardDeviationViewsEstimate": s.deviation,
		"viewVariationCoefficient":   s.variation(),
		"avgViewsToSubscribersRatio": s.viewsPerSubscriber(),
		"positiveOutliersCount":      positive, "negativeOutliersCount": negative,
		"averageVideoDurationEstimate": nil, "lastPublishedAtEstimate": nil, "oldestParsedPublishedAtEstimate": nil,
	}
	if s.kind == Video && len(s.entries) > 0 { // the list of shorts has no dates and durations
		age := func(e *entry) string { return parseAge(e.Published, s.at).Format(WithMillis) }
		statistics["videosCountRaw"] = formatCount(int64(s.total)) + " videos"
		statistics["averageVideoDurationEstimate"] = s.length
		statistics["lastPublishedAtEstimate"] = age(&s.entries[0])
		statistics["oldestParsedPublishedAtEstimate"] = age(&s.entries[len(s.entries)-1])
	}
	return statistics
}

func countTrue(yes bool) int {
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

// PictureSize returns the width and height of pictures with a name; 0 for an unknown name.
func PictureSize(name string) (width, height int) {
	size := pictureSizes[name]
	return size[0], size[1]
}

func newFrame(id, name string) object {
	width, height := PictureSize(name)
	return object{"url": "https://" + PictureHost + "/vi/" + id + "/" + name + ".jpg", "width": width, "height": height}
}

func frameSizes(id string) object {
	return object{
		"default": newFrame(id, "default"), "medium": newFrame(id, "mqdefault"), "high": newFrame(id, "hqdefault"),
	}
}

func (u *Upload) isLive() bool { return u.Kind == Video && Hash(u.address())%50 == 0 }

// DetailsAnswer is the details of an upload (interface, Video details).
func (l *Library) DetailsAnswer(id string, now time.Time) any {
	at := sampledAt(now)
	u, g := l.findKnown(id, at)
	if g.deleted {
		return nil
	}
	language := languages[u.Channel.language]
	snippet := object{
		"categoryId": u.Channel.Niche.categoryID, "channelId": u.Channel.ID, "channelTitle": u.Channel.title,
		"description": u.makeDescription(), "isLiveBroadcast": u.isLive(), "publishedAt": u.Published.Format(noMillis),
		"thumbnails": frameSizes(id), "title": u.titleAt(at), "duration": u.duration,
		"defaultLanguage": orNull(g.noLanguages, language),
	}
	if !g.noLanguages {
		snippet["defaultAudioLanguage"] = language
	}
	statistics := u.counts(g, at)
	statistics["viewCount"] = u.Views(at)
	return object{
		"ids": []string{id}, "time": now.Format(noMillis),
		"items": []object{{"id": id, "kind": "video", "snippet": snippet, "statistics": statistics}},
	}
}

// findKnown finds an upload and what the service does not have of it. One that was not found counts as deleted.
func (l *Library) findKnown(id string, at time.Time) (*Upload, Gaps) {
	u, ok := l.findUpload(id, at)
	if !ok {
		return nil, Gaps{deleted: true}
	}
	return &u, u.gaps()
}

// maxComments is how many comments an answer has at most, the newest ones.
const maxComments = 100

// CommentsAnswer is the newest comments under an upload, at most [maxComments] (interface, Video comments).
func (l *Library) CommentsAnswer(id string, now time.Time) any {
	at := sampledAt(now)
	u, g := l.findKnown(id, at)
	if g.deleted {
		return nil
	}
	comments, total := []object{}, int64(0)
	if !g.commentsDisabled {
		total = u.Comments(at)
		for n := total - 1; n >= 0 && n >= total-maxComments; n-- {
			comments = append(comments, u.nthComment(n, at))
		}
	}
	return object{"ids": []string{id}, "time": now.Format(WithMillis), "items": []object{
		{"id": id, "comments": comments, "statistics": object{"count": total}}, // the count is of the video
	}}
}

// nthComment is the n-th comment under u, as of the given time.
func (u *Upload) nthComment(n int64, at time.Time) object {
	d := Random(u.Channel.Seed, forComment, u.address(), uint64(n))
	v := u.phrases()
	written := u.reachesShareAt(min(float64(n+1)/(u.potential*u.discussed), 1-1e-9)) // all views are never reached
	if written.After(at) {
		written = at
	}
	likes := int64(math.Exp(1.5 * d.NormFloat64()))
	replies := max(0, int64(3*d.NormFloat64()))
	author := "@" + strings.ReplaceAll(pickOne(d, v.people), " ", "") + fmt.Sprint(d.IntN(10000))
	text := fillTemplate(pickOne(d, v.comments), u.topicName(), d, v)
	channel := "UC" + encodeBits(d.Uint64(), d.Uint64())
	owner := Chance(d, 0.02)
	if owner {
		channel, author = u.Channel.ID, u.Channel.handle
	}
	face := func(size int) object {
		return object{"url": fmt.Sprintf("https://%s/ch/%s=s%d", PictureHost, channel, size), "width": size, "height": size}
	}
	return object{
		"authorChannelId": channel, "authorText": author, "authorIsChannelOwner": owner,
		"authorThumbnail": []object{face(48), face(88), face(176)}, "text": text,
		"publishedAt": written.Format(WithMillis), "publishedAtRaw": formatAge(at.Sub(written)),
		"likesCount": likes, "likesCountRaw": likes, "replyCount": replies, "replyCountRaw": replies,
	}
}

// maxEvents bounds a transcript.
const maxEvents = 600

// TranscriptAnswer is the transcript of an upload, at most [maxEvents] events (interface, Video transcript).
func (l *Library) TranscriptAnswer(id string, now time.Time) any {
	u, g := l.findKnown(id, sampledAt(now))
	items := []object{}
	switch {
	case g.deleted || g.transcript == transcript404:
		return nil
	case g.transcript == transcriptNoEvents:
		items = append(items, object{"id": id, "events": []object{}, "transcript": ""})
	case g.transcript == hasTranscript:
		items = append(items, u.makeTranscript())
	}
	return object{"ids": []string{id}, "items": items}
}

// makeTranscript has an event every two to four seconds.
func (u *Upload) makeTranscript() object {
	d := Random(u.Channel.Seed, forTranscript, u.address())
	v, topic := u.phrases(), u.topicName()
	events, said := []object{}, []string{}
	for start := d.Int64N(1500); start < u.duration*1000 && len(events) < maxEvents; {
		next := start + 2000 + d.Int64N(2000)
		lasts := next - start + d.Int64N(500) // events may overlap a little
		text := fillTemplate(pickOne(d, v.spoken), topic, d, v)
		events = append(events, object{"startMs": start, "durationMs": lasts, "endMs": start + lasts, "text": text})
		said = append(said, text)
		start = next
	}
	return object{"id": u.ID(), "events": events, "transcript": strings.Join(said, " ")}
}
