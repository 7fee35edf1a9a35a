package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"outlierd/cmd/outlierd/term"
	"outlierd/outlier"
	"outlierd/sinks/duckdb/query"
	"outlierd/sync/job"
	"outlierd/sync/state"
)

func scanCommand(o *options) *cobra.Command {
	return group("scan", "Start scans, read them, and settle those whose start is unknown",
		`A scan collects outliers for hours and costs 50 or 100 credits; reading its results
costs 2 for each page of 40. It is never started twice by itself: if it is not known
whether it was, it waits for a word of yours (adopt, resolve).`,
		scanListCommand(o), scanStartCommand(o), scanReadCommand(o), scanAdoptCommand(o), scanResolveCommand(o))
}

func scanListCommand(o *options) *cobra.Command {
	return &cobra.Command{
		Use: "list", Short: "List all scans, the newest first", Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			config, err := o.loadToRead()
			if err != nil {
				return err
			}
			return o.glanceOr(c.Context(), config, query.Scans(), func(p *program) error {
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

^C leaves the scan going on at the service; "scan read" reads it when it has ended.

If a scan of the same queries, or channels, and mode is live, whatever started it, it is
waited for and read, and no other is bought. With --again another is bought.`,
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
				verb: job.VerbScan, job: wishes{"scan": scan}, again: f.again, yes: f.yes,
				before: o.startable, onward: afterwards, show: o.hits("outliers", "video_id", fewOutliers),
			})
		},
	}
	f.add(c, "results", filtersOfVideos, orderOfVideos)
	flags := c.Flags()
	flags.Lookup("pages").DefValue, f.pages = "5", 5
	flags.StringVar(&mode, "mode", "fast", "fast (up to 1000 outliers, 50 credits) or standard (up to 2500, 100 credits)")
	flags.BoolVar(&channels, "channel", false, "what is named are channels, by id or address")
	flags.BoolVar(&f.again, "again", false, "buy a scan even if one of the same is live")
	flags.Lookup("yes").Usage = "do not ask before it is started"
	return c
}

// startable asks a person before a scan is started; without one, --yes must be said.
func (o *options) startable(ctx context.Context, s showing) error {
	cost, err := s.WorstCase(ctx, s.spec)
	if err != nil {
		return err
	}
	joined, err := s.Joins(ctx, s.spec)
	if err != nil {
		return err
	}
	if len(joined) > 0 {
		scan := joined[0]
		return consent(o.asker(), fmt.Sprintf("this scan is live, %s; reading it costs up to %s",
			startedBy(scan.Job, scan.Intended.In(s.Config.Timezone)), term.Count(cost.Credits, "credit")), "Wait for it?")
	}
	return consent(o.asker(), fmt.Sprintf("starting and reading this scan costs up to %s", term.Count(cost.Credits, "credit")), "Start it?")
}

// afterwards says how to go on with a scan that was cut short: one that was started is
// not started again.
func afterwards(s showing) (string, error) {
	steps, err := s.Store.Steps(s.row.ID)
	if err != nil || len(steps) == 0 {
		return "", err
	}
	scan, err := s.Store.ScanOf(steps[0].ID)
	switch {
	case err != nil || scan == nil:
		return "", err
	case scan.State == state.ScanEnded:
		return "the scan has ended, and its results stay. To read them:\n  outlierd scan read " + term.Plain(scan.ScanID), nil
	case scan.ScanID != "":
		return "the scan goes on at the service. When it has ended:\n  outlierd scan read " + term.Plain(scan.ScanID), nil
	case scan.State == state.ScanUnknown:
		return fmt.Sprintf("it is not known whether the scan was started. If the service has it, and if not:\n"+
			"  outlierd scan adopt ID\n  outlierd scan resolve --not-created %d", scan.Intent), nil
	}
	return "", nil
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
			id, err := scanID(args[0])
			if err != nil {
				return err
			}
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
			where["reference_id"], search["where"] = id, where
			return o.once(c.Context(), request{
				verb: job.VerbSearch, job: wishes{"search": search}, again: f.again, yes: f.yes,
				before: func(ctx context.Context, s showing) error { return readable(ctx, s.program, id) },
				show:   o.hits("outliers", "video_id", fewOutliers),
			})
		},
	}
	f.add(c, "results", filtersOfVideos, orderOfVideos)
	f.addAgain(c)
	return c
}

// scanID is the id of a scan as it was typed, if it can be one.
func scanID(text string) (string, error) {
	if _, err := outlier.DataRequest(outlier.OpScan, text); err != nil {
		return "", usageError{fmt.Errorf("%q is no id of a scan, which is a UUID such as 7f9c24e8-3b12-4fef-91e0-1e2b3c4d5e6f; 'outlierd scan list' lists those that are known", text)}
	}
	return text, nil
}

// absent says of a scan that the service does not have how to find the right one.
func absent(err error, id, remedy string) error {
	if e, ok := errors.AsType[*outlier.Error](err); ok && e.Kind == outlier.NotFound {
		return fmt.Errorf("the service has no scan %s; %s: %w", id, remedy, err)
	}
	return err
}

// readable looks whether there is something to read of a scan.
func readable(ctx context.Context, p *program, id string) error {
	scan, err := p.LookAtScan(ctx, id)
	switch {
	case err != nil:
		return absent(err, id, "'outlierd scan list' lists those that are known")
	case !scan.Ended():
		return fmt.Errorf("scan %s has not ended: its status is %s; nothing was read and nothing spent", id, scan.Status)
	case !scan.Succeeded():
		return fmt.Errorf("scan %s ended as %s: there is nothing to read, and nothing was spent", id, scan.Status)
	}
	return nil
}

func scanAdoptCommand(o *options) *cobra.Command {
	var intent int64
	c := &cobra.Command{
		Use: "adopt ID", Short: "Say which scan of the service is the one whose start is unknown",
		Long: `Take over a scan of which it is not known whether it was started. The service is asked
about ID, which is free: queries, size and time must be those of a scan that waits. If the
clock was wrong when it was sent, name it by --intent: then the time is not compared.`,
		Args: cobra.ExactArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			id, err := scanID(args[0])
			if err != nil {
				return err
			}
			config, err := o.load()
			if err != nil {
				return err
			}
			return o.with(c.Context(), config, func(p *program) error {
				waiting, err := awaited(p.Store)
				if err != nil {
					return err
				}
				scan, err := p.AdoptScan(c.Context(), id, intent)
				if err != nil {
					return absent(err, id, "look there for the id of the scan that was started, and if there is none say "+resolving(waiting))
				}
				next, err := adopted(p, scan)
				if err != nil {
					return err
				}
				return o.done(map[string]any{"scan_id": scan.ScanID, "job": scan.Job, "intent": scan.Intent, "state": scan.State},
					"scan %s is that of %s now (intent %d, %s). %s\n", scan.ScanID, scan.Job, scan.Intent, scan.State, next)
			})
		},
	}
	c.Flags().Int64Var(&intent, "intent", 0, "the scan of this intent, as 'outlierd scan list' shows it, whatever its time")
	return c
}

// adopted says how to go on with a scan that was adopted. Only the run that wished for it
// waits for it and reads it within its budget; where another has begun since, or the job
// has left the file, the scan is read by hand.
func adopted(p *program, scan *state.Scan) (string, error) {
	if spec := p.Config.Job(scan.Job); spec != nil {
		runs, err := p.Unfinished(spec, time.Time{})
		if err != nil {
			return "", err
		}
		if slices.ContainsFunc(runs, func(run state.Run) bool { return run.ID == scan.Run }) {
			return "Go on with:\n  outlierd run " + scan.Job, nil
		}
	}
	switch scan.State {
	case state.ScanFailed:
		return "The service says that it ended as " + term.Plain(scan.Status) + ": there is nothing to read", nil
	case state.ScanRunning:
		return "When it has ended, read it with:\n  outlierd scan read " + scan.ScanID, nil
	}
	return "Read it with:\n  outlierd scan read " + scan.ScanID, nil
}

// awaited are the scans that wait to be adopted. Without one the service need not be asked.
func awaited(store *state.Store) ([]state.Scan, error) {
	all, err := store.Scans("")
	waiting := slices.DeleteFunc(all, func(s state.Scan) bool { return s.State != state.ScanUnknown })
	if err != nil || len(waiting) > 0 {
		return waiting, err
	}
	return nil, errors.New("no scan waits to be adopted: of each it is known whether it was started; 'outlierd scan list' shows their states, and 'outlierd scan read ID' reads any scan of the service")
}

// resolving is the command that says of a scan that it was never started, for each that
// may be the one that is meant.
func resolving(waiting []state.Scan) string {
	var commands []string
	for _, scan := range waiting {
		commands = append(commands, fmt.Sprintf("'outlierd scan resolve --not-created %d'", scan.Intent))
	}
	return strings.Join(commands, " or ")
}

func scanResolveCommand(o *options) *cobra.Command {
	var intent int64
	c := &cobra.Command{
		Use: "resolve --not-created INTENT", Short: "Say that a scan whose start is unknown was never started",
		Long: `Settle a scan of which it is not known whether it was started, after you have looked at
the service and found none. It may be started again, and its credits are refunded, unless
the service has answered its start. If there is one, use "scan adopt".`,
		Example: `  outlierd scan list                        # INTENT is the number in its first column
  outlierd scan resolve --not-created 1`,
		Args: cobra.ArbitraryArgs,
		RunE: func(c *cobra.Command, args []string) error {
			if !c.Flags().Changed("not-created") || len(args) > 0 {
				return usageError{errors.New("say --not-created INTENT if you have looked and the service has no such scan, and else 'outlierd scan adopt ID'; " +
					"'outlierd scan list' shows the intents, and which of them are unknown")}
			}
			config, err := o.loadToRead()
			if err != nil {
				return err
			}
			return o.books(c.Context(), config, func(store *state.Store) error {
				refunded, err := store.SettleScan(intent, state.Scan{State: state.ScanNotCreated})
				if err != nil {
					return err
				}
				price := term.Count(refunded, "credit") + " are free again"
				if refunded == 0 {
					price = "its price stays spent, since the service answered its start"
				}
				return o.done(map[string]any{"intent": intent, "state": state.ScanNotCreated, "refunded": refunded},
					"the scan of intent %d was not created; %s\n", intent, price)
			})
		},
	}
	c.Flags().Int64Var(&intent, "not-created", 0, "the number of the intent, as 'outlierd scan list' shows it")
	return c
}
