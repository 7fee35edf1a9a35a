package command

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"outlierd/cmd/outlierd/page"
	"outlierd/cmd/outlierd/pagedata"
	"outlierd/cmd/outlierd/term"
	"outlierd/sync/job"
	"outlierd/sync/notify"
)

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
	sender, err := newSender(config, g.world.env)
	if err != nil {
		return err
	}
	tables := openTables(g, config)
	reportExtras(sender, config, tables, g.logger())
	find := seeds(config)
	ask := func(ctx context.Context, sql string) ([]string, error) { return find(ctx, sql, "") }
	e, failed := notify.MakeReport(ctx, report, time.Now().Truncate(time.Second), func(r *job.Report) (string, error) { return reportSQL(tables, r) }, ask)
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
			if err := os.WriteFile(path, f.Data, 0o600); err != nil {
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
func reportSQL(tables *pagedata.Tables, report *job.Report) (string, error) {
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
func reportExtras(s *notify.Sender, config *job.Config, tables *pagedata.Tables, log *slog.Logger) {
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
func makeAttachment(ctx context.Context, config *job.Config, tables *pagedata.Tables, report *job.Report, due time.Time) (*notify.File, error) {
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
