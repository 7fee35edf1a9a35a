package pagedata

import (
	"bytes"
	"fmt"
	"strings"
	"time"

	"outlierd/cmd/outlierd/page"
	"outlierd/cmd/outlierd/term"
	"outlierd/sync/marks"
	"outlierd/sync/store"
)

// Marked is what people have marked, as it is now: the published table follows later.
type Marked struct {
	ByID  map[string]marks.Mark
	Views []marks.View
}

// MarksIn returns a function that reads the marks of a state.
func MarksIn(db *store.Store) func() (*Marked, error) {
	return func() (*Marked, error) {
		m := &Marked{ByID: map[string]marks.Mark{}}
		return m, db.View(func(tx *store.Tx) error {
			all, err := marks.List(tx)
			if err != nil {
				return err
			}
			for _, mark := range all {
				m.ByID[mark.Video] = mark
			}
			m.Views, err = marks.Views(tx)
			return err
		})
	}
}

// Export writes videos as a list for colleagues.
func (t *Tables) Export(cards []page.Card, format string) ([]byte, error) {
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
