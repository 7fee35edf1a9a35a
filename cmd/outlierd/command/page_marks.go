package command

import (
	"context"
	"slices"

	"outlierd/cmd/outlierd/page"
	"outlierd/cmd/outlierd/pagedata"
	"outlierd/cmd/outlierd/term"
	"outlierd/sync/engine"
	"outlierd/sync/marks"
	"outlierd/sync/serve"
	"outlierd/sync/store"
)

// marking changes marks and saved views for a page.
type marking struct{ engine *engine.Engine }

// editMarks carries out a form of the page.
func (m marking) editMarks(ctx context.Context, f page.Marking) error {
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

// listViews returns the saved views.
func (m marking) listViews(context.Context) ([]page.View, error) {
	known, err := pagedata.MarksIn(m.engine.Store.DB)()
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
	if isA[*marks.InvalidError](err) || isA[*serve.RefusedError](err) {
		return &page.RefusedError{Why: term.Plain(err.Error()) + "."}
	}
	return err
}
