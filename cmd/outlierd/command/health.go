package command

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"outlierd/cmd/outlierd/report"
	"outlierd/cmd/outlierd/term"
	"outlierd/sync/job"
	"outlierd/sync/serve"
)

func healthCommand(g *globals) *cobra.Command {
	return &cobra.Command{
		Use:   "health",
		Short: "Check whether 'outlierd up' is alive",
		Long: `Check whether 'outlierd up' is alive, as the health check of a container. It requests /healthz
at daemon.listen, or uses the socket in the data folder if nothing listens there. It exits
within 3 seconds, with code 0 if 'outlierd up' is alive, and 1 if not.

It is alive while its schedule runs. A failed job, an unreachable service and a long wait for
the rate limit are no reason to restart it; 'outlierd doctor' reports those.`,
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			where, err := checkAlive(c.Context(), g)
			if err != nil {
				return err
			}
			return healthShown.print(g.out, health{"ok", where},
				"outlierd up is alive (answered at %s)\n", where)
		},
	}
}

// health is the output of health for programs.
type health struct {
	Status string `json:"status"` // ok
	Asked  string `json:"asked"`  // the address that answered
}

var healthShown = documentOf[health]("health")

// askFor is the time limit of a request to the daemon; there may be two requests. Tests change it.
var askFor = 1400 * time.Millisecond

// alive requests the daemon's health. It returns the address that answered; "" if the daemon does not
// run.
func checkAlive(ctx context.Context, g *globals) (where string, err error) {
	data, d := job.DaemonOf(g.config, g.world.env)
	folder := filepath.Join(data, "state")
	if d.Listen != "" {
		err := requestHealth(ctx, reachable(d.Listen))
		if err == nil || !errors.Is(err, syscall.ECONNREFUSED) {
			return d.Listen, err
		}
	}
	where = report.Path(serve.Socket(folder))
	ctx, cancel := context.WithTimeout(ctx, askFor)
	defer cancel()
	_, err = serve.Dial(ctx, folder)
	switch {
	case errors.Is(err, serve.ErrNoDaemon) && d.Listen != "":
		return "", fmt.Errorf("outlierd up is not running: nothing answers at %s nor at %s", d.Listen, where)
	case errors.Is(err, serve.ErrNoDaemon):
		return "", fmt.Errorf("outlierd up is not running: nothing answers at %s", where)
	}
	return where, err
}

// reachable returns a local address for a listen address such as 0.0.0.0.
func reachable(listen string) string {
	host, port, _ := net.SplitHostPort(listen)
	if ip, err := netip.ParseAddr(host); host == "" || err == nil && ip.IsUnspecified() {
		host = "localhost"
	}
	return net.JoinHostPort(host, port)
}

// requestHealth asks the daemon at a local address whether it is alive. It uses no proxy.
func requestHealth(ctx context.Context, address string) error {
	ctx, cancel := context.WithTimeout(ctx, askFor)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+address+"/healthz", nil)
	if err != nil {
		return err
	}
	answer, err := (&http.Transport{DisableKeepAlives: true}).RoundTrip(request)
	switch {
	case errors.Is(err, context.DeadlineExceeded):
		return fmt.Errorf("request to %s: no answer within %s", address, askFor)
	case err != nil:
		return fmt.Errorf("request to %s: %w", address, err)
	}
	defer answer.Body.Close()
	said, err := io.ReadAll(io.LimitReader(answer.Body, 200))
	if err != nil {
		return fmt.Errorf("read the answer of %s: %w", address, err)
	}
	if answer.StatusCode != http.StatusOK {
		return fmt.Errorf("request to %s: HTTP %d: %s", address, answer.StatusCode, term.Plain(strings.TrimSpace(string(said))))
	}
	return nil
}
