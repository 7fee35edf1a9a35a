package notify

import (
	"bytes"
	"context"
	"encoding/xml"
	"errors"
	"net/url"
	"slices"
	"strings"
	"time"

	"outlierd/internal/excerpt"
)

// maxEntries is the number of videos in a feed.
const maxEntries = 100

// entryTimes are the columns that say when an entry was last changed. The first one of them in a row counts.
var entryTimes = []string{"first_seen_at", "observed_at", "published_at"}

// ErrNoFeed is returned for rows of which none can be an entry.
var ErrNoFeed = errors.New("a feed needs SQL that selects video_id and one of " + strings.Join(entryTimes, ", "))

// atomFeed is a feed of RFC 4287. Its texts are no markup.
type atomFeed struct {
	XMLName xml.Name `xml:"http://www.w3.org/2005/Atom feed"`
	atomText
	Links   []atomLink  `xml:"link"`
	Entries []atomEntry `xml:"entry"`
}

type atomEntry struct {
	atomText
	Link    atomLink `xml:"link"`
	Summary string   `xml:"summary"`
}

// atomText is what a feed and its entries both have.
type atomText struct {
	ID      string      `xml:"id"`
	Title   string      `xml:"title"`
	Updated time.Time   `xml:"updated"`
	Author  *atomPerson `xml:"author"`
}

type atomPerson struct {
	Name string `xml:"name"`
}

type atomLink struct {
	Rel  string `xml:"rel,attr"`
	Type string `xml:"type,attr,omitempty"`
	Href string `xml:"href,attr"`
}

// Feed is the result of SQL as an Atom feed.
type Feed struct {
	Name, SQL  string
	Self, Page string    // the addresses of the feed, and of a page for people
	Published  time.Time // the tables; the time of a feed without entries
}

// Write returns the first videos of the result. A video of several rows is shown as in its first one.
func (f *Feed) Write(ctx context.Context, ask func(ctx context.Context, sql string) ([]string, error)) ([]byte, error) {
	rows, _, err := firstRows(ctx, f.SQL, nil, maxEntries, ask)
	if err != nil {
		return nil, err
	}
	feed := atomFeed{Links: []atomLink{{"self", "application/atom+xml", f.Self}, {"alternate", "text/html", f.Page}}}
	feed.Author = &atomPerson{"outlierd"} // of entries without a channel
	feed.ID, feed.Title = "urn:outlierd:question:"+url.PathEscape(f.Name), oneLine(f.Name)
	for i := range rows {
		e := rows[i].makeEntry()
		known := slices.ContainsFunc(feed.Entries, func(other atomEntry) bool { return other.ID == e.ID })
		if e.ID == "" || e.Updated.IsZero() || known {
			continue
		}
		feed.Entries = append(feed.Entries, e)
		if e.Updated.After(feed.Updated) {
			feed.Updated = e.Updated
		}
	}
	switch {
	case len(rows) == 0:
		feed.Updated = f.Published.UTC()
	case len(feed.Entries) == 0:
		return nil, ErrNoFeed
	}
	out := bytes.NewBufferString(xml.Header)
	w := xml.NewEncoder(out) // which replaces what XML cannot have
	w.Indent("", "  ")
	err = w.Encode(feed)
	return append(out.Bytes(), '\n'), err
}

// makeEntry returns a row as an entry, without an id if it has no video.
func (r *Row) makeEntry() (e atomEntry) {
	video := r.videoID()
	if video == "" {
		return e
	}
	e.ID, e.Title = "urn:outlierd:video:"+video, excerpt.Runes(oneLine(r.heading()), maxTitle)
	if channel := oneLine(r.channelName()); channel != "" {
		e.Author = &atomPerson{excerpt.Runes(channel, maxTitle)}
	}
	e.Link = atomLink{"alternate", "text/html", "https://youtu.be/" + video}
	for _, name := range entryTimes {
		if at, is := readTime(r.Values[name]); is && e.Updated.IsZero() {
			e.Updated = at.UTC()
		}
	}
	// An age would become wrong while a reader keeps the entry.
	e.Summary = excerpt.Runes(oneLine(r.glanceText(func(at time.Time) string { return at.Format(time.DateOnly) })), maxText)
	return e
}
