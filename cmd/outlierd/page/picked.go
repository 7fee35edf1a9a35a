package page

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"outlierd/sinks/duckdb/database"
	"outlierd/sinks/duckdb/query"
)

// maxPicked is the number of videos that can be picked at once.
const maxPicked = 200

// files are the formats of an export of picked videos.
var fileFormats = []choice{{"links", "Links"}, {"csv", "CSV"}, {"xlsx", "Excel"}, {"md", "Markdown"}}

// servePicked shows the picked videos as a board, or sends them as a file.
func (s *Site) servePicked(w http.ResponseWriter, r *http.Request) error {
	form := r.URL.Query()
	ids := slices.Compact(form["v"])
	if len(ids) > maxPicked {
		return badRequest("%d videos are too many; pick at most %d.", len(ids), maxPicked)
	}
	if err := checkTexts(form); err != nil {
		return badRequest("%w", err)
	}
	if format := form.Get("as"); format != "" {
		sql, err := s.from.PickedSQL(ids)
		if err != nil {
			return err
		}
		return sendFile(s, w, r, sql, format)
	}
	v, err := readTables(s, "picked "+strings.Join(ids, " "), func(ctx context.Context) (*pickedView, error) {
		cards, err := s.from.Picked(ctx, ids)
		return &pickedView{cards, ids}, err
	})
	if err != nil {
		return err
	}
	return s.render.show(w, r, view{"picked.html", formatCount(len(v.Cards), "picked video"), "Found", v})
}

// PickedSQL returns a query for videos in the order of their ids, with what people have written about them.
func (t *Tables) PickedSQL(ids []string) (string, error) {
	marked, err := t.Marked()
	if err != nil {
		return "", err
	}
	rows := []string{"(NULL, NULL, NULL, NULL)"}
	for i, id := range ids {
		tags, note := strings.Join(marked.ByID[id].Tags, ", "), marked.ByID[id].Note
		rows = append(rows, fmt.Sprintf("(%d, %s, %s, %s)", i, database.Text(id), database.Text(tags), database.Text(note)))
	}
	return fmt.Sprintf("SELECT found.*, picked.tags, picked.note FROM (%s) AS found\n"+
		"JOIN (VALUES %s) AS picked(place, video_id, tags, note) USING (video_id) ORDER BY picked.place",
		query.Outliers{Only: ids}.Plain(), strings.Join(rows, ", ")), nil
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
