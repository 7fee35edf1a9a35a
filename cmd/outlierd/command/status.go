package command

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"outlierd/cmd/outlierd/report"
	"outlierd/sync/forecast"
	"outlierd/sync/job"
	"outlierd/sync/serve"
	"outlierd/sync/store"
)

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
	s.Disk, err = diskOf(p.Engine.Store.DB)
	return s, err
}

// diskOf returns the disk of a state if it has too little space for paid calls.
func diskOf(db *store.Store) (*forecast.Disk, error) {
	err := db.Room()
	low, is := errors.AsType[*store.LowSpaceError](err)
	if is && low.Files {
		free, err := db.Free()
		return &forecast.Disk{Free: free, FreeFiles: low.Free, NeedFiles: low.Need}, err
	}
	if is {
		return &forecast.Disk{Free: low.Free, Need: low.Need}, nil
	}
	return nil, err
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
