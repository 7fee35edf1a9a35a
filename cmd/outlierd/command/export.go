package command

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/sync/errgroup"

	"outlierd/cmd/outlierd/page"
	"outlierd/cmd/outlierd/report"
	"outlierd/cmd/outlierd/term"
	"outlierd/cmd/outlierd/thumbnails"
	"outlierd/internal/durable"
	"outlierd/sinks/duckdb/query"
	"outlierd/sync/job"
	"outlierd/sync/marks"
)

// exportFormats has the formats of export, which are also the extensions of its files.
var exportFormats = []string{"csv", "json", "ndjson", "parquet", "xlsx"}

// export is one export of a query's result.
type export struct {
	config *job.Config
	text   string // the query
	to     string // the file, or "-"
	format string
	force  bool
	escape bool // texts in CSV that a spreadsheet would run as formulas
}

func exportCommand(g *globals) *cobra.Command {
	var e export
	c := &cobra.Command{
		Use:   "export TABLE|QUERY",
		Short: "Write a table or a query's result to a file",
		Long: `Write a table, or the result of one SELECT, to a file. The extension selects the format: csv,
json, ndjson, parquet or xlsx. It reads only the published DuckDB file, so it works while a
daemon runs. It needs little memory, even for large results.

The file is complete or not there at all; an existing one is kept unless --force is given.
"--to -" writes to standard output. Times in csv and json are UTC. In xlsx they are in the time
zone of the job file, text is never a formula, and whole numbers of more than 15 digits are
text. Lists, structs and JSON are JSON text in csv and xlsx.`,
		Example: `  outlierd export outliers --to outliers.xlsx
  outlierd export "select * from outliers where z_score > 5" --to best.parquet
  outlierd export ops.runs --to - --format csv | head`,
		RunE: func(c *cobra.Command, args []string) (err error) {
			if e.config, err = g.loadToRead(); err != nil {
				return err
			}
			if e.text, err = queryOf(g.world.in, args[0]); err != nil {
				return err
			}
			if err := e.check(g.out.w); err != nil {
				return err
			}
			return exportNow(c.Context(), g, e)
		},
	}
	flags := c.Flags()
	flags.StringVar(&e.to, "to", "", `the file to write; "-" is standard output`)
	flags.StringVar(&e.format, "format", "", "its format: "+term.OneOf(exportFormats)+
		" (default: the extension of --to)")
	flags.BoolVar(&e.force, "force", false, "replace an existing file")
	flags.BoolVar(&e.escape, "escape-formulas", false,
		"in csv, put ' before texts that a spreadsheet would run as formulas")
	return c
}

// plainName matches the name of a table, with or without its schema.
var plainName = regexp.MustCompile(`^\w+(\.\w+)?$`)

// queryOf returns the query that an argument denotes.
func queryOf(in io.Reader, arg string) (string, error) {
	if plainName.MatchString(arg) {
		return query.Table(arg), nil
	}
	return readQuery(in, arg)
}

// check returns an error for an export that cannot be written, before anything is read.
func (e *export) check(out io.Writer) error {
	if e.to == "" {
		return usageError{errors.New("--to is missing: name the file to write, or - for standard output")}
	}
	if e.format == "" {
		e.format = strings.ToLower(strings.TrimPrefix(filepath.Ext(e.to), "."))
	}
	switch {
	case !slices.Contains(exportFormats, e.format):
		return usageError{fmt.Errorf("%s: unknown format; name it with --format %s", e.to,
			term.OneOf(exportFormats))}
	case e.escape && e.format != "csv":
		return usageError{fmt.Errorf("--escape-formulas is for csv, not for %s", e.format)}
	case e.to == "-" && term.Is(out) && (e.format == "parquet" || e.format == "xlsx"):
		return usageError{fmt.Errorf("%s is not for a terminal: redirect standard output, or name a file", e.format)}
	case e.to == "-":
		return nil
	}
	return e.place()
}

// place resolves the path of the file. It follows a link, so that the link stays one.
func (e *export) place() error {
	if target, err := filepath.EvalSymlinks(e.to); err == nil {
		e.to = target
	}
	if err := refuseOwn(e.config, e.to); err != nil {
		return err
	}
	switch info, err := os.Stat(e.to); {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case err != nil:
		return err
	case !info.Mode().IsRegular():
		return usageError{fmt.Errorf("%s is not a regular file; choose another name, or --to - and redirect it", e.to)}
	case !e.force:
		return fmt.Errorf("%s exists; --force replaces it", e.to)
	}
	return nil
}

// refuseOwn refuses a place that belongs to a sink or to the state.
func refuseOwn(config *job.Config, to string) error {
	full, err := filepath.Abs(to)
	if err != nil {
		return err
	}
	for _, sink := range config.Sinks {
		if path := sinkPath(config, sink); filepath.IsAbs(path) && inside(full, path) {
			return usageError{fmt.Errorf("%s is outlierd's own, and a file there would be read as one of its "+
				"tables; choose another place", to)}
		}
	}
	if inside(full, stateFolder(config)) {
		return usageError{fmt.Errorf("%s is within the state folder; choose another place", to)}
	}
	return nil
}

// inside reports whether a path is a folder, or below it. It resolves links in both as far as they
// exist.
func inside(path, folder string) bool {
	below, err := filepath.Rel(resolved(folder), resolved(path))
	return err == nil && below != ".." && !strings.HasPrefix(below, ".."+string(filepath.Separator))
}

// resolved returns a path with links resolved in the part that exists.
func resolved(path string) string {
	if real, err := filepath.EvalSymlinks(path); err == nil {
		return real
	}
	if parent := filepath.Dir(path); parent != path {
		return filepath.Join(resolved(parent), filepath.Base(path))
	}
	return path
}

// fileExported is the output of export for programs.
type fileExported struct {
	File   string `json:"file"`
	Format string `json:"format"`
	Rows   int64  `json:"rows"`
	Bytes  int64  `json:"bytes"`
}

// exportNow writes a result to its destination.
func exportNow(ctx context.Context, g *globals, e export) error {
	path, _, err := publishedFile(ctx, g, e.config)
	if err != nil {
		return err
	}
	if e.to == "-" {
		temp, err := systemTemporary("outlierd-export-*")
		if err != nil {
			return err
		}
		_, err = exportFrom(ctx, path, e, temp.path, g.out.zone, g.out.w, g.world.err)
		return errors.Join(err, temp.Close())
	}
	var rows int64
	bytes, err := e.create(func(file io.Writer, temp string) (err error) {
		rows, err = exportFrom(ctx, path, e, temp, g.out.zone, file, g.world.err)
		return err
	})
	if err != nil {
		return err
	}
	return g.out.print(fileExported{e.to, e.format, rows, bytes},
		"wrote %s (%s, %s)\n", report.Path(e.to), term.Count(rows, "row"), report.Size(bytes))
}

// create writes the file, in a folder beside it that has room for what writing needs.
func (e *export) create(write func(file io.Writer, temp string) error) (bytes int64, err error) {
	temp, err := makeTemporary(filepath.Dir(e.to), ".outlierd-export-*.tmp")
	if at, isPath := errors.AsType[*fs.PathError](err); isPath { // it names the temporary folder
		err = at.Err
	}
	if err != nil {
		return 0, fmt.Errorf("write %s: %w", e.to, err)
	}
	defer func() { err = errors.Join(err, temp.Close()) }()
	made := filepath.Join(temp.path, "made")
	var failed error // of the query, which says itself what failed
	err = durable.Write(made, 0o644, func(file *os.File) error {
		if failed = write(file, temp.path); failed != nil {
			return failed
		}
		info, err := file.Stat()
		if err == nil {
			bytes = info.Size()
		}
		return err
	})
	if err == nil {
		err = durable.Rename(made, e.to)
	}
	at, isPath := errors.AsType[*fs.PathError](err)
	switch {
	case isPath && strings.HasPrefix(at.Path, filepath.Clean(temp.path)): // such as a full disk; the folder is removed
		err = at.Err
	case failed != nil:
		return 0, failed
	}
	if err != nil {
		return 0, fmt.Errorf("write %s: %w", e.to, err)
	}
	return bytes, nil
}

// exportFrom writes a result over a published file, counts its rows, and says to people how a sheet differs from it.
// In the folder temp it keeps what does not fit into memory.
func exportFrom(ctx context.Context, path string, e export, temp string, zone *time.Location, w, remarks io.Writer) (rows int64, err error) {
	if e.format == "parquet" {
		rows, err = exportParquet(ctx, path, e.text, temp, w)
	} else {
		var sheet *term.Sheet
		if rows, sheet, err = exportRows(ctx, path, e, zone, temp, w); sheet != nil && err == nil {
			describeSheet(remarks, sheet, zone)
		}
	}
	return rows, explainQuery(path, err)
}

// exportParquet lets DuckDB write a file, because it cannot write to a stream, and copies it.
func exportParquet(ctx context.Context, path, text, temp string, w io.Writer) (int64, error) {
	name := filepath.Join(temp, "result.parquet")
	rows, err := query.Parquet(ctx, path, text, temp, name)
	if err != nil {
		return 0, err
	}
	file, err := os.Open(name)
	if err != nil {
		return 0, err
	}
	_, err = io.Copy(w, file)
	return rows, errors.Join(err, file.Close())
}

// exportRows writes a result row by row.
func exportRows(ctx context.Context, path string, e export, zone *time.Location, temp string, w io.Writer) (rows int64, sheet *term.Sheet, err error) {
	buffered := bufio.NewWriterSize(w, 1<<16)
	out := io.Writer(buffered)
	if term.Is(w) {
		out = w // it must be recognized as a terminal
	}
	var p term.Printer
	err = query.Spool(ctx, path, e.text, temp, func(fields []query.Field, n int64) (err error) {
		rows = n
		var names []string
		var dates []int
		for i, f := range fields {
			if names = append(names, f.Name); f.Kind == "DATE" {
				dates = append(dates, i)
			}
		}
		if e.format != "xlsx" {
			p, err = term.NewPrinter(e.format, out, term.Options{Zone: zone, Defuse: e.escape}, names)
			return err
		}
		if err := term.CheckSheet(n, len(fields)); err != nil {
			return err
		}
		sheet, err = term.NewSheet(out, zone, names, dates)
		p = sheet
		return err
	}, func(values []any) error { return p.Row(values) })
	if err == nil {
		err = errors.Join(p.Close(), buffered.Flush())
	}
	return rows, sheet, err
}

// describeSheet says how a sheet differs from the result.
func describeSheet(w io.Writer, sheet *term.Sheet, zone *time.Location) {
	if sheet.Cut > 0 {
		fmt.Fprintf(w, "%s cut to %d characters, the most that Excel holds; "+
			"csv and parquet have them whole\n", term.Count(sheet.Cut, "text"), term.MaxSheetText)
	}
	if zone != nil && zone != time.UTC {
		fmt.Fprintf(w, "times in the sheet are in %s\n", zone)
	}
}

// maxShared is the maximum number of videos in one file, which has about 10 KB for each.
const maxShared = 500

// sharing is one file for people who do not have the page.
type sharing struct {
	export
	sql, title string
	top        int
}

func shareCommand(g *globals) *cobra.Command {
	var s sharing
	c := &cobra.Command{
		Use:   "share [VIEW]",
		Short: "Write videos with pictures to one HTML file",
		Long: `Write the videos of a view to one HTML file, with their pictures and numbers, for a mail or a
drive. The file loads nothing, and has nothing but these videos: no notes, tags, jobs or queries.

VIEW is new_this_week, everything, starred, the name of a view that was saved on the page, or
the address of a list on the page, such as "/found?topic=ramen". With --sql the query selects
the videos by its column video_id, in its order.

Pictures come from the cache of 'outlierd up', or from the image host as with daemon.thumbnails:
proxy. With daemon.thumbnails: off the file has no pictures.`,
		Example: `  outlierd share new_this_week --to week48.html
  outlierd share --sql "select video_id from outliers order by z_score desc limit 20" --to best.html`,
		RunE: func(c *cobra.Command, args []string) (err error) {
			switch {
			case (len(args) == 1) == (s.sql != ""):
				return usageError{errors.New("name either a view or --sql")}
			case s.to == "":
				return usageError{errors.New("--to is missing: name the HTML file to write")}
			case s.top < 1 || s.top > maxShared:
				return usageError{fmt.Errorf("--top must be from 1 to %d, got %d", maxShared, s.top)}
			}
			if s.config, err = g.loadToRead(); err != nil {
				return err
			}
			if err := s.place(); err != nil {
				return err
			}
			return writeShare(c.Context(), g, s, strings.Join(args, ""))
		},
	}
	flags := c.Flags()
	flags.StringVar(&s.to, "to", "", "the HTML file to write")
	flags.StringVar(&s.sql, "sql", "", "a query whose column video_id selects the videos")
	flags.StringVar(&s.title, "title", "", "the headline (default: the name of the view)")
	flags.IntVar(&s.top, "top", page.PerPage, "the first N videos only")
	flags.BoolVar(&s.force, "force", false, "replace an existing file")
	return c
}

func writeShare(ctx context.Context, g *globals, s sharing, view string) error {
	path, at, err := publishedFile(ctx, g, s.config)
	if err != nil {
		return err
	}
	tables := openTables(g, s.config)
	shared := page.Shared{Title: s.title, At: at.In(s.config.Timezone)}
	total, err := selectShared(ctx, s, view, tables, &shared)
	if err != nil {
		return explainQuery(path, err)
	}
	if len(shared.Cards) == 0 {
		return errors.New("nothing is selected, so no file was written")
	}
	if shared.Pictures, err = sharedPictures(ctx, g.logger(), g.world.err, s.config, tables, shared.Cards); err != nil {
		return err
	}
	bytes, err := s.create(func(file io.Writer, _ string) error { return shared.WriteHTML(file) })
	if err != nil {
		return err
	}
	of := ""
	if total > int64(len(shared.Cards)) {
		of = fmt.Sprintf(" of %d", total)
	}
	return g.out.print(fileShared{s.to, len(shared.Cards), total, len(shared.Pictures), bytes},
		"wrote %s (%s%s, %s, %s)\n", report.Path(s.to), term.Count(len(shared.Cards), "video"), of, term.Count(len(shared.Pictures), "picture"), report.Size(bytes))
}

// fileShared is the output of share for programs.
type fileShared struct {
	File     string `json:"file"`
	Videos   int    `json:"videos"`
	Of       int64  `json:"of"` // without --top
	Pictures int    `json:"pictures"`
	Bytes    int64  `json:"bytes"`
}

// selectShared finds the videos, and returns how many there are without --top.
func selectShared(ctx context.Context, s sharing, view string, tables *page.Tables, into *page.Shared) (int64, error) {
	if s.sql != "" {
		ids, err := seeds(s.config)(ctx, s.sql, "video_id")
		if err != nil {
			return 0, err
		}
		if into.Title == "" {
			into.Title = "Outliers"
		}
		into.Cards, err = tables.Picked(ctx, ids[:min(s.top, len(ids))])
		return int64(len(ids)), err
	}
	name, address, err := addressOf(view, tables)
	if err != nil {
		return 0, err
	}
	f, err := page.FilterOf(address)
	if err != nil {
		return 0, usageError{fmt.Errorf("%s: %w", view, err)}
	}
	f.Offset, f.Limit = 0, s.top
	found, err := tables.Found(ctx, f)
	if err != nil {
		return 0, err
	}
	if into.Title == "" {
		into.Title = name
	}
	into.Cards = found.Cards
	return found.Total, nil
}

// addressOf returns the name of a view and its address on the page.
func addressOf(view string, tables *page.Tables) (name, address string, err error) {
	if strings.HasPrefix(view, "/") {
		return "Outliers", view, nil
	}
	marked, err := tables.Marked()
	if err != nil {
		return "", "", err
	}
	views := append([]marks.View{{Name: "new_this_week", Address: "/"}, {Name: "everything", Address: "/found"},
		{Name: "starred", Address: "/found?show=starred"}}, marked.Views...)
	at := slices.IndexFunc(views, func(v marks.View) bool { return strings.EqualFold(v.Name, view) })
	if at < 0 {
		names := make([]string, len(views))
		for i, v := range views {
			names[i] = v.Name
		}
		return "", "", usageError{fmt.Errorf("there is no view %q; want %s", view, term.OneOf(names))}
	}
	if at < 3 {
		return []string{"New this week", "Outliers", "Starred"}[at], views[at].Address, nil
	}
	return views[at].Name, views[at].Address, nil
}

// sharedPictures returns the pictures of videos. Those that cannot be fetched are missing, which is said.
func sharedPictures(
	ctx context.Context, log *slog.Logger, w io.Writer, config *job.Config, tables *page.Tables, cards []page.Card,
) (map[string]thumbnails.Picture, error) {
	here := *config
	if here.Daemon.Thumbnails == job.ThumbnailsDirect { // there is no browser to fetch them
		here.Daemon.Thumbnails = job.ThumbnailsProxy
	}
	from := newThumbnails(&here, tables, log)
	if from == nil {
		return nil, nil
	}
	var mu sync.Mutex
	pictures := map[string]thumbnails.Picture{}
	var work errgroup.Group
	work.SetLimit(8) // so that none waits too long for its turn
	for i := range cards {
		work.Go(func() error {
			picture, err := from.Get(ctx, cards[i].ID, 320)
			if errors.Is(err, thumbnails.ErrNone) {
				return nil
			}
			if err != nil {
				return err
			}
			mu.Lock()
			defer mu.Unlock()
			pictures[cards[i].ID] = *picture
			return nil
		})
	}
	if err := work.Wait(); err != nil && ctx.Err() == nil {
		fmt.Fprintf(w, "some pictures are missing: %s\n", term.Plain(err.Error()))
	}
	return pictures, context.Cause(ctx)
}
