package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"outlierd/outlier"
	"outlierd/sync/job"
	"outlierd/sync/state"
)

func scanCommand(o *options) *cobra.Command {
	return group("scan", "Start scans, read them, and settle those of which nobody knows",
		`A scan collects outliers for hours and costs 50 or 100 credits; reading its results
costs 2 for each page of 40. It is never started twice by itself: if it is not known
whether it was, it waits for a word of yours (adopt, resolve).`,
		scanListCommand(o), scanStartCommand(o), scanReadCommand(o), scanAdoptCommand(o), scanResolveCommand(o))
}

func scanListCommand(o *options) *cobra.Command {
	return &cobra.Command{
		Use: "list", Short: "List all scans, the newest first", Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			config, err := o.load()
			if err != nil {
				return err
			}
			return o.glance(c.Context(), config, func(p *program) error {
				all, err := p.Store.Scans("")
				if err != nil {
					return err
				}
				var rows [][]any
				for _, s := range all {
					rows = append(rows, []any{s.Intent, filled(s.ScanID), string(s.State), filled(s.Status), s.Job, s.Mode,
						listed(s.Queries), int64(s.Price), when(s.Intended), when(s.Polled)})
				}
				return o.rows([]string{"intent", "scan_id", "state", "status", "job", "mode", "queries", "credits", "intended_at", "seen_at"}, rows)
			})
		},
	}
}

func scanStartCommand(o *options) *cobra.Command {
	var f pageFlags
	var mode string
	var channels bool
	c := &cobra.Command{
		Use: "start QUERY…", Short: "Start a scan, wait for it, and print its results",
		Long: `Start one scan over all the queries, or with --channel over all the channels, wait
until it has ended, which takes hours, and print the results that are read.

^C leaves the scan going on at the service; "scan read" reads it when it has ended.`,
		Example: `  outlierd scan start "espresso machine repair" --pages 10 --where z_score=3..`,
		Args:    cobra.MinimumNArgs(1),
		RunE: func(c *cobra.Command, what []string) error {
			scan, read := wishes{"mode": mode}, wishes{}
			scan.list("query", what)
			if channels {
				delete(scan, "query")
				scan.list("channel_id", what)
			}
			if err := f.ask(read); err != nil {
				return err
			}
			scan["read"] = read
			return o.once(c.Context(), request{
				verb: job.VerbScan, job: wishes{"scan": scan}, yes: f.yes,
				before: o.startable, stopped: o.leftRunning, show: o.found("outliers", "video_id", fewOutliers),
			})
		},
	}
	f.add(c, true)
	flags := c.Flags()
	flags.Lookup("pages").DefValue, f.pages = "5", 5
	flags.Lookup("pages").Usage = "pages of 40 results to read at most"
	flags.StringVar(&mode, "mode", "fast", "fast (up to 1000 outliers, 50 credits) or standard (up to 2500, 100 credits)")
	flags.BoolVar(&channels, "channel", false, "what is named are channels, by id or address")
	flags.Lookup("yes").Usage = "do not ask before it is started"
	return c
}

// startable asks a person before a scan is started; without one, --yes must be said.
func (o *options) startable(ctx context.Context, s showing) error {
	who := o.asker()
	if who == nil {
		return usageError{errors.New("a scan is dear, and nobody is there to be asked: add --yes to start it")}
	}
	cost, err := s.WorstCase(ctx, s.spec)
	if err != nil {
		return err
	}
	agreed, err := who.agreed(fmt.Sprintf("Starting and reading this scan costs up to %s. Start it?", count(cost.Credits, "credit")))
	if err == nil && !agreed {
		err = errDeclined
	}
	return err
}

// personal reports whether a person is at the other end of in.
func personal(in io.Reader) bool {
	f, ok := in.(*os.File)
	return ok && term.IsTerminal(int(f.Fd()))
}

// leftRunning says how to go on with a scan that was left at the service.
func (o *options) leftRunning(s showing) error {
	scans, err := s.Store.Scans(s.spec.Name)
	if err != nil {
		return err
	}
	for _, scan := range scans {
		if scan.Run == s.row.ID && scan.ScanID != "" {
			fmt.Fprintf(o.err, "The scan goes on at the service. When it has ended:\n  outlierd scan read %s\n", plain(scan.ScanID))
		}
	}
	return nil
}

func scanReadCommand(o *options) *cobra.Command {
	var f pageFlags
	c := &cobra.Command{
		Use: "read ID", Short: "Read the results of a scan that has ended; 2 credits a page",
		Long: `Look at a scan, which is free, and if it has ended read its results and print them.
Filters and order decide which of the results the pages hold.`,
		Example: `  outlierd scan read 7f9c24e8-3b12-4fef-91e0-1e2b3c4d5e6f --pages 10 --where z_score=3.. --sort "views desc"`,
		Args:    cobra.ExactArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			search := wishes{}
			if err := f.ask(search); err != nil {
				return err
			}
			where, _ := search["where"].(wishes)
			if where == nil {
				where = wishes{}
			}
			if where["reference_id"] != nil {
				return usageError{errors.New("--where reference_id: the scan that is read stands there")}
			}
			where["reference_id"], search["where"] = args[0], where
			return o.once(c.Context(), request{
				verb: job.VerbSearch, job: wishes{"search": search}, again: f.again, yes: f.yes,
				before: func(ctx context.Context, s showing) error { return readable(ctx, s.program, args[0]) },
				show:   o.found("outliers", "video_id", fewOutliers),
			})
		},
	}
	f.add(c, true)
	return c
}

// readable looks whether there is something to read of a scan.
func readable(ctx context.Context, p *program, id string) error {
	scan, err := p.LookAtScan(ctx, id)
	if refused, ok := errors.AsType[*outlier.Error](err); ok && refused.Kind == outlier.Invalid {
		return usageError{fmt.Errorf("%q is no id of a scan, which is a UUID; `outlierd scan list` lists those there are", id)}
	}
	switch {
	case err != nil:
		return err
	case !scan.Ended():
		return fmt.Errorf("scan %s has not ended: its status is %s; nothing was read and nothing spent", id, scan.Status)
	case !scan.Succeeded():
		return fmt.Errorf("scan %s ended as %s: there is nothing to read, and nothing was spent", id, scan.Status)
	}
	return nil
}

func scanAdoptCommand(o *options) *cobra.Command {
	return &cobra.Command{
		Use: "adopt ID", Short: "Say that a scan of the service is the one of which nobody knows",
		Long: `Take over a scan of which it is not known whether it was started. The service is asked
about ID, which is free: queries, size and time must be those of a scan that waits.`,
		Args: cobra.ExactArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			config, err := o.load()
			if err != nil {
				return err
			}
			return o.with(c.Context(), config, func(p *program) error {
				scan, err := p.AdoptScan(c.Context(), args[0])
				if err != nil {
					return err
				}
				next := "outlierd run " + scan.Job
				if isOnce(scan.Job) {
					next = "outlierd scan read " + scan.ScanID
				}
				fmt.Fprintf(o.out, "scan %s is that of %s now (intent %d, %s). Go on with:\n  %s\n",
					scan.ScanID, scan.Job, scan.Intent, scan.State, next)
				return nil
			})
		},
	}
}

func scanResolveCommand(o *options) *cobra.Command {
	var intent int64
	c := &cobra.Command{
		Use: "resolve --not-created INTENT", Short: "Say that a scan of which nobody knows was never started",
		Long: `Settle a scan of which it is not known whether it was started, after you have looked at
the service and found none: its credits are refunded, and it may be started again. If
there is one, use "scan adopt".`,
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			if !c.Flags().Changed("not-created") {
				return usageError{errors.New("say which: --not-created INTENT, as `outlierd scan list` numbers them")}
			}
			config, err := o.load()
			if err != nil {
				return err
			}
			return o.books(c.Context(), config, func(store *state.Store) error {
				if err := store.SettleScan(intent, state.Scan{State: state.ScanNotCreated}); err != nil {
					return err
				}
				fmt.Fprintf(o.out, "the scan of intent %d was not created; its credits are free again\n", intent)
				return nil
			})
		},
	}
	c.Flags().Int64Var(&intent, "not-created", 0, "the number of the intent")
	return c
}
