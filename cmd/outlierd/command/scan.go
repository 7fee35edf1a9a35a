package command

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
	"outlierd/sync/facts"
	"outlierd/sync/job"
	"outlierd/sync/runs"
	"outlierd/sync/serve"
	"outlierd/sync/state"
)

func scanCommand(g *globals) *cobra.Command {
	return group("scan", "Start and read scans, and resolve unconfirmed starts",
		`A scan collects outliers for hours and costs 50 or 100 credits; reading its results costs 2
for each page of 40. outlierd never starts one twice by itself. If the service did not
confirm a start, resolve it with 'scan adopt' or 'scan resolve'.`,
		scanListCommand(g), scanStartCommand(g), scanReadCommand(g), scanAdoptCommand(g), scanResolveCommand(g))
}

func scanListCommand(g *globals) *cobra.Command {
	return &cobra.Command{
		Use: "list", Short: "List all scans, newest first",
		RunE: g.inSession(toRead, func(_ context.Context, p *program, _ []string) error {
			all, err := p.Engine.Store.Scans.List()
			if err != nil {
				return err
			}
			columns := []string{"intent", "scan_id", "state", "status", "job", "mode", "queries", "credits", "intended_at", "seen_at"}
			return printList(g.out, all, columns, func(s runs.Scan) []any {
				return []any{s.Intent, filled(s.ScanID), string(s.State), filled(s.Status), s.Job, s.Mode, strings.Join(s.Queries, ", "),
					int64(s.Price), when(s.Intended), when(s.Polled)}
			})
		}),
	}
}

func scanStartCommand(g *globals) *cobra.Command {
	var channels bool
	c := (&oneOff{
		verb: job.VerbScan, op: outlier.OpSearch, arg: "query",
		flags: []string{"mode", "read.pages", "read.where", "read.sort"},
		keys:  job.Keys{"mode": {"fast"}, "read.pages": {"5"}},
		again: "start a scan even if the same one is live",
		check: func(o *oneOff) error {
			if channels {
				o.set("channel_id", "CHANNEL", o.keys["query"]...)
				delete(o.keys, "query")
			}
			return nil
		},
		show: showHits(g.out, ofOutliers),
	}).addTo(&cobra.Command{
		Use: "start QUERY…", Short: "Start a scan, wait for it, and print its results",
		Long: `Start one scan over all the queries, or with --channel over all the channels, wait until it
ends, which takes hours, and print its results.

^C does not stop the scan at the service; 'run --continue' waits for it and reads it, and 'scan
read' reads it after it has ended.

If a scan of the same queries or channels and of the same mode is live, the command waits
for that one and reads it. With --again it starts another.`,
		Example: `  outlierd scan start "espresso machine repair" --pages 10 --where z_score=3..`,
	}, g)
	c.Flags().BoolVar(&channels, "channel", false, "the arguments are channels, by id or address")
	return c
}

func scanReadCommand(g *globals) *cobra.Command {
	id := ""
	return (&oneOff{
		verb: job.VerbSearch, op: outlier.OpSearch, flags: []string{"pages", "sort", "where"}, again: againUsage,
		keys: job.Keys{"pages": {"1"}},
		parse: func(arg string) (_ string, err error) {
			id, err = scanID(arg)
			return id, err
		},
		before: func(ctx context.Context, s showing) error { return refuseUnreadable(ctx, s.program, id) },
		check: func(o *oneOff) error {
			if o.keys["where.reference_id"] != nil {
				return errors.New("--where reference_id: the command sets it to the id of the scan")
			}
			o.set("where.reference_id", "ID", id)
			return nil
		},
		show: showHits(g.out, ofOutliers),
	}).addTo(&cobra.Command{
		Use: "read ID", Short: "Read the results of a scan that has ended; 2 credits a page",
		Long: `Poll a scan, which is free, and if it has ended read and print its results. Filters and
order select the results of the pages.`,
		Example: `  outlierd scan read 7f9c24e8-3b12-4fef-91e0-1e2b3c4d5e6f --pages 10 --where z_score=3.. --sort "views desc"`,
	}, g)
}

// scanID parses the id of a scan.
func scanID(text string) (string, error) {
	if _, err := outlier.DataRequest(outlier.OpScan, text); err != nil {
		return "", usageError{fmt.Errorf("%q is not a scan id, which is a UUID such as "+
			"7f9c24e8-3b12-4fef-91e0-1e2b3c4d5e6f; 'outlierd scan list' lists the known scans", text)}
	}
	return text, nil
}

// explainAbsent returns an error that says how to find the right scan if the service does not have this one.
func explainAbsent(err error, id, remedy string) error {
	if e, ok := errors.AsType[*outlier.Error](err); ok && e.Kind == outlier.NotFound {
		return fmt.Errorf("the service has no scan %s; %s: %w", id, remedy, err)
	}
	return err
}

// refuseUnreadable checks whether a scan has results to read.
func refuseUnreadable(ctx context.Context, p *program, id string) error {
	scan, err := change(ctx, p, serve.PollScan{Scan: id})
	switch {
	case err != nil:
		return explainAbsent(err, id, "'outlierd scan list' lists the known scans")
	case !scan.Ended():
		return fmt.Errorf("scan %s has not ended: its status is %s; no credits were spent", id, scan.Status)
	case !scan.Succeeded():
		return fmt.Errorf("scan %s ended as %s: there is nothing to read; no credits were spent", id, scan.Status)
	}
	return nil
}

func scanAdoptCommand(g *globals) *cobra.Command {
	var intent int64
	c := &cobra.Command{
		Use: "adopt ID", Short: "Link an unconfirmed start to an existing scan",
		Long: `Link an unconfirmed start to the scan ID of the service. The command polls the scan, which
is free, and compares queries, size and time. If the clock was wrong when the start was
sent, name the start with --intent: then the time is not compared.`,
		RunE: g.inSession(toBuy, func(ctx context.Context, p *program, args []string) error {
			id, err := scanID(args[0])
			if err != nil {
				return err
			}
			waiting, err := unconfirmedScans(p.Engine.Store)
			if err == nil && len(waiting) == 0 {
				err = errors.New("there is no unconfirmed start; 'outlierd scan list' shows the states of all scans, " +
					"and 'outlierd scan read ID' reads any scan of the service")
			}
			if err != nil {
				return err
			}
			linked, err := change(ctx, p, serve.AdoptScan{Scan: id, Intent: intent})
			if err != nil {
				return explainAbsent(err, id, "look there for the id of the scan that was started; "+
					"if there is none, run "+listResolutions(waiting))
			}
			scan, err := p.Engine.Store.Scans.ByID(id)
			if err == nil && (scan == nil || scan.Intent != linked) {
				err = fmt.Errorf("scan %s was linked to intent %d, but its record could not be read back", id, linked)
			}
			if err != nil {
				return err
			}
			next, err := describeAdopted(p, scan)
			if err != nil {
				return err
			}
			return g.out.print(scan, "scan %s now belongs to %s (intent %d, %s). %s\n", scan.ScanID, scan.Job,
				scan.Intent, scan.State, next)
		}),
	}
	c.Flags().Int64Var(&intent, "intent", 0,
		"the start with this intent, as 'outlierd scan list' shows it, whatever its time")
	return c
}

// describeAdopted returns how to read an adopted scan. Only the run that started it waits for it and reads it
// within its budget. If another run has started since, or the job was removed from the file, the scan is
// read by hand.
func describeAdopted(p *program, scan *runs.Scan) (string, error) {
	if spec := p.Engine.Config.Job(scan.Job); spec != nil {
		rows, err := p.Engine.Facts().Unfinished(spec, time.Time{})
		if err != nil {
			return "", err
		}
		if slices.ContainsFunc(rows, func(u facts.Unfinished) bool { return u.Run.ID == scan.Run && u.Continues() }) {
			return "Continue with:\n  outlierd run " + scan.Job, nil
		}
	}
	switch scan.State {
	case runs.ScanFailed:
		return "The service reports that it ended as " + term.Plain(scan.Status) + ": there is nothing to read", nil
	case runs.ScanRunning:
		return "When it has ended, read it with:\n  outlierd scan read " + scan.ScanID, nil
	}
	return "Read it with:\n  outlierd scan read " + scan.ScanID, nil
}

// unconfirmedScans returns the scans whose starts the service did not confirm.
func unconfirmedScans(store *state.Store) ([]runs.Scan, error) {
	all, err := store.Scans.List()
	return slices.DeleteFunc(all, func(s runs.Scan) bool { return s.State != runs.ScanUnknown }), err
}

// listResolutions returns the commands that resolve each unconfirmed start as never started.
func listResolutions(waiting []runs.Scan) string {
	var commands []string
	for _, scan := range waiting {
		commands = append(commands, fmt.Sprintf("'outlierd scan resolve --not-created %d'", scan.Intent))
	}
	return strings.Join(commands, " or ")
}

// scanResolved is the output of scan resolve for programs.
type scanResolved struct {
	Intent   int64           `json:"intent"`
	Refunded outlier.Credits `json:"refunded"`
}

func scanResolveCommand(g *globals) *cobra.Command {
	var intent int64
	c := &cobra.Command{
		Use: "resolve --not-created INTENT", Short: "Resolve an unconfirmed start as never started",
		Long: `Resolve an unconfirmed start after you checked that the service has no such scan. The scan
may be started again, and its credits are refunded, unless the service answered the start.
If the service has the scan, use 'scan adopt'.`,
		Example: `  outlierd scan list                        # INTENT is the number in its first column
  outlierd scan resolve --not-created 1`,
		Args: cobra.ArbitraryArgs,
		RunE: func(c *cobra.Command, args []string) error {
			if !c.Flags().Changed("not-created") || len(args) > 0 {
				return usageError{errors.New("pass --not-created INTENT if the service has no such scan, " +
					"and else run 'outlierd scan adopt ID'; 'outlierd scan list' shows the intents and their states")}
			}
			return g.withState(c.Context(), toChange, func(ctx context.Context, p *program) error {
				refunded, err := change(ctx, p, serve.ResolveScan{Intent: intent})
				if err != nil {
					return err
				}
				price := term.Count(refunded, "credit") + " are available again"
				if refunded == 0 {
					price = "its price counts as spent, because the service answered the start"
				}
				return g.out.print(scanResolved{intent, refunded}, "the scan with intent %d was not created; %s\n", intent, price)
			})
		},
	}
	c.Flags().Int64Var(&intent, "not-created", 0, "the intent, as 'outlierd scan list' shows it")
	return c
}
