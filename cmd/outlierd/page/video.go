package page

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"outlierd/internal/figures"
)

// Video is what the tables have about a video. Unknown numbers are nil.
type Video struct {
	Card
	Likes, Remarks *int64    // Remarks is the number of comments
	Average        *int64    // views of the channel's average video
	First, Last    time.Time // the first and last sighting

	Description string
	Curve       []Point // views over time
	Uploads     []Card  // of its channel, the newest first, with their numbers alone
	Sightings   []Sighting
	Changes     []Change // the newest first
	Comments    []Comment
	Lines       []Line
	LineCount   int64  // matching lines, on all pages
	Alike       []Card // other outliers of the same searches, the strongest first

	Filter VideoFilter
	Way    *way // nil unless the reader came from a list
}

// Sighting is a hit of a search.
type Sighting struct {
	At              time.Time
	Job, Run, Topic string
	Page, Rank      *int64 // from 1
}

// Change is a change of the title, the picture, or both.
type Change struct {
	At            time.Time
	Before, After string // titles; "" if it stayed the same
	Pictured      bool   // the picture was changed
}

// What says what was changed.
func (c Change) What() string {
	switch {
	case c.Pictured && c.After != "":
		return "title and thumbnail"
	case c.Pictured:
		return "thumbnail"
	}
	return "title"
}

// Comment is a comment on a video.
type Comment struct {
	Author, Text string
	At           time.Time
	Likes        *int64
	Owner        bool // the channel's owner wrote it
}

// Line is a line of a transcript, with the milliseconds at which it begins.
type Line struct {
	Start int64
	Text  string
}

// Second and Clock are when it begins.
func (l Line) Second() int64 { return l.Start / 1000 }
func (l Line) Clock() string { return figures.Clock(l.Second()) }

// VideoFilter selects a video and lines of its transcript.
type VideoFilter struct {
	ID    string
	Words string // words that the lines contain; "" for all lines
	All   bool   // the whole transcript, instead of its first [Opening]
	Page  int    // of [LinesPerPage] lines, from 1
}

// Opening is how much of a transcript is shown at first.
const Opening = 30 * time.Second

// LinesPerPage is the number of transcript lines per page.
const LinesPerPage = 500

// Channel is what the tables have about a channel.
type Channel struct {
	ID, Title, Handle, Description string
	Last                           time.Time

	// Median is the median of the views of its videos. Outliers are those among the sampled videos.
	Subscribers, Videos, Average, Median, Outliers *int64
	OneHit                                         bool

	Curve       []Point // subscribers over time
	Found       []Card  // its outliers, the strongest first
	Uploads     []Card  // with their numbers alone
	UploadCount int64   // on all pages

	Page int // of the videos
}

// ChannelFilter selects a channel and a page of its videos.
type ChannelFilter struct {
	ID   string
	Page int // of [PerPage] videos, from 1
}

// videoAddress returns the address of a video's page. It leads to the neighbours in a list, in which the video is the
// nth, unless list is "".
func videoAddress(id, list string, nth int) string {
	address := "/videos/" + url.PathEscape(id)
	if list == "" {
		return address
	}
	return address + "?" + url.Values{"in": {list}, "n": {strconv.Itoa(nth)}}.Encode()
}

// serveVideo shows a video.
func (s *Site) serveVideo(w http.ResponseWriter, r *http.Request) error {
	form := r.URL.Query()
	number, err := pageOf(form)
	if err == nil {
		err = checkTexts(url.Values{"words": form["words"]})
	}
	if err != nil {
		return badRequest("%w", err)
	}
	f := VideoFilter{ID: r.PathValue("video"), Words: strings.TrimSpace(form.Get("words")),
		All: form.Has("words") || form.Has("page"), Page: number}
	v, err := readTables(s, fmt.Sprint("video ", f), func(ctx context.Context) (*Video, error) { return s.from.Video(ctx, f) })
	if err != nil {
		return err
	}
	v.Filter = f
	if v.Way, err = wayOf(s, form); err != nil {
		return err
	}
	return s.render.show(w, r, view{"video.html", v.Title, "Found", v})
}

// way is the list that a reader came from.
type way struct {
	List, Name, Previous, Next string // addresses
	Nth, Total                 int64
}

// wayOf returns the way to the neighbours in the list that an address names; nil without one.
func wayOf(s *Site, form url.Values) (*way, error) {
	nth, wrong := strconv.Atoi(form.Get("n"))
	if wrong != nil || nth < 1 || !isList(form.Get("in")) {
		return nil, nil
	}
	f, err := FilterOf(form.Get("in"))
	if err != nil {
		return nil, err
	}
	first := max(1, nth-1)
	f.Offset, f.Limit = first-1, 3
	found, err := findMatches(s, f)
	if err != nil {
		return nil, err
	}
	w := &way{List: f.address(1), Name: "Found", Nth: int64(nth), Total: found.Total}
	for _, view := range found.Views {
		if view.Address == w.List {
			w.Name = view.Text
		}
	}
	for i, c := range found.Cards {
		switch first + i {
		case nth - 1:
			w.Previous = videoAddress(c.ID, w.List, nth-1)
		case nth + 1:
			w.Next = videoAddress(c.ID, w.List, nth+1)
		}
	}
	return w, nil
}

// serveChannel shows a channel.
func (s *Site) serveChannel(w http.ResponseWriter, r *http.Request) error {
	number, err := pageOf(r.URL.Query())
	if err != nil {
		return badRequest("%w", err)
	}
	f := ChannelFilter{ID: r.PathValue("channel"), Page: number}
	v, err := readTables(s, fmt.Sprint("channel ", f), func(ctx context.Context) (*Channel, error) { return s.from.Channel(ctx, f) })
	if err != nil {
		return err
	}
	v.Page = number
	return s.render.show(w, r, view{"channel.html", v.Title, "Found", &v})
}

// maxUploads is the number of uploads in a chart.
const maxUploads = 30

// plotUploads plots uploads, the oldest first, with one highlighted and the average as a line.
func plotUploads(channel string, uploads []Card, id string, average *int64) *plot {
	uploads = uploads[:min(len(uploads), maxUploads)]
	if len(uploads) < 3 {
		return nil
	}
	var columns []column
	this := ""
	for i := len(uploads) - 1; i >= 0; i-- {
		u := &uploads[i]
		views, class := int64(0), "usual"
		if u.Views != nil {
			views = *u.Views
		}
		if id == u.ID || id == "" && u.Ratio != nil && *u.Ratio >= limits[0] {
			class = fmt.Sprint("f", levelOf(u.Ratio))
		}
		if u.ID == id && u.Views != nil {
			this = ", this one " + formatShort(u.Views)
		}
		columns = append(columns, column{u.Published, fmt.Sprintf("%s: %s views", u.Title, formatThousands(views)), []part{{class, float64(views)}},
			[]string{u.Title, formatWhole(u.Views), formatTimes(u.Ratio)}})
	}
	p := plotColumns(fmt.Sprintf("Views of the last %d uploads of %s%s", len(columns), channel, this), "Jan 2006",
		[]string{"Upload", "Views", "÷ average"}, columns)
	if average != nil {
		p.addMean(float64(*average), "average "+formatShort(average))
	}
	return p
}

// Against compares the video with the other uploads of its channel. If it is older than them, it is the first one.
func (v *Video) Against() *plot {
	uploads := v.Uploads[:min(len(v.Uploads), maxUploads)]
	if !slices.ContainsFunc(uploads, func(u Card) bool { return u.ID == v.ID }) {
		uploads = append(slices.Clone(uploads[:min(len(uploads), maxUploads-1)]), v.Card)
	}
	return plotUploads(v.Channel, uploads, v.ID, v.Average)
}

// maxLiked is the number of comments that are shown at first.
const maxLiked = 5

// Liked are the comments with most likes, and Others all others.
func (v *Video) Liked() []Comment  { return v.Comments[:min(maxLiked, len(v.Comments))] }
func (v *Video) Others() []Comment { return v.Comments[min(maxLiked, len(v.Comments)):] }

// Against shows the uploads of the channel.
func (v *Channel) Against() *plot {
	if v.Page > 1 {
		return nil
	}
	return plotUploads(v.Title, v.Uploads, "", v.Average)
}

// plotGrowth plots a number over time.
func plotGrowth(what, unit string, curve []Point) *plot {
	if len(curve) == 0 {
		return nil
	}
	first, last := curve[0], curve[len(curve)-1]
	says := fmt.Sprintf("%s from %s on %s to %s on %s", what, figures.Short(float64(first.N)), first.At.Format("2 January"),
		figures.Short(float64(last.N)), last.At.Format("2 January"))
	p := plotLine(says, curve, func(p Point) string {
		return fmt.Sprintf("%s: %s %s", p.At.Format("2 Jan 15:04"), figures.Short(float64(p.N)), unit)
	})
	if p == nil {
		return nil
	}
	p.Head = []string{"Seen", what, "a day"}
	for i := len(curve) - 1; i >= 0; i-- {
		daily := "–"
		if i > 0 {
			if days := curve[i].At.Sub(curve[i-1].At).Hours() / 24; days > 0 {
				n := float64(curve[i].N-curve[i-1].N) / days
				daily = figures.Signed(n)
			}
		}
		p.Rows = append(p.Rows, []string{curve[i].At.Format("2006-01-02 15:04"), formatThousands(curve[i].N), daily})
	}
	return p
}

// Growth plots the views over time, with the changes.
func (v *Video) Growth() *plot {
	p := plotGrowth("Views", "views", v.Curve)
	if p != nil {
		for _, c := range v.Changes {
			p.markChange(c.At, "new "+c.What()+", "+c.At.Format("2 Jan"))
		}
	}
	return p
}

// Growth plots the subscribers over time.
func (v *Channel) Growth() *plot { return plotGrowth("Subscribers", "subscribers", v.Curve) }

// Changed is a change, with the views gained a day before and after it.
type changed struct {
	Change
	Ahead, Since string
	Up           bool
}

// Changed returns the changes with their effect.
func (v *Video) Changed() (all []changed) {
	for _, c := range v.Changes {
		row := changed{Change: c}
		at, _ := slices.BinarySearchFunc(v.Curve, c.At, func(p Point, at time.Time) int { return p.At.Compare(at) })
		was, knownBefore := dailyGrowth(v.Curve[:at])
		is, knownAfter := dailyGrowth(v.Curve[max(0, at-1):]) // the sighting before the change is the first of what came after it
		if knownBefore {
			row.Ahead = figures.Signed(was) + " a day before"
		}
		if knownAfter {
			row.Since = figures.Signed(is) + " a day after"
		}
		row.Up = knownBefore && knownAfter && is > was
		all = append(all, row)
	}
	return all
}

// dailyGrowth returns the growth a day over points that are at least a day apart.
func dailyGrowth(points []Point) (float64, bool) {
	if len(points) < 2 {
		return 0, false
	}
	first, last := points[max(0, len(points)-4)], points[len(points)-1]
	days := last.At.Sub(first.At).Hours() / 24
	return float64(last.N-first.N) / max(days, 1e-9), days >= 1
}

// fact is a number with its name.
type fact struct{ Name, Value, Title string }

// Facts are the eight numbers of a video.
func (v *Video) Facts() []fact {
	perSubscriber := ""
	if v.Views != nil && v.Subscribers != nil && *v.Subscribers > 0 {
		perSubscriber = figures.Digits(float64(*v.Views) / float64(*v.Subscribers))
	}
	return []fact{
		{"against its median", orDash(formatTimes(v.Median)), ""}, {"score", orDash(formatDecimal(v.Score)), "standard deviations above the channel’s average"},
		{"views", formatWhole(v.Views), ""}, {"a day now", orDash(optional(figures.Signed)(v.Gain)), gainedExactly(v.Gain)},
		{"likes", orDash(formatShort(v.Likes)), formatWhole(v.Likes)}, {"comments", formatWhole(v.Remarks), ""},
		{"views per subscriber", orDash(perSubscriber), ""}, {"length", orDash(v.Length()), ""},
	}
}

func orDash(text string) string {
	if text == "" {
		return "–"
	}
	return text
}

// IsNiche reports whether what was searched for has a page: a seed of a related search has none.
func (v *Video) IsNiche(topic string) bool { return slices.Contains(v.Topics, topic) }

// Waited says how long after its publication a search first found the video.
func (v *Video) Waited() string {
	if v.Found.IsZero() || v.Published.IsZero() || v.Found.Before(v.Published) {
		return ""
	}
	return formatCount(int(v.Found.Sub(v.Published).Hours()/24), "day")
}

// Pages are the neighbouring lines.
func (v *Video) Pages() pager {
	more := v.Filter.All && int64(v.Filter.Page)*LinesPerPage < v.LineCount
	return pagesBeside(v.Filter.Page, more, func(page int) string {
		return pageAddress("/videos/"+url.PathEscape(v.ID), url.Values{"words": {v.Filter.Words}}, page) + "#transcript"
	})
}

// Pages are the neighbouring videos.
func (v *Channel) Pages() pager {
	return pagesBeside(v.Page, int64(v.Page)*PerPage < v.UploadCount, func(page int) string {
		return pageAddress("/channels/"+url.PathEscape(v.ID), url.Values{}, page)
	})
}
