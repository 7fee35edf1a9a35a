package command

import (
	"context"
	"errors"
	"fmt"
	"log"
	"net"
	"net/http"
	"time"

	"github.com/spf13/cobra"

	"outlierd/outlier/pace"
	"outlierd/outlier/simulator"
)

func simulateCommand(g *globals) *cobra.Command {
	var listen, key string
	quota := pace.Quota{Requests: 10, Window: time.Minute}
	var seed uint64
	var freeze, items bool
	var cached time.Duration
	c := &cobra.Command{
		Use:   "simulate",
		Short: "Serve a simulator of the service over HTTP",
		Long: `Serve a simulator of the service, with data generated from a seed, to try job files,
dashboards and budgets without a key and without cost. It checks authorization and
parameters, charges, caches, refunds and limits like the service.

It reports what it charged and refunded:

  curl -H "Authorization: Api-Key demo" http://127.0.0.1:9090/_simulator/books`,
		Example: `  outlierd simulate --listen 127.0.0.1:9090 --limit 600/min --key demo
  OUTLIERD_URL=http://127.0.0.1:9090 OUTLIERD_KEY=demo OUTLIERD_DATA=trial outlierd run`,
		RunE: func(c *cobra.Command, _ []string) error {
			service := simulator.New(simulator.Options{
				Seed: seed, Key: key, Limit: quota.Requests, Window: quota.Window, Freeze: freeze, PagingItems: items,
				CachePeriod: max(cached, 1), // 0 would mean the default
			})
			return serveSimulator(c.Context(), g, listen, service)
		},
	}
	flags := c.Flags()
	flags.StringVar(&listen, "listen", "127.0.0.1:9090", "address to listen on")
	flags.Func("limit", "requests per time, such as 30/10s or 100/h (default 10/min)", func(text string) (err error) {
		quota, err = pace.ParseQuota(text)
		return err
	})
	flags.StringVar(&key, "key", "demo", "the key that clients must send; not a secret")
	flags.Uint64Var(&seed, "seed", 1, "the seed of the data: the same seed, the same data")
	flags.BoolVar(&freeze, "freeze", false, "stop the clock, so that views do not grow and every process "+
		"serves the same data")
	flags.BoolVar(&items, "paging-items", false, "make from count items instead of pages")
	flags.DurationVar(&cached, "cached-for", 10*time.Minute, "how long an identical request is answered free of charge")
	return c
}

// simulatorAt is the output of simulate for programs.
type simulatorAt struct {
	URL string `json:"url"`
}

// serveSimulator answers until ctx ends.
func serveSimulator(ctx context.Context, g *globals, address string, handler http.Handler) error {
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", address)
	if err != nil {
		return fmt.Errorf("listen on %s: %w", address, err)
	}
	server := &http.Server{
		Handler: handler, ReadHeaderTimeout: 10 * time.Second, ErrorLog: log.New(g.world.err, "", log.LstdFlags),
	}
	stopped := context.AfterFunc(ctx, func() { _ = server.Close() }) // Serve returns the error
	defer stopped()
	url := "http://" + listener.Addr().String()
	if err := g.out.print(simulatorAt{url}, "simulating the service at %s\n", url); err != nil {
		return err
	}
	if err := server.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("serve %s: %w", listener.Addr(), err)
	}
	return nil
}
