package command

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"outlierd/cmd/outlierd/page"
	"outlierd/cmd/outlierd/term"
	"outlierd/sync/engine"
	"outlierd/sync/marks"
	"outlierd/sync/serve"
	"outlierd/sync/store"
)

// marked is what people have marked, as it is now: the published table follows later.
type marked struct {
	ByID  map[string]marks.Mark
	Views []page.View
}

// on sets what a video is marked with.
func (m *marked) on(c *page.Card) {
	if mark, is := m.ByID[c.ID]; is {
		c.Starred, c.Hidden, c.Tags, c.Note = mark.Starred, mark.Hidden, mark.Tags, mark.Note
	}
}

// marksIn returns a function that reads the marks of a state.
func marksIn(db *store.Store) func() (*marked, error) {
	return func() (*marked, error) {
		m := &marked{ByID: map[string]marks.Mark{}}
		return m, db.View(func(tx *store.Tx) error {
			all, err := marks.List(tx)
			if err != nil {
				return err
			}
			for _, mark := range all {
				m.ByID[mark.Video] = mark
			}
			views, err := marks.Views(tx)
			for _, v := range views {
				m.Views = append(m.Views, page.View{Name: v.Name, Address: v.Address})
			}
			return err
		})
	}
}

// marking changes marks and saved views for a page.
type marking struct{ engine *engine.Engine }

// mark carries out a form of the page.
func (m marking) mark(ctx context.Context, f page.Marking) error {
	edit := marks.Edit{Videos: f.IDs, Star: f.Star, Hide: f.Hide, Tag: f.Tag, Note: f.Note}
	if f.Set { // all other tags are removed
		var before map[string]marks.Mark
		err := m.engine.Store.DB.View(func(tx *store.Tx) (err error) {
			before, err = marks.Of(tx, f.IDs)
			return err
		})
		if err != nil {
			return err
		}
		for _, mark := range before {
			for _, tag := range mark.Tags {
				if !slices.Contains(f.Tag, tag) {
					edit.Untag = append(edit.Untag, tag)
				}
			}
		}
	}
	_, err := serve.EditMarks{Edit: edit}.Do(ctx, m.engine)
	return refusalOf(err)
}

// views returns the saved views.
func (m marking) views(context.Context) ([]page.View, error) {
	known, err := marksIn(m.engine.Store.DB)()
	if err != nil {
		return nil, err
	}
	return known.Views, nil
}

// saveView saves a view, renames the old one, or deletes it if the name is empty.
func (m marking) saveView(_ context.Context, old, name, address string) error {
	return refusalOf(m.engine.Store.DB.Update(func(tx *store.Tx) error {
		switch {
		case name == "":
			return marks.DeleteView(tx, old)
		case old != "":
			return marks.RenameView(tx, old, name)
		}
		return marks.SaveView(tx, marks.View{Name: name, Address: address})
	}))
}

// refusalOf converts the error of an edit that is not accepted for the page.
func refusalOf(err error) error {
	invalid, is := errors.AsType[*marks.InvalidError](err)
	switch {
	case is:
		return &page.RefusedError{Why: invalid.Error() + "."}
	case errors.Is(err, serve.ErrBadRequest):
		return &page.RefusedError{Why: term.Plain(err.Error()) + "."}
	}
	return err
}

// export writes videos as a list for colleagues.
func (t *publishedTables) export(cards []page.Card, format string) ([]byte, error) {
	var b bytes.Buffer
	list, err := term.NewList(format, &b, t.zone, []string{"title", "channel", "times_average", "times_median", "score", "views",
		"views_per_day", "subscribers", "published", "found", "topic", "tags", "note", "link"})
	if err != nil {
		return nil, err
	}
	for i := range cards {
		c := &cards[i]
		err := list.Row([]any{term.Link{Text: c.Title, Address: c.Link}, c.Channel, given(c.Ratio), given(c.Median), given(c.Score), given(c.Views),
			given(c.Gain), given(c.Subscribers), when(c.Published), when(c.Found), strings.Join(c.Topics, ", "), strings.Join(c.Tags, ", "), c.Note,
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
