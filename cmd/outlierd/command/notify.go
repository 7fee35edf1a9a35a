package command

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"
	"github.com/spf13/cobra"

	"outlierd/cmd/outlierd/daemon"
	"outlierd/cmd/outlierd/page"
	"outlierd/cmd/outlierd/term"
	"outlierd/internal/durable"
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
			var names []string
			for _, t := range config.Targets {
				names = append(names, t.Name)
			}
			target := config.Target(args[0])
			if target == nil {
				return usageError{fmt.Errorf("%s has no target %q under notify%s", config.Path, args[0], didYouMean(args[0], names))}
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
	tables := page.NewTables(published(e.Config), e.Config.Timezone)
	tables.Marks = page.MarksIn(e.Store.DB)
	sender, questions, err := newReporter(e.Config, env, tables, e.Log)
	questions.Watcher, questions.Store = p.watcher, e.Store.DB
	return &daemon.Notifier{
		Engine: e, Config: e.Config, Watcher: p.watcher, Published: published(e.Config), Questions: questions,
		Deliverer: notify.Deliverer{
			Store: e.Store.DB, Ledger: e.Store.Ledger,
			Targets: e.Config.Targets, Sender: sender, Log: e.Log,
		},
	}, err
}

// newReporter returns what sends reports, with pictures and attachments, and what runs their SQL.
func newReporter(config *job.Config, env lookup, tables *page.Tables, log *slog.Logger) (
	*notify.Sender, notify.Questions, error) {
	find := seeds(config)
	asks := notify.Questions{
		Log: log, Ask: func(ctx context.Context, sql string) ([]string, error) { return find(ctx, sql, "") },
		SQL: func(r *job.Report) (string, error) { return reportSQL(tables, r) },
	}
	sender, err := newSender(config, env)
	if err == nil {
		reportExtras(sender, config, tables, log)
	}
	return sender, asks, err
}

func reportCommand(g *globals) *cobra.Command {
	return group("report", "Preview the reports of the job file",
		`Reports are the entries of "reports" in the job file: results of SQL that 'outlierd up', or
the next 'outlierd run', sends on a schedule. See docs/notifications.md.`, reportPreviewCommand(g))
}

func reportPreviewCommand(g *globals) *cobra.Command {
	var dir string
	c := &cobra.Command{
		Use: "preview NAME", Short: "Write what a report would send now",
		Long: `Run the SQL of a report on the published tables, and write what each of its targets would get
now: a mail as .html and .eml, the body of a webhook's request, and the attachment. Nothing is sent.`,
		Example: `  outlierd report preview monday --dir /tmp`,
		RunE: func(c *cobra.Command, args []string) error {
			config, err := g.loadSecrets(c.Context())
			if err != nil {
				return err
			}
			report := config.Report(args[0])
			if report == nil {
				return noReport(config, args[0])
			}
			return previewReport(c.Context(), g, config, report, dir)
		},
	}
	c.Flags().StringVar(&dir, "dir", ".", "the folder to write to")
	return c
}

func noReport(config *job.Config, name string) error {
	if len(config.Reports) == 0 {
		return usageError{fmt.Errorf("%s has no reports: docs/notifications.md shows how to write one", config.Path)}
	}
	var names []string
	for _, r := range config.Reports {
		names = append(names, r.Name)
	}
	return usageError{fmt.Errorf("reports has no %q: the reports are %s", name, strings.Join(names, ", "))}
}

// previewReport writes the files of a report. Files of an earlier preview are replaced.
func previewReport(ctx context.Context, g *globals, config *job.Config, report *job.Report, dir string) error {
	sender, questions, err := newReporter(config, g.world.env, openTables(g, config), g.logger())
	if err != nil {
		return err
	}
	e, failed := notify.MakeReport(ctx, report, time.Now().Truncate(time.Second), questions.SQL, questions.Ask)
	if err := ctx.Err(); err != nil {
		return err
	}
	var written []string
	for _, name := range report.To {
		files, err := sender.Preview(ctx, config.Target(name), e)
		if err != nil {
			return fmt.Errorf("preview %s for %s: %w", report.Name, name, err)
		}
		for _, f := range files {
			path := filepath.Join(dir, f.Name)
			if slices.Contains(written, path) {
				continue // the attachment, which is the same for all
			}
			if err := durable.WriteFile(path, f.Data, 0o600); err != nil {
				return err
			}
			written = append(written, path)
		}
	}
	if err := g.out.print(previewWritten{e.Title, e.Counts["rows"], written},
		"%s\n  %s\n", term.Plain(e.Title), strings.Join(written, "\n  ")); err != nil {
		return err
	}
	return failed
}

// previewWritten is the output of report preview for programs.
type previewWritten struct {
	Title string   `json:"title"`
	Rows  int64    `json:"rows"`
	Files []string `json:"files"`
}

// reportSQL returns the SQL of a report, which may name a view that people saved on the page.
func reportSQL(tables *page.Tables, report *job.Report) (string, error) {
	if report.View == "" {
		return report.SQL, nil
	}
	_, address, err := addressOf(report.View, tables)
	if err != nil {
		return "", err
	}
	f, err := page.FilterOf(address)
	if err != nil {
		return "", err
	}
	return tables.SQL(f)
}

// maxAttachment is the maximum size of an attachment in bytes: few mail servers accept more than twice as much.
const maxAttachment = 10 << 20

// reportExtras lets a sender enclose pictures and attachments in the mails of reports.
func reportExtras(s *notify.Sender, config *job.Config, tables *page.Tables, log *slog.Logger) {
	s.Attach = func(ctx context.Context, name string, due time.Time) (*notify.File, error) {
		report := config.Report(name)
		if report == nil || report.Attach == "" {
			return nil, nil
		}
		return makeAttachment(ctx, config, tables, report, due)
	}
	pictures := newThumbnails(config, tables, log)
	if pictures == nil || pictures.Transport == nil { // with `direct`, this process fetches none
		return
	}
	s.Picture = func(ctx context.Context, video string) (*notify.Picture, error) {
		picture, err := pictures.Get(ctx, video, 320)
		if err != nil {
			return nil, err
		}
		return &notify.Picture{Data: picture.Data, Type: picture.Type}, nil
	}
}

// makeAttachment returns a file with all rows of a report.
func makeAttachment(ctx context.Context, config *job.Config, tables *page.Tables, report *job.Report, due time.Time) (*notify.File, error) {
	sql, err := reportSQL(tables, report)
	if err != nil {
		return nil, err
	}
	content, err := downloadResult(ctx, tables, func() (*temporary, error) { return newTemporary(config) }, sql, report.Attach)
	if err != nil {
		return nil, err
	}
	data, err := io.ReadAll(io.LimitReader(content, maxAttachment+1))
	if err = errors.Join(err, content.Close()); err != nil {
		return nil, err
	}
	if len(data) > maxAttachment {
		return nil, fmt.Errorf("it has more than %d MiB", maxAttachment>>20)
	}
	return &notify.File{Name: fmt.Sprintf("%s-%s.%s", report.Name, due.In(tables.Zone).Format(time.DateOnly), report.Attach),
		Type: page.FileTypes[report.Attach], Data: data}, nil
}
