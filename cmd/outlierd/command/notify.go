package command

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/google/uuid"
	"github.com/spf13/cobra"

	"outlierd/cmd/outlierd/pagedata"
	"outlierd/outlier"
	"outlierd/sinks/duckdb/query"
	"outlierd/sync/engine"
	"outlierd/sync/job"
	"outlierd/sync/notify"
	"outlierd/sync/yamltree"
)

func notifyCommand(o *options) *cobra.Command {
	return group("notify", "Test the targets of notifications",
		`Targets are the entries of "notify" in the job file: webhooks, Healthchecks, commands and
mail. See docs/notifications.md.`, notifyTestCommand(o))
}

func notifyTestCommand(o *options) *cobra.Command {
	return &cobra.Command{
		Use: "test TARGET", Short: "Send a test notification to a target",
		Long: `Send a test notification to one target of the job file and wait for the answer. It is sent
once, whatever "events" says. Errors show only the host of an address, which is a secret.`,
		Args: cobra.ExactArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			config, err := o.loadToRead()
			if err != nil {
				return err
			}
			if found := checkBodies(config); len(found) > 0 {
				return found
			}
			target, err := config.TargetNamed(args[0])
			if err != nil {
				return usageError{err}
			}
			if target.Off {
				return fmt.Errorf("target %s: its address is empty, so nothing is sent; "+
					"set the variable that notify.%s names", target.Name, target.Name)
			}
			sender, err := o.sender(config)
			if err != nil {
				return err
			}
			id := uuid.NewString()
			if err := sender.Send(c.Context(), target, notify.Sample(id, time.Now())); err != nil {
				return fmt.Errorf("notify %s: %w", target.Name, err)
			}
			return o.done(map[string]string{"target": target.Name, "kind": target.Kind, "id": id},
				"sent a test notification to %s (%s)\n", target.Name, notify.Describe(target))
		},
	}
}

// sender sends notifications from this process.
func (o *options) sender(config *job.Config) (*notify.Sender, error) {
	var transport http.RoundTripper
	transport, err := outlier.NewTransport(outlier.TransportOptions{})
	if err != nil {
		return nil, err
	}
	return &notify.Sender{
		Transport: transport, UserAgent: "outlierd/" + version(), Redact: config.Service.Key.Redact,
		Dir: config.Dir, Env: o.world.env,
	}, nil
}

// checkBodies returns the mistakes in the templates of webhooks, with their positions.
func checkBodies(config *job.Config) (found yamltree.Mistakes) {
	for i := range config.Targets {
		t := &config.Targets[i]
		if err := notify.CheckBody(t); err != nil {
			found = append(found, config.Mistake(t.BodyLine, t.BodyColumn,
				fmt.Sprintf("notify.%s.body: %v", t.Name, err),
				"docs/notifications.md lists the fields of a template"))
		}
	}
	return found
}

// checkAlertKey returns an error if an alert's SQL cannot be bound, or lacks a column of its key.
func checkAlertKey(bound query.Bound, key []string) error {
	if err := bound.Err(); err != nil {
		return err
	}
	var names []string
	for _, f := range bound.Fields {
		names = append(names, strings.ToLower(f.Name))
	}
	for _, column := range key {
		if !slices.Contains(names, column) {
			return fmt.Errorf("the SQL returns no column %s, which key names; it returns %s",
				column, strings.Join(names, ", "))
		}
	}
	return nil
}

// A notifier sends notifications, concurrently with runs. A nil one does nothing.
type notifier struct {
	engine    *engine.Engine
	config    *job.Config     // the engine's may be replaced while this one looks
	watcher   *notify.Watcher // likewise
	deliverer notify.Deliverer
	questions notify.Questions
	asked     os.FileInfo // the published file that alerts were read from last
	logged    string      // why a look failed, as the log has it
	soon      chan struct{}
}

// notifier returns nil if the job file has no target.
func (o *options) notifier(p *program) (*notifier, error) {
	if p.watcher == nil {
		return nil, nil
	}
	e := p.Engine
	sender, err := o.sender(e.Config)
	if err != nil {
		return nil, err
	}
	tables := tablesOf(e.Config)
	tables.Marks = pagedata.MarksIn(e.Store.DB)
	reportExtras(sender, e.Config, tables, e.Log)
	find := seeds(e.Config)
	ask := func(ctx context.Context, sql string) ([]string, error) { return find(ctx, sql, "") }
	return &notifier{
		engine: e, config: e.Config, watcher: p.watcher, soon: make(chan struct{}, 1),
		deliverer: notify.Deliverer{
			Store: e.Store.DB, Ledger: e.Store.Ledger,
			Targets: e.Config.Targets, Sender: sender, Log: e.Log,
		},
		questions: notify.Questions{Watcher: p.watcher, Store: e.Store.DB, Log: e.Log, SQL: func(r *job.Report) (string, error) { return reportSQL(tables, r) }, Ask: ask},
	}, nil
}

// lookEvery is how often a daemon looks for events. The end of a run is reported at once.
const lookEvery = 15 * time.Second

// serve looks for events and delivers them until ctx ends.
func (n *notifier) serve(ctx context.Context) {
	if n == nil {
		return
	}
	var delivering sync.WaitGroup
	delivering.Go(func() { n.deliverer.Run(ctx) })
	for next := time.NewTicker(lookEvery); ctx.Err() == nil; {
		n.look(ctx)
		select {
		case <-next.C:
		case <-n.soon:
		case <-ctx.Done():
			next.Stop()
		}
	}
	delivering.Wait()
}

// lookSoon makes a daemon look for events now.
func (n *notifier) lookSoon() {
	if n == nil {
		return
	}
	select {
	case n.soon <- struct{}{}:
	default: // it is about to look
	}
}

// look adds new events to the outbox: conditions of the whole file, new rows of alerts, and due reports.
func (n *notifier) look(ctx context.Context) {
	n.lookAround()
	n.ask(ctx)
	n.questions.PrepareReports(ctx)
}

// lookAround adds the conditions of the whole file to the outbox.
func (n *notifier) lookAround() {
	e := n.engine
	switch err := n.watcher.Check(e.Store); {
	case err == nil:
		n.logged = ""
	case n.logged != err.Error():
		n.logged = err.Error()
		e.Log.Error("notifications incomplete", "err", err)
	}
}

// ask adds new rows of alerts to the outbox if the tables were published since the last time.
func (n *notifier) ask(ctx context.Context) {
	if len(n.config.Alerts) == 0 {
		return
	}
	file, err := os.Stat(published(n.config))
	if err != nil || n.asked != nil && os.SameFile(file, n.asked) && file.ModTime().Equal(n.asked.ModTime()) {
		return // nothing is published yet, or nothing new
	}
	n.questions.EvaluateAlerts(ctx)
	n.asked = file
}

// finishTime is how long a finished command still tries to deliver.
const finishTime = 3 * time.Second

// finish delivers the events of a command. Events that are not accepted in time stay in the outbox for
// the next command or the daemon. Alerts and reports are asked meanwhile, so that slow SQL delays no other event.
func (n *notifier) finish(ctx context.Context) {
	if n == nil || ctx.Err() != nil {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, finishTime)
	defer cancel()
	n.lookAround()
	var asking sync.WaitGroup
	asking.Go(func() {
		n.ask(ctx)
		n.questions.PrepareReports(ctx)
	})
	n.deliverer.Flush(ctx)
	asking.Wait()
	n.deliverer.Flush(ctx)
}
