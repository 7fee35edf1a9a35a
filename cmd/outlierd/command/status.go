package command

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"outlierd/cmd/outlierd/report"
	"outlierd/outlier"
	"outlierd/sync/forecast"
	"outlierd/sync/job"
	"outlierd/sync/ledger"
	"outlierd/sync/serve"
	"outlierd/sync/store"
)

func planCommand(g *globals) *cobra.Command {
	var whatIf string
	c := &cobra.Command{
		Use:   "plan [JOB…]",
		Short: "Show what the next runs will do and cost, offline",
		Long: `Show what the next run of each job will do, what it will cost in credits, requests and
minutes, and the forecast for the billing cycle. It uses the same rules as the run itself,
sends nothing and changes nothing.

  expected  the average of the job's last ten runs
  at worst  if every page is full; answers that are lost and requested again can cost
            more, up to the cap of the run

A share of the month (budget.pace: even) applies to scheduled runs; a run by hand may spend
all that the job asks for. SQL may find more by the time of the run.

@TAG stands for the jobs with a tag.`,
		Example: `  outlierd plan
  outlierd plan coffee
  outlierd plan --what-if per_month=400
  outlierd plan -o json | jq '.jobs[] | {job, worst}'`,
		RunE: func(c *cobra.Command, names []string) error {
			config, err := loadChecked(c.Context(), g.loadToRead)
			if err != nil {
				return err
			}
			if err := assumeBudget(config, whatIf); err != nil {
				return usageError{err}
			}
			if names, err = expandTags(config, names, anyJob); err != nil {
				return err
			}
			for _, name := range names {
				if config.Job(name) == nil {
					return noJob(config, name, "")
				}
			}
			return g.with(c.Context(), config, toRead, func(p *program) error {
				f, err := p.forecasts().Forecast(c.Context(), names...)
				if err != nil {
					return err
				}
				return g.out.print(f, "%s", report.Plan(f, config.Timezone, len(names) == 0))
			})
		},
	}
	c.Flags().StringVar(&whatIf, "what-if", "", "assume another budget, as in per_month=400")
	return c
}

// assumeBudget changes the budget as --what-if says.
func assumeBudget(config *job.Config, text string) error {
	if text == "" {
		return nil
	}
	amount, isMonth := strings.CutPrefix(text, "per_month=")
	n, err := strconv.ParseInt(amount, 10, 64)
	if !isMonth || err != nil || job.CheckCredits(n) != nil {
		return fmt.Errorf("--what-if must be per_month=CREDITS, such as per_month=400, got %q", text)
	}
	config.Budget.PerMonth = new(outlier.Credits(n))
	return nil
}

func budgetCommand(g *globals) *cobra.Command {
	c := &cobra.Command{
		Use:   "budget",
		Short: "Show credits spent and left, and what blocks calls",
		Long: `Show the budget of the billing cycle, of today, and of each job that has a cap of its own
or has spent credits. One-off requests such as 'outlierd search' share the row "by hand".

  spent     answers that arrived
  unknown   answers that were lost; they count, since the service may have charged them
  reserved  calls in progress
  scans     reserved for reading the results of scans
  adjusted  recorded with 'outlierd budget adjust'

The table ops.credits has every row. There the job of a one-off request is called once:search
and the like; -o json calls all of them once:.`,
		RunE: showBudget(g),
	}
	c.AddCommand(budgetAdjustCommand(g), budgetResumeCommand(g))
	return c
}

func showBudget(g *globals) func(*cobra.Command, []string) error {
	return g.inSession(toRead, func(ctx context.Context, p *program, _ []string) error {
		b, err := budgetOf(ctx, p)
		if err != nil {
			return err
		}
		return g.out.print(b, "%s", report.Budget(b, g.out.look()))
	})
}

func budgetOf(ctx context.Context, p *program) (*forecast.Budget, error) {
	return p.forecasts().Budget(ctx)
}

func budgetAdjustCommand(g *globals) *cobra.Command {
	var spent, bought int64
	var why string
	c := &cobra.Command{
		Use:   "adjust --spent N | --bought N",
		Short: "Record credits spent or bought outside outlierd",
		Long: `Record credits that outlierd cannot see: --spent elsewhere in the current billing cycle, such
as on the service's site, or --bought in addition. No cap limits the amount, and the credits
left in the cycle change by it. The row is kept with its reason. To undo it, record the
opposite.`,
		Example: `  outlierd budget adjust --spent 12 --why "searched by hand on the site"
  outlierd budget adjust --bought 100 --why "top-up of 21 November"`,
		RunE: func(c *cobra.Command, _ []string) error {
			if why = strings.TrimSpace(why); why == "" {
				return usageError{errors.New(`give the reason, as in --why "top-up of 21 November"`)}
			}
			err := g.withState(c.Context(), toChange, func(ctx context.Context, p *program) error {
				_, err := change(ctx, p, serve.Adjust{Credits: outlier.Credits(spent - bought), Why: why})
				return err
			})
			if err != nil {
				return err
			}
			return showBudget(g)(c, nil)
		},
	}
	addCredits(c, &spent, "spent", "`N` credits were spent elsewhere")
	addCredits(c, &bought, "bought", "`N` credits were bought in addition")
	c.Flags().StringVar(&why, "why", "", "the reason; required")
	c.MarkFlagsOneRequired("spent", "bought")
	exclude(c, "spent", "bought")
	return c
}

func budgetResumeCommand(g *globals) *cobra.Command {
	return &cobra.Command{
		Use: "resume", Short: "Resume paid calls after the service refused them",
		Long: `When the service answers that the account has no credits left, paid calls stop until the
billing cycle turns, except for one attempt a day. After you have bought credits, this
command resumes them at once. It also tries a refused key again, and if paid calls stop because
it is not known which day it is, it confirms the local clock, or the service's date.

The caps of the job file still apply.`,
		RunE: g.inSession(toBuy, func(ctx context.Context, p *program, _ []string) error {
			lifted, err := change(ctx, p, serve.Lift{})
			if err != nil {
				return err
			}
			config := p.Engine.Config
			if len(lifted.Blocks) == 0 {
				return g.out.print(serve.Lifted{Blocks: []ledger.Block{}},
					"no calls are blocked; the caps of %s apply\n", config.Path)
			}
			said, style := "", report.Style{Zone: config.Timezone}
			for _, block := range lifted.Blocks {
				said += "lifted: " + report.Block(block, style) + "\n"
			}
			return g.out.print(lifted, "%scalls resume, within the caps of %s\n", said, config.Path)
		}),
	}
}

func statusCommand(g *globals) *cobra.Command {
	return &cobra.Command{
		Use:   "status [JOB…]",
		Short: "Show running, waiting and due jobs, and why jobs wait",
		Long: `Show for each job its last run, what it is doing or waiting for, and when it is due next; then
the budget, the pace, the queue, the sinks and the last failure. With names, or @TAG for the
jobs with a tag, show only these jobs.

  last run  how it ended; "5 × ok_empty": the last five runs ended with this status
  queue     the earliest time at which it can be done, at the current pace
  sinks     "behind" counts answers that are stored but not published yet`,
		RunE: func(c *cobra.Command, names []string) error {
			config, err := g.loadToRead()
			if err != nil {
				if _, not := checkAlive(c.Context(), g); not == nil {
					fmt.Fprintln(g.world.err, "outlierd up is alive and still uses the old job file; "+
						"the file on disk is refused:")
				}
				return err
			}
			if names, err = expandTags(config, names, anyJob); err != nil {
				return err
			}
			return g.with(c.Context(), config, toRead, func(p *program) error {
				s, err := statusOf(c.Context(), p)
				if err != nil {
					return err
				}
				for _, name := range names {
					if !slices.ContainsFunc(s.Jobs, func(j forecast.JobStatus) bool { return j.Job == name }) {
						return noJob(config, name, "")
					}
				}
				s.Jobs = slices.DeleteFunc(s.Jobs, func(j forecast.JobStatus) bool {
					return len(names) > 0 && !slices.Contains(names, j.Job)
				})
				return g.out.print(s, "%s", report.Status(s, g.out.look()))
			})
		},
	}
}

// statusOf reads the status, with what only the disk and the process that holds the state know.
func statusOf(ctx context.Context, p *program) (*forecast.Status, error) {
	s, err := p.forecasts().Status()
	folder := stateFolder(p.Engine.Config)
	if err != nil || isMissing(folder) { // then the state is temporary
		return s, err
	}
	switch {
	case p.server != nil: // the state does not report on its own process
		about := p.server.Describe()
		s.Process = &forecast.Process{PID: about.PID, Command: "outlierd up", Since: about.Started, Refused: about.Refused, Changed: about.Changed}
	case s.Process != nil:
		askProcess(ctx, folder, s.Process)
	}
	err = p.Engine.Store.DB.Room()
	if low, is := errors.AsType[*store.LowSpaceError](err); is {
		s.Disk, err = low.Error(), nil
	}
	return s, err
}

// askProcess requests the state of the job file from the process that holds a state folder. A process
// other than 'outlierd up' has no socket. Without an answer everything else comes from the state.
func askProcess(ctx context.Context, folder string, h *forecast.Process) {
	daemon, err := dialSoon(ctx, folder)
	if err == nil {
		err = daemon.Understands(version())
	}
	switch {
	case err == nil:
		h.Refused, h.Changed = daemon.Refused, daemon.Changed
	case errors.Is(err, serve.ErrNoDaemon) && !slices.Contains(strings.Fields(h.Command), "up"):
	default:
		h.Silent = err.Error()
	}
}

func healthCommand(g *globals) *cobra.Command {
	return &cobra.Command{
		Use:   "health",
		Short: "Check whether 'outlierd up' is alive",
		Long: `Check whether 'outlierd up' is alive, as the health check of a container. It asks at the socket
in the data folder, which only the daemon's user can use. It exits within 3 seconds, with code 0
if 'outlierd up' is alive, and 1 if not.

It is alive while its schedule runs. A failed job, an unreachable service and a long wait for
the rate limit are no reason to restart it; 'outlierd doctor' reports those.`,
		RunE: func(c *cobra.Command, _ []string) error {
			where, err := checkAlive(c.Context(), g)
			if err != nil {
				return err
			}
			return g.out.print(health{"ok", where},
				"outlierd up is alive (answered at %s)\n", where)
		},
	}
}

// health is the output of health for programs.
type health struct {
	Status string `json:"status"` // ok
	Asked  string `json:"asked"`  // the address that answered
}

// askFor is the time limit of a request to the daemon.
const askFor = 1400 * time.Millisecond

// dialSoon connects to the daemon of a state folder, if it answers soon.
func dialSoon(ctx context.Context, folder string) (*serve.Client, error) {
	within, cancel := context.WithTimeout(ctx, askFor)
	defer cancel()
	daemon, err := serve.Dial(within, folder)
	if errors.Is(err, context.DeadlineExceeded) && ctx.Err() == nil {
		err = fmt.Errorf("no answer within %s on %s; it may hang: check its log, and restart it", askFor, report.Path(serve.Socket(folder)))
	}
	return daemon, err
}

// checkAlive returns where the daemon answered, and why it is not alive; "" if it does not run.
func checkAlive(ctx context.Context, g *globals) (where string, err error) {
	data, _ := job.DaemonOf(g.config, g.world.env)
	folder := filepath.Join(data, "state")
	where = report.Path(serve.Socket(folder))
	daemon, err := dialSoon(ctx, folder)
	switch {
	case errors.Is(err, serve.ErrNoDaemon):
		return "", fmt.Errorf("outlierd up is not running: nothing answers at %s", where)
	case err == nil && daemon.Stuck.Duration > 0:
		err = fmt.Errorf("the schedule of %s has been stuck for %s", daemon.Name(), job.FormatDuration(daemon.Stuck.Duration))
	}
	return where, err
}
