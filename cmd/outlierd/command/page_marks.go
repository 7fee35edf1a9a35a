package command

import (
	"context"

	"outlierd/cmd/outlierd/page"
	"outlierd/cmd/outlierd/term"
	"outlierd/sync/engine"
	"outlierd/sync/marks"
	"outlierd/sync/serve"
	"outlierd/sync/store"
)

// marking changes marks and saved views for a page.
type marking struct{ engine *engine.Engine }

// editMarks changes the marks of videos.
func (m marking) editMarks(ctx context.Context, edit marks.Edit) error {
	_, err := serve.EditMarks{Edit: edit}.Do(ctx, m.engine)
	return refusalOf(err)
}

// saveView saves a view, renames the old one, or deletes it if the name is empty.
func (m marking) saveView(old, name, address string) error {
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
