package command

import (
	"context"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"outlierd/cmd/outlierd/term"
	"outlierd/sync/forecast"
	"outlierd/sync/job"
	"outlierd/sync/queue"
	"outlierd/sync/serve"
)

// maxQueue is the default of --limit.
const maxQueue = 40

func queueCommand(g *globals) *cobra.Command {
	limit := maxQueue
	c := &cobra.Command{
		Use: "queue [JOB]", Short: "List queued calls with reason and estimated time",
		Long: `List the queue of all jobs or of one, in the order of execution: the open searches and
scans of unfinished runs, and the data calls. It lists the first 40; --limit 0 lists all.

  job      the jobs that need it, the first to request it before the others
  value    of a data call: higher values come first. It depends on the operation
           (channel_videos 5, channel_shorts 4, transcript 3, comments 2, details 1, or
           the 'value' of the job) and grows by 1 for each day in the queue. Searches and
           scans have no value and come first
  done_at  the estimated time at the current pace, if queued calls are made from now on and
           no run comes due meanwhile. A run that does is performed first, and delays them`,
		RunE: g.inSession(toRead, func(_ context.Context, p *program, args []string) error {
			name := strings.Join(args, "")
			if err := refuseUnknown(p, name); err != nil {
				return err
			}
			columns := []string{"job", "operation", "entity", "value", "done_at", "why", "since"}
			err := printList(g.out, first(p.forecasts().Queue(name), limit), columns, waitingRow)
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
func waitingRow(w *forecast.Waiting) []any {
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
