package command

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"outlierd/cmd/outlierd/term"
	"outlierd/sync/job"
	"outlierd/sync/runs"
	"outlierd/sync/serve"
	"outlierd/sync/state"
)

func cursorCommand(g *globals) *cobra.Command {
	return group("cursor", "Show, set or reset the cursors of jobs",
		`The cursor of a search is the time at which its last complete run started. Searches of a job
with "published_at: since last success" start from there, less the overlap. The cursor moves
when a search is complete, not when a cap or an error ended it.`,
		cursorShowCommand(g), cursorSetCommand(g), cursorResetCommand(g))
}

func cursorShowCommand(g *globals) *cobra.Command {
	return &cobra.Command{
		Use: "show [JOB]", Short: "List the cursors of one job or of all",
		RunE: g.inSession(toRead, func(_ context.Context, p *program, args []string) error {
			name := strings.Join(args, "") // "" for all
			marks, err := p.Engine.Store.Watermarks.List(name)
			if err == nil && name != "" {
				err = refuseUnknown(p, name)
			}
			if err != nil {
				return err
			}
			return printList(g.out, each(marks), []string{"job", "key", "at", "set_by", "set_at"}, func(m runs.Watermark) []any {
				return []any{m.Job, m.Key, when(m.At), cmp.Or(m.Run, "by hand"), when(m.Set)}
			})
		}),
	}
}

func cursorSetCommand(g *globals) *cobra.Command {
	var key string
	c := &cobra.Command{
		Use: "set JOB TIME", Short: "Set the date from which the next run searches",
		Long: `Set the cursors of a job, forward or back. TIME is a date, which begins at midnight in
the timezone of the job file, or a time such as 2026-11-01T12:00Z. Searches that
have no cursor yet get one.`,
		Example: "  outlierd cursor set coffee 2026-11-01",
		RunE: g.inSession(toChange, func(ctx context.Context, p *program, args []string) error {
			config := p.Engine.Config
			if err := refuseUnknown(p, args[0]); err != nil {
				return err
			}
			at, err := parsePast(args[1], config.Timezone)
			if err != nil {
				return err
			}
			if spec := config.Job(args[0]); spec != nil && !spec.SinceLastSuccess() {
				return usageError{fmt.Errorf("job %s has no cursor to set: "+
					"only a job with `published_at: since last success` has one", spec.Name)}
			}
			keys, err := cursorKeys(ctx, config, p.Engine.Store, args[0])
			if err != nil {
				return err
			}
			if key != "" && !slices.Contains(keys, key) {
				return usageError{fmt.Errorf("--key: job %s has no search with this key; it has:\n  %s",
					args[0], strings.Join(keys, "\n  "))}
			}
			if key != "" {
				keys = []string{key}
			}
			set := serve.SetCursors{Job: args[0], Keys: keys, At: at}
			if _, err := change(ctx, p, set); err != nil {
				return err
			}
			return g.out.print(set,
				"%s of %s set to %s\n", term.Count(len(keys), "cursor"), args[0], at.Format("2006-01-02 15:04 MST"))
		}),
	}
	c.Flags().StringVar(&key, "key", "", "set only the cursor with this key, as 'cursor show --wide' lists it")
	return c
}

// cursorsReset is the output of cursor reset for programs.
type cursorsReset struct {
	Job     string `json:"job"`
	Cursors int    `json:"cursors"` // that were deleted
}

func cursorResetCommand(g *globals) *cobra.Command {
	return &cobra.Command{
		Use: "reset JOB", Short: "Delete the cursors of a job",
		Long: `Delete the cursors of a job. Its next run searches like its first one, from "first" of its
window, and buys fresh seeds again.`,
		RunE: g.inSession(toChange, func(ctx context.Context, p *program, args []string) error {
			if err := refuseUnknown(p, args[0]); err != nil {
				return err
			}
			deleted, err := change(ctx, p, serve.ResetCursors{Job: args[0]})
			if err != nil {
				return err
			}
			return g.out.print(cursorsReset{args[0], deleted},
				"%s of %s deleted; its next run searches like its first one\n", term.Count(deleted, "cursor"), args[0])
		}),
	}
}

// cursorKeys returns the searches of a job: those that have a cursor, and those that it would make now.
func cursorKeys(ctx context.Context, config *job.Config, store *state.Store, name string) ([]string, error) {
	marks, err := store.Watermarks.List(name)
	if err != nil {
		return nil, err
	}
	var keys []string
	for _, m := range marks {
		keys = append(keys, m.Key)
	}
	if spec := config.Job(name); spec != nil {
		work, err := spec.Resolve(job.Inputs{
			Now:   time.Now(),
			Since: func(key string) (time.Time, error) { return store.Watermarks.At(name, key) },
			IDs:   func(sql, column string) ([]string, error) { return seeds(config)(ctx, sql, column) },
		})
		if err != nil {
			return nil, err
		}
		for _, ask := range work.Asks {
			keys = append(keys, ask.Watermark)
		}
	}
	slices.Sort(keys)
	if keys = slices.Compact(keys); len(keys) == 0 {
		return nil, fmt.Errorf("job %s has no searches now, so it has no cursor to set", name)
	}
	return keys, nil
}

// parsePast parses a date or a time in the past.
func parsePast(text string, zone *time.Location) (time.Time, error) {
	at, err := job.ParseInstant(text, zone)
	if err != nil {
		return at, usageError{err}
	}
	if at.After(time.Now()) {
		return at, usageError{fmt.Errorf("%s is in the future; a cursor cannot be later than now", text)}
	}
	return at.In(zone), nil
}
