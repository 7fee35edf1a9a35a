package command

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"
	"github.com/spf13/cobra"

	"outlierd/cmd/outlierd/daemon"
	"outlierd/cmd/outlierd/pagedata"
	"outlierd/outlier"
	"outlierd/sinks/duckdb/query"
	"outlierd/sync/job"
	"outlierd/sync/notify"
	"outlierd/sync/yamltree"
)

func notifyCommand(g *globals) *cobra.Command {
	return group("notify", "Test the targets of notifications",
		`Targets are the entries of "notify" in the job file: webhooks, Healthchecks, commands and
mail. See docs/notifications.md.`, notifyTestCommand(g))
}

func notifyTestCommand(g *globals) *cobra.Command {
	return &cobra.Command{
		Use: "test TARGET", Short: "Send a test notification to a target",
		Long: `Send a test notification to one target of the job file and wait for the answer. It is sent
once, whatever "events" says. Errors show only the host of an address, which is a secret.`,
		RunE: func(c *cobra.Command, args []string) error {
			config, err := g.loadSecrets(c.Context())
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
			sender, err := newSender(config, g.world.env)
			if err != nil {
				return err
			}
			id := uuid.NewString()
			if err := sender.Send(c.Context(), target, notify.Sample(id, time.Now())); err != nil {
				return fmt.Errorf("notify %s: %w", target.Name, err)
			}
			return g.out.print(testSent{target.Name, target.Kind, id},
				"sent a test notification to %s (%s)\n", target.Name, notify.Describe(target))
		},
	}
}

// testSent is the output of notify test for programs.
type testSent struct {
	Target string `json:"target"`
	Kind   string `json:"kind"`
	ID     string `json:"id"` // of the notification
}

// newSender returns what sends notifications from this process.
func newSender(config *job.Config, env lookup) (*notify.Sender, error) {
	var transport http.RoundTripper
	transport, err := outlier.NewTransport("")
	if err != nil {
		return nil, err
	}
	return &notify.Sender{
		Transport: transport, UserAgent: "outlierd/" + version(), Redact: config.Service.Key.Redact,
		Dir: config.Dir, Env: env,
	}, nil
}

// checkBodies returns the mistakes in the templates of webhooks, with their positions.
func checkBodies(config *job.Config) (found yamltree.Mistakes) {
	for i := range config.Targets {
		t := &config.Targets[i]
		if err := notify.CheckBody(t); err != nil {
			found = append(found, config.Mistake(t.BodyAt,
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

// newNotifier returns the notifier of a program; nil if the job file has no target.
func newNotifier(p *program, env lookup) (*daemon.Notifier, error) {
	if p.watcher == nil {
		return nil, nil
	}
	e := p.Engine
	sender, err := newSender(e.Config, env)
	if err != nil {
		return nil, err
	}
	tables := pagedata.New(published(e.Config), e.Config.Timezone)
	tables.Marks = pagedata.MarksIn(e.Store.DB)
	reportExtras(sender, e.Config, tables, e.Log)
	find := seeds(e.Config)
	ask := func(ctx context.Context, sql string) ([]string, error) { return find(ctx, sql, "") }
	return daemon.NewNotifier(&daemon.Notifier{
		Engine: e, Config: e.Config, Watcher: p.watcher, Published: published(e.Config),
		Deliverer: notify.Deliverer{
			Store: e.Store.DB, Ledger: e.Store.Ledger,
			Targets: e.Config.Targets, Sender: sender, Log: e.Log,
		},
		Questions: notify.Questions{Watcher: p.watcher, Store: e.Store.DB, Log: e.Log, Ask: ask,
			SQL: func(r *job.Report) (string, error) { return reportSQL(tables, r) }},
	}), nil
}
