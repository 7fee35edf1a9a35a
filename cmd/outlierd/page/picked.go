package page

import (
	"bytes"
	"context"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"outlierd/cmd/outlierd/term"
)

// mostPicked is the number of videos that can be picked at once.
const mostPicked = 200

// files are the formats of an export of picked videos.
var fileFormats = []choice{{"links", "Links"}, {"csv", "CSV"}, {"xlsx", "Excel"}, {"md", "Markdown"}}

// servePicked shows the picked videos as a board, or sends them as a file.
func (s *Site) servePicked(w http.ResponseWriter, r *http.Request) error {
	form := r.URL.Query()
	ids := slices.Compact(form["v"])
	if len(ids) > mostPicked {
		return badRequest("%d videos are too many; pick at most %d.", len(ids), mostPicked)
	}
	if err := checkTexts(form); err != nil {
		return badRequest("%w", err)
	}
	cards, err := readTables(s, "picked "+strings.Join(ids, " "), func(ctx context.Context) ([]Card, error) { return s.from.Picked(ctx, ids) })
	if err != nil {
		return err
	}
	if format := form.Get("as"); format != "" {
		return writeExport(w, s.from.Export, cards, format)
	}
	return s.render.show(w, r, view{"picked.html", formatCount(len(cards), "picked video"), "Found", pickedView{cards, ids}})
}

// writeExport sends videos as a file. Links and Markdown are shown by the browser, so that they can be copied.
func writeExport(w http.ResponseWriter, export func([]Card, string) ([]byte, error), cards []Card, format string) error {
	if export == nil || !slices.ContainsFunc(fileFormats, func(c choice) bool { return c.Value == format }) {
		return badRequest("as: unknown format %.40q", format)
	}
	file, err := export(cards, format)
	if err != nil {
		return err
	}
	w.Header().Set("Content-Type", FileTypes[format])
	if format == "csv" || format == "xlsx" {
		w.Header().Set("Content-Disposition", `attachment; filename="outlierd.`+format+`"`)
	}
	_, _ = w.Write(file) // whether the client has read it is its own affair
	return nil
}

// Export writes videos as a list for colleagues.
func (t *Tables) Export(cards []Card, format string) ([]byte, error) {
	var b bytes.Buffer
	list, err := term.NewList(format, &b, t.Zone, []string{"title", "channel", "times_average", "times_median", "score", "views",
		"views_per_day", "subscribers", "published", "found", "topic", "tags", "note", "link"})
	if err != nil {
		return nil, err
	}
	for i := range cards {
		c := &cards[i]
		err := list.Row([]any{term.Link{Text: c.Title, Address: c.Link}, c.Channel, given(c.Ratio), given(c.Median), given(c.Score), given(c.Views),
			given(c.Gain), given(c.Subscribers), knownTime(c.Published), knownTime(c.Found), strings.Join(c.Topics, ", "), strings.Join(c.Tags, ", "), c.Note,
			c.Link})
		if err != nil {
			return nil, err
		}
	}
	if err := list.Close(); err != nil {
		return nil, fmt.Errorf("write a list as %s: %w", format, err)
	}
	return b.Bytes(), nil
}

// given returns a number of a row, or nil.
func given[N int64 | float64](n *N) any {
	if n == nil {
		return nil
	}
	return *n
}

// knownTime returns a time of a row, or nil.
func knownTime(t time.Time) any {
	if t.IsZero() {
		return nil
	}
	return t
}

// pickedView is the data of the board.
type pickedView struct {
	Cards []Card
	ids   []string
}

// IDs are the ids of the videos that were found.
func (v pickedView) IDs() (all []string) {
	for i := range v.Cards {
		all = append(all, v.Cards[i].ID)
	}
	return all
}

// Missing is the number of picked videos that are not there any more.
func (v pickedView) Missing() int64 { return int64(len(v.ids) - len(v.Cards)) }

// Files are the addresses of the board in other formats.
func (v pickedView) Files() (all []Link) {
	for _, f := range fileFormats {
		all = append(all, Link{Text: f.Text, Address: "/picked?" + url.Values{"v": v.IDs(), "as": {f.Value}}.Encode()})
	}
	return all
}
