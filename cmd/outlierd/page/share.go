package page

import (
	"encoding/base64"
	"html/template"
	"io"
	"time"

	"outlierd/cmd/outlierd/thumbnails"
)

// Shared is a list of videos for people who do not have the page. What the team thinks of them, such as notes, and
// what found them are not part of it.
type Shared struct {
	Title    string
	At       time.Time // of the data
	Cards    []Card
	Pictures map[string]thumbnails.Picture // by video
}

// WriteHTML writes the list as one file that loads nothing else.
func (s *Shared) WriteHTML(w io.Writer) error {
	v := sharedView{Shared: s, Style: template.CSS(style)} // our own file
	for i := range s.Cards {
		v.Tiles = append(v.Tiles, sharedTile{Card: &s.Cards[i], Picture: s.Pictures[s.Cards[i].ID]})
	}
	return pages().ExecuteTemplate(w, "share.html", v)
}

// sharedView is the data of the file.
type sharedView struct {
	*Shared
	Style template.CSS
	Tiles []sharedTile
}

// Count is the number of videos, and Pictured reports whether any has a picture.
func (v sharedView) Count() int64   { return int64(len(v.Tiles)) }
func (v sharedView) Pictured() bool { return len(v.Pictures) > 0 }

// At is the date of the data.
func (v sharedView) At() string { return v.Shared.At.Format("2006-01-02 15:04 MST") }

type sharedTile struct {
	*Card
	thumbnails.Picture
}

// Inline returns the picture as an address. Its content cannot be anything else than base64.
func (t sharedTile) Inline() template.URL {
	return template.URL("data:" + t.Type + ";base64," + base64.StdEncoding.EncodeToString(t.Data))
}
