package command

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/spf13/cobra"

	"outlierd/cmd/outlierd/report"
	"outlierd/cmd/outlierd/term"
	"outlierd/sync/forecast"
	"outlierd/sync/job"
	"outlierd/sync/queue"
	"outlierd/sync/runs"
	"outlierd/sync/serve"
	"outlierd/sync/state"
)

// maxReason is the maximum length of a reason, in characters.
const maxReason = 200

func pauseCommand(g *globals) *cobra.Command {
	var until, why string
	c := &cobra.Command{
		Use: "pause JOB…", Short: "Pause the schedules of jobs",
		Long: `Pause the schedules of jobs, until --until or until 'outlierd resume'; @TAG stands for the
jobs with a tag. A run in progress is finished. Jobs that come "after" a paused job do not run
either. When the pause ends, "catch_up" of the job decides which of the missed due times
run. 'outlierd run JOB' runs a paused job.

--until takes a date, which begins at midnight in the timezone of the job file, a time such
as 2026-11-01T12:00Z, or a duration from now such as 12h.`,
		Example: `  outlierd pause @coffee
  outlierd pause coffee tea --until 2026-12-01 --why "budget is for the launch"`,
		RunE: g.inSession(toChange, func(ctx context.Context, p *program, names []string) error {
			config := p.Engine.Config
			names, err := expandTags(config, names, func(spec *job.Spec) error { return canPause(config, spec.Name) })
			if err != nil {
				return err
			}
			pauses, err := pausesOf(config, names, until, why)
			if err != nil {
				return err
			}
			if _, err := change(ctx, p, serve.PauseJobs{Pauses: pauses}); err != nil {
				return err
			}
			return g.out.print(pauses, "%s %s\n", strings.Join(names, ", "), report.Paused(&pauses[0], config.Timezone))
		}),
	}
	c.Flags().StringVar(&until, "until", "", "end the pause at this date or time, or after this long")
	c.Flags().StringVar(&why, "why", "", "a reason, which status and plan show")
	return c
}

// jobsResumed is the output of resume for programs.
type jobsResumed struct {
	Resumed []string `json:"resumed"`
}

func resumeCommand(g *globals) *cobra.Command {
	return &cobra.Command{
		Use: "resume JOB…", Short: "Resume the schedules of paused jobs",
		Long: `End the pauses of jobs; @TAG stands for the jobs with a tag. "catch_up" of the job decides
which of the missed due times run now: the latest one, all of them, or none.`,
		RunE: g.inSession(toChange, func(ctx context.Context, p *program, names []string) error {
			config := p.Engine.Config
			pauses, err := p.Engine.Store.Schedule.Pauses(time.Now())
			if err != nil {
				return err
			}
			if names, err = expandTags(config, names, anyJob); err != nil {
				return err
			}
			resumed, said := []string{}, ""
			for _, name := range names {
				switch {
				case pauses[name] != nil:
					resumed = append(resumed, name)
					said += name + " resumed\n"
				case config.Job(name) == nil:
					return noJob(config, name, ", and no job of that name is paused")
				default:
					said += name + " is not paused\n"
				}
			}
			if _, err := change(ctx, p, serve.ResumeJobs{Jobs: resumed}); err != nil {
				return err
			}
			return g.out.print(jobsResumed{resumed}, "%s", said)
		}),
	}
}

// canPause returns an error if a job is not in the file or has no schedule.
func canPause(config *job.Config, name string) error {
	spec := config.Job(name)
	switch {
	case spec == nil:
		return noJob(config, name, "")
	case len(spec.Schedule) == 0 && spec.Every == 0 && spec.After == "":
		return usageError{fmt.Errorf("job %s runs by hand only: it has no schedule to pause", name)}
	}
	return nil
}

// pausesOf returns the pauses of jobs from now until a date, a time or for a duration; "" for no end.
func pausesOf(config *job.Config, names []string, until, why string) (all []runs.Pause, err error) {
	pause := runs.Pause{Since: time.Now(), Why: strings.TrimSpace(why)}
	if utf8.RuneCountInString(pause.Why) > maxReason {
		return nil, usageError{fmt.Errorf("the reason may have at most %d characters", maxReason)}
	}
	if long, wrong := job.ParseDuration(until); wrong == nil {
		pause.Until = pause.Since.Add(time.Duration(long))
	} else if until != "" {
		if pause.Until, err = job.ParseInstant(until, config.Timezone); err != nil {
			return nil, usageError{fmt.Errorf("until %s: want a date, a time such as 2026-11-01T12:00Z or a duration such as 12h", until)}
		}
		if !pause.Until.After(pause.Since) {
			return nil, usageError{fmt.Errorf("until %s: must be in the future", until)}
		}
	}
	for _, name := range names {
		if err := canPause(config, name); err != nil {
			return nil, err
		}
		pause.Job = name
		all = append(all, pause)
	}
	return all, nil
}

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
			return printList(g.out, marks, []string{"job", "key", "at", "set_by", "set_at"}, func(m runs.Watermark) []any {
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

// maxQueue is the default of --limit.
const maxQueue = 40

func queueCommand(g *globals) *cobra.Command {
	limit := maxQueue
	c := &cobra.Command{
		Use: "queue [JOB]", Short: "List queued calls with reason and estimated time",
		Long: `List the queue of all jobs or of one, in the order of execution: the open searches and
scans of unfinished runs, and the data calls. It lists the first 40; --limit 0 lists all.

  job      the jobs that need it, the first to request it before the others
  value    of a data call: higher values come first, and it grows by 1 each day
  done_at  the estimated time at the current pace, if no run comes due meanwhile`,
		RunE: g.inSession(toRead, func(_ context.Context, p *program, args []string) error {
			name := strings.Join(args, "")
			if err := refuseUnknown(p, name); err != nil {
				return err
			}
			columns := []string{"job", "operation", "entity", "value", "done_at", "why", "since"}
			waiting, err := p.forecasts().Queue(name, limit)
			if err == nil {
				err = printList(g.out, waiting, columns, waitingRow)
			}
			if err != nil || g.out.forPrograms() || limit == 0 {
				return err
			}
			queued, err := p.Engine.Store.Queue.Queued(queue.Filter{Job: name})
			if queued > limit {
				fmt.Fprintf(g.out.w, "These are the first of %s, which take %s at the current pace. --limit 0 lists all.\n",
					term.Count(queued, "queued call"), term.Duration(p.Engine.Pace.ETA(queued)))
			}
			return err
		}),
	}
	c.Flags().IntVar(&limit, "limit", limit, "list at most this many; 0 for all")
	c.AddCommand(queueClearCommand(g))
	return c
}

// waitingRow returns the row of a queued call.
func waitingRow(w forecast.Waiting) []any {
	var value any
	if w.Value != nil {
		value = math.Round(*w.Value*100) / 100
	}
	var names []string
	for _, name := range append([]string{w.Job}, w.Others...) {
		names = append(names, job.Shown(name))
	}
	return []any{strings.Join(names, ", "), string(w.Op), w.Entity, value, when(w.At.Round(time.Second)), term.Plain(w.Why), w.Since}
}

func queueClearCommand(g *globals) *cobra.Command {
	return &cobra.Command{
		Use: "clear JOB", Short: "Cancel a job's queued calls",
		Long: `Cancel a job's queued calls, except those that another job needs, too. Stored answers stay.
If the job finds the same hits again, the calls are queued again.`,
		RunE: g.inSession(toChange, func(ctx context.Context, p *program, args []string) error {
			if err := refuseUnknown(p, args[0]); err != nil {
				return err
			}
			done, err := change(ctx, p, serve.ClearQueue{Job: args[0]})
			if err != nil {
				return err
			}
			others := ""
			if done.Kept > 0 {
				others = fmt.Sprintf("; %s stay queued for other jobs", term.Count(done.Kept, "call"))
			}
			return g.out.print(done, "%s of %s cancelled%s\n", term.Count(done.Dropped, "call"), args[0], others)
		}),
	}
}

// refuseUnknown refuses the name of a job that is neither in the file nor recorded.
func refuseUnknown(p *program, name string) error {
	if name == "" || p.Engine.Config.Job(name) != nil {
		return nil
	}
	names, err := p.Engine.Store.Jobs()
	if err == nil && !slices.Contains(names, name) {
		err = noJob(p.Engine.Config, name, ", and no job of that name has ever run")
	}
	return err
}
