package command

import (
	"context"
	"errors"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"outlierd/outlier"
	"outlierd/sync/marks"
	"outlierd/sync/serve"
	"outlierd/sync/store"
)

func markCommand(g *globals) *cobra.Command {
	var star, unstar, hide, unhide bool
	var note string
	var edit marks.Edit
	c := &cobra.Command{
		Use: "mark [VIDEO…]", Short: "Star, hide, tag or annotate videos; list marks",
		Long: `Star, hide or tag videos, or write a note about them, as on the page of 'outlierd up', and
list the marks of these videos. Without a VIDEO, list all marks.

A VIDEO is an id or an address. Marks are in the view "marks" of the published tables, so
SQL, exports and jobs can use them: "select video_id from marks where starred".`,
		Example: `  outlierd mark dQw4w9WgXcQ --star --tag hook --note "opens with the result"
  outlierd mark
  outlierd sql "select title, note from outliers join marks using (video_id) where starred"`,
		RunE: func(c *cobra.Command, videos []string) error {
			for _, given := range videos {
				id, err := outlier.ParseVideoID(given)
				if err != nil {
					return usageError{err}
				}
				if !slices.Contains(edit.Videos, id) {
					edit.Videos = append(edit.Videos, id)
				}
			}
			changed := c.Flags().Changed
			if star || unstar {
				edit.Star = &star
			}
			if hide || unhide {
				edit.Hide = &hide
			}
			if changed("note") {
				edit.Note = &note
			}
			isEdit := edit.Star != nil || edit.Hide != nil || edit.Note != nil || len(edit.Tag)+len(edit.Untag) > 0
			if isEdit && len(videos) == 0 {
				return usageError{errors.New("name the videos to mark")}
			}
			return g.withState(c.Context(), toChange, func(ctx context.Context, p *program) error {
				if isEdit {
					_, err := change(ctx, p, serve.EditMarks{Edit: edit})
					if err == nil && p.daemon == nil { // a sink that does not work gets them when it does
						err = p.Engine.Publish(ctx)
					}
					if err != nil {
						return err
					}
				}
				return listMarks(g.out, p, edit.Videos)
			})
		},
	}
	flags := c.Flags()
	flags.BoolVar(&star, "star", false, "star the videos")
	flags.BoolVar(&unstar, "unstar", false, "remove the stars")
	flags.BoolVar(&hide, "hide", false, "leave the videos out of the lists of the page")
	flags.BoolVar(&unhide, "unhide", false, "show hidden videos again")
	flags.StringSliceVar(&edit.Tag, "tag", nil, "add a tag; may be repeated")
	flags.StringSliceVar(&edit.Untag, "untag", nil, "remove a tag; may be repeated")
	flags.StringVar(&note, "note", "", `replace the note; "" removes it`)
	exclude(c, "star", "unstar")
	exclude(c, "hide", "unhide")
	return c
}

// listMarks prints the marks of videos, or all marks.
func listMarks(out *printer, p *program, of []string) error {
	var all []marks.Mark
	err := p.Engine.Store.DB.View(func(tx *store.Tx) (err error) {
		all, err = marks.List(tx)
		return err
	})
	if err != nil {
		return err
	}
	all = slices.DeleteFunc(all, func(m marks.Mark) bool { return len(of) > 0 && !slices.Contains(of, m.Video) })
	return printList(out, each(all), []string{"video_id", "starred", "hidden", "tags", "note", "marked_at"}, func(m marks.Mark) []any {
		return []any{m.Video, m.Starred, m.Hidden, strings.Join(m.Tags, ", "), m.Note, when(m.Marked)}
	})
}
