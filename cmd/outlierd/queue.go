package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"outlierd/sync/job"
	"outlierd/sync/state"
)

func queueCommand(o *options) *cobra.Command {
	c := &cobra.Command{
		Use: "queue [JOB]", Short: "List the calls that wait, why, and when they will be done",
		Long: `List the data calls that wait, of all jobs or of one, in the order in which they will
be done: by what one request brings, and a day of waiting counts as much as the step
from one kind of data to the next. The time told is that of somebody who works on the
queue from now on, as 'outlierd up' does in the time between runs and 'outlierd run' in
a run of the same job; the pages of runs that come due first are reckoned with.

It works beside an instance that is running.`,
		Args: cobra.MaximumNArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			config, err := o.load()
			if err != nil {
				return err
			}
			return o.glance(c.Context(), config, func(p *program) error { return o.showQueue(p, strings.Join(args, "")) })
		},
	}
	c.AddCommand(queueClearCommand(o))
	return c
}

// showQueue lists the calls that wait for a job, or for all if the name is "". Jobs that
// have a new name are told by it, also where no run has carried the rename out yet.
func (o *options) showQueue(p *program, name string) error {
	name, now, err := p.recorded(name)
	if err != nil {
		return err
	}
	waiting, err := p.Queue(name)
	if err != nil {
		return err
	}
	zone := p.Config.Timezone
	var rows [][]any
	for _, w := range waiting {
		rows = append(rows, []any{cmp.Or(now[w.Job], w.Job), string(w.Op), w.Entity, w.Since.In(zone), w.At.In(zone).Round(time.Second), plain(w.Why)})
	}
	return o.rows([]string{"job", "operation", "entity", "since", "done_at", "why"}, rows)
}

func queueClearCommand(o *options) *cobra.Command {
	return &cobra.Command{
		Use: "clear JOB", Short: "Give up the calls that a job has waiting",
		Long: `Give up the calls that a job has waiting, but for those that another job wants, which go
on for that one. Nothing that was answered is lost; what the job wants of hits that it
meets again is queued anew.

It works beside an instance that is running, which takes notice.`,
		Args: cobra.ExactArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			config, err := o.load()
			if err != nil {
				return err
			}
			return o.glance(c.Context(), config, func(p *program) error { return o.clearQueue(c.Context(), p, args[0]) })
		},
	}
}

func (o *options) clearQueue(ctx context.Context, p *program, name string) error {
	was, _, err := p.recorded(name)
	if err != nil {
		return err
	}
	dropped, kept, err := state.Clear(ctx, filepath.Join(p.Config.Data, "state"), stateOptions(p.Config), was)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	fmt.Fprintf(o.out, "%s of %s given up", count(dropped, "call"), name)
	if kept > 0 {
		fmt.Fprintf(o.out, "; %s stay queued, which another job wants", count(kept, "call"))
	}
	fmt.Fprintln(o.out)
	return nil
}

// recorded is the name under which the record knows a job, and what jobs are called
// now, by such names; see [program.formerly].
func (p *program) recorded(name string) (was string, now map[string]string, err error) {
	now, err = p.formerly()
	if err != nil {
		return "", nil, err
	}
	for was, is := range now {
		if name == is {
			name = was
		}
	}
	return name, now, known(p.Config, p.Store, name)
}

// known refuses the name of a job that is neither in the file nor on record.
func known(config *job.Config, store *state.Store, name string) error {
	if name == "" || config.Job(name) != nil {
		return nil
	}
	names, err := store.Jobs()
	if err != nil {
		return err
	}
	if slices.Contains(names, name) {
		return nil
	}
	return usageError{fmt.Errorf("%s has no job %q, and none of that name has ever run", config.Path, name)}
}
