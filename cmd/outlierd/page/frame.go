package page

import (
	"fmt"
	"net/http"
	"net/url"
	"time"

	"outlierd/internal/figures"
	"outlierd/outlier"
	"outlierd/sync/marks"
)

// frame is what every page has around its own data.
type frame struct {
	view
	Style, Script string
	Sections      []Link
	Problems      string // "" without any
	ProblemCount  int
	Running       string // the job that runs
	Left          string // credits of the cycle
	Newest        string // when the newest data was received
	Old           string // that this was too long ago

	Acts, Known, Marks bool   // actions are offered; somebody is logged in; who may mark videos
	Form, Here         string // the secret of the login; the address of the page
	Feed               string // the address of the page as a feed; "" for most
	Pictured, Priced   bool   // there are pictures; there is the page Money
	Pictureless        string // why no pictures are fetched at the moment
	now                time.Time
	from               *Sources
}

var sections = []Link{
	{Text: "Found", Address: "/"}, {Text: "Niches", Address: "/niches"}, {Text: "Now", Address: "/now"},
	{Text: "Money", Address: "/money"}, {Text: "Ask", Address: "/ask"},
}

// newFrame returns the frame of a page.
func (p *renderer) newFrame(r *http.Request, v view) *frame {
	f := &frame{view: v, Style: styleAddress, Script: scriptAddress, Acts: p.from.Offer != nil,
		Pictured: p.from.Thumbnails != nil, Priced: p.from.Money != nil, now: time.Now(), from: p.from}
	if p.from.ThumbnailTrouble != nil {
		if err := p.from.ThumbnailTrouble(); err != nil {
			f.Pictureless = err.Error()
		}
	}
	if r.Method == http.MethodGet {
		f.Here = r.URL.RequestURI()
	}
	if asked, is := v.Data.(askView); is {
		f.Feed = asked.Feed()
	}
	for _, section := range sections {
		if section.Text == "Money" && !f.Priced {
			continue
		}
		f.Sections = append(f.Sections, section)
	}
	if session := p.logins.sessionOf(r); session != "" {
		f.Known, f.Form = true, formMark(session)
		f.Marks = p.from.Mark != nil
	}
	if !f.Known && (v.name == "login.html" || r.URL.Path == "/login" || r.URL.Path == "/logout") {
		return f // the status is shown after a login only
	}
	now, shown := v.Data.(*Now)
	if !shown {
		now = p.glanceAt(r)
	}
	if now == nil {
		return f
	}
	if f.ProblemCount = len(now.Problems()); f.ProblemCount > 0 {
		f.Problems = formatCount(f.ProblemCount, "problem")
	}
	f.Running, f.Old = now.Running(), now.Old()
	if !now.Newest.IsZero() {
		f.Newest = now.In.Short(now.Newest, now.At)
	}
	if now.Cycle != nil {
		f.Left = formatThousands(now.Cycle.Left)
	}
	return f
}

// Card is a video in a list. Numbers that the service did not give are nil.
type Card struct {
	ID, Title, Link    string // Link is the address of the video; "" if the id has an unknown form
	ChannelID, Channel string
	Subscribers        *int64
	Kind, Language     string
	Seconds, Views     *int64
	Ratio, Score       *float64  // times the channel's average
	Published, Found   time.Time // in the zone of the page; zero if unknown
	Gain, Median       *float64  // views gained a day; times the channel's median
	OneHit             bool      // a few videos have most of the channel's views
	Topics             []string  // what it was searched for

	marks.Mark
}

// tile is a card on a page.
type tile struct {
	*Card
	Address, Picture, Age string
	Eager, Marks          bool // the picture is loaded at once; a star is a button
}

// eager is the number of pictures that are loaded at once: those that are seen first.
const eager = 10

// Tiles returns cards for the page. list is the address of the list that they are from, and first the number of the
// first card in it; previous and next on the page of a video follow it.
func (f *frame) Tiles(cards []Card) []tile { return f.tilesOf(cards, "", 0) }

func (f *frame) tilesOf(cards []Card, list string, first int) (all []tile) {
	for i := range cards {
		t := tile{Card: &cards[i], Address: videoAddress(cards[i].ID, list, first+i), Eager: i < eager, Marks: f.Marks}
		if !cards[i].Published.IsZero() {
			t.Age = figures.Age(f.now, cards[i].Published)
		}
		t.Picture = f.Image(cards[i].ID, 320)
		all = append(all, t)
	}
	return all
}

// Image returns the address of a video's picture; "" without pictures.
func (f *frame) Image(id string, width int) string {
	if !f.Pictured {
		return ""
	}
	return fmt.Sprintf("/thumbnails/%s?s=%d", url.PathEscape(id), width)
}

// ImageAt returns the address of the picture that a video had a second before or after a time.
func (f *frame) ImageAt(id string, at time.Time, seconds int64) string {
	return fmt.Sprintf("%s&at=%d", f.Image(id, 320), at.Unix()+seconds)
}

// PriceOf is what a page of a search costs, and Price says it.
func (f *frame) PriceOf(op outlier.Operation) outlier.Credits {
	var prices outlier.Prices
	if f.from.Prices != nil {
		prices = f.from.Prices()
	}
	return prices.Of(op, "")
}

func (f *frame) Price(op outlier.Operation) string { return formatCount(f.PriceOf(op), "credit") }

// RestPrice is what the pages cost that a search has left; "" without one, or if the service has counted no further.
func (f *frame) RestPrice(pages *int64, total int64) string {
	if pages == nil || *pages == 0 || total >= 10_000 {
		return ""
	}
	return formatCount(f.PriceOf(outlier.OpSearch)*outlier.Credits(*pages), "credit")
}

// Related are the searches for look-alikes of a video.
func (f *frame) Related(id, title string) []Link {
	var all []Link
	for _, by := range []choice{{"thumbnail_video_id", "Like its thumbnail"}, {"title", "Like its title"}, {"video_id", "Like the video"}} {
		form := url.Values{"video": {id}, "by": {by.Value}}
		if by.Value == "title" {
			form.Set("title", title)
		}
		all = append(all, Link{Text: by.Text, Address: "/do/" + LookAlikes + "?" + form.Encode(), Price: f.Price(outlier.OpRelated)})
	}
	return all
}

// Length returns the duration as the platform shows it.
func (c *Card) Length() string {
	switch {
	case c.Kind == "short":
		return "Short"
	case c.Seconds == nil:
		return ""
	}
	return figures.Clock(*c.Seconds)
}
