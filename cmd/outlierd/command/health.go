package command

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"

	"outlierd/cmd/outlierd/report"
	"outlierd/sync/job"
	"outlierd/sync/serve"
)

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
		err = fmt.Errorf("the schedule of %s has been stuck for %s", daemon.Name(), job.Duration(daemon.Stuck.Duration))
	}
	return where, err
}
