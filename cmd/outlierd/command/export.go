package command

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"outlierd/cmd/outlierd/report"
	"outlierd/cmd/outlierd/term"
	"outlierd/internal/durable"
	"outlierd/sinks/duckdb/query"
	"outlierd/sync/job"
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

// create writes the file, in a folder beside it that has room for what writing needs. Without --force it keeps one that
// was created meanwhile.
func (e *export) create(write func(file io.Writer, temp string) error) (bytes int64, err error) {
	temp, err := makeTemporary(filepath.Dir(e.to), ".outlierd-export-*.tmp")
	if err != nil {
		return 0, fmt.Errorf("write %s: %w", e.to, err)
	}
	defer func() { err = errors.Join(err, temp.Close()) }()
	made, place := filepath.Join(temp.path, "made"), durable.RenameNew
	if e.force {
		place = durable.Rename
	}
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
		err = place(made, e.to)
	}
	switch {
	case failed != nil:
		return 0, failed
	case errors.Is(err, fs.ErrExist):
		err = errors.New("it was created meanwhile; --force replaces it")
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
