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
func (s *Shared) WriteHTML(w io.Writer) error { return pages().ExecuteTemplate(w, "share.html", s) }

// Style is our own file.
func (s *Shared) Style() template.CSS { return template.CSS(style) }

// inlinePicture returns a picture as an address. Its content cannot be anything else than base64.
func inlinePicture(p thumbnails.Picture) template.URL {
	return template.URL("data:" + p.Type + ";base64," + base64.StdEncoding.EncodeToString(p.Data))
}
