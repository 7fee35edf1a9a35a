package command

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"reflect"
	"slices"
	"strings"
	"time"

	"outlierd/cmd/outlierd/daemon"
	"outlierd/cmd/outlierd/term"
	"outlierd/sync/yamltree"
)

// # One document for programs
//
// With -o json or ndjson standard output has exactly one document: the result of the command, or the
// error that prevented it. Messages for people go to standard error.

// A printer prints the result of a command in the format of --output, and its progress.
type printer struct {
	w       io.Writer
	counted *countingWriter // w, if it is for a program; else nil
	format  string
	brief   bool           // print the most important columns as JSON, too
	wide    bool           // print every column of a table, and all of its text
	zone    *time.Location // of the job file, once it is read; nil before
	block   *term.Block    // progress at a terminal
	isDumb  bool           // the terminal prints the escape sequences with which lines are redrawn, like the shell of an editor
}

func newPrinter(w io.Writer, env lookup) *printer {
	terminal, _ := env("TERM")
	return (&printer{isDumb: terminal == "dumb"}).to(w)
}

// to returns a printer like this one that prints to w.
func (p *printer) to(w io.Writer) *printer {
	other := *p
	other.w, other.block = w, term.NewBlock(w, func() int { return term.Columns(w) })
	return &other
}

// forPrograms reports whether results are JSON.
func (p *printer) forPrograms() bool { return p.format == "json" || p.format == "ndjson" }

// redraws reports whether this is a terminal in which lines can be redrawn.
func (p *printer) redraws() bool { return term.Is(p.w) && !p.isDumb }

// look returns how results are shown to people.
func (p *printer) look() term.Options {
	return term.Options{Screen: term.Columns(p.w), Wide: p.wide, Zone: p.zone}
}

// columns selects the columns: the most important ones for people, otherwise all.
func (p *printer) columns(few string) string {
	if p.brief || p.format == "table" || p.format == "markdown" {
		return few
	}
	return "t.*"
}

// printValue prints one value as JSON.
func (p *printer) printValue(v any) error {
	text, err := term.JSON(v)
	if err != nil {
		return err
	}
	var out bytes.Buffer
	if p.format != "ndjson" {
		if err := json.Indent(&out, text, "", "  "); err != nil {
			return err
		}
		text = out.Bytes()
	}
	_, err = fmt.Fprintf(p.w, "%s\n", text)
	return err
}

// prepare checks the global flags before a command starts.
func (g *globals) prepare() error {
	formats := []string{"table", "json", "ndjson"}
	if slices.Contains(rowCommands, g.command.Name()) {
		formats = term.Formats
	}
	if g.config == "" {
		return errors.New("--config is empty: name the job file")
	}
	if err := refuseEmptyValues(g.command.Flags()); err != nil {
		return err
	}
	err := cmp.Or(refuseOther("--output", g.out.format, formats), refuseOther("--log-level", g.logLevel, logLevels),
		refuseOther("--log-format", g.logFormat, logFormats))
	if err != nil {
		return err
	}
	if g.out.forPrograms() && g.out.counted == nil {
		g.out.counted = &countingWriter{w: g.out.w}
		g.out.w = g.out.counted
	}
	return nil
}

// countingWriter counts what was printed.
type countingWriter struct {
	w io.Writer
	n int
}

func (c *countingWriter) Write(p []byte) (int, error) {
	n, err := c.w.Write(p)
	c.n += n
	return n, err
}

// failure is the document of a command without a result.
type failure struct {
	Message  string            `json:"message"`
	ExitCode int               `json:"exit_code"`
	Mistakes yamltree.Mistakes `json:"mistakes,omitempty"` // of the job file
}

// fail prints an error as the document, unless a result was printed.
func (g *globals) fail(ctx context.Context, err error) error {
	if err == nil || !g.out.forPrograms() && !asksForJSON(g.world.args) || g.out.counted != nil && g.out.counted.n > 0 {
		return nil
	}
	document := failure{
		Message:  cmp.Or(strings.TrimPrefix(errorMessage(ctx, err), "outlierd: "), g.spending.ended, err.Error()),
		ExitCode: exitCode(ctx, err),
	}
	if mistakes, ok := errors.AsType[yamltree.Mistakes](err); ok {
		document.Mistakes = mistakes
		document.Message = daemon.WhyRefused(err)
	}
	return g.out.printValue(map[string]failure{"error": document})
}

// asksForJSON reports whether arguments that could not be parsed contain -o json.
func asksForJSON(args []string) bool {
	for i, arg := range args {
		if (arg == "-o" || arg == "--output") && i+1 < len(args) {
			arg += "=" + args[i+1]
		}
		asJSON := []string{"-o=json", "-ojson", "--output=json", "-o=ndjson", "-ondjson", "--output=ndjson"}
		if slices.Contains(asJSON, arg) {
			return true
		}
	}
	return false
}

// rowCommands are the commands that print the rows of a query, in any format. All others print one value or a list of
// values, as text or as JSON.
var rowCommands = []string{"sql", "search", "related", "find-channels", "trending-formats", "start", "read", "channel", "video",
	"comments", "transcript"}

// refuseOther returns an error for a value that is not one of those that an argument or a flag has.
func refuseOther(name, value string, known []string) error {
	if slices.Contains(known, value) {
		return nil
	}
	return usageError{fmt.Errorf("%s %s: want %s%s", name, value, term.OneOf(known), didYouMean(value, known))}
}

// second rounds a time for people to the second.
func second(v any) any {
	if t, ok := v.(time.Time); ok {
		return t.Truncate(time.Second)
	}
	return v
}

// when returns a time as a value of a row: NULL if it is zero.
func when(t time.Time) any {
	if t.IsZero() {
		return nil
	}
	return t
}

// filled returns a text as a value of a row: NULL if it is empty.
func filled(text string) any {
	if text == "" {
		return nil
	}
	return text
}

// aside returns these flags for what prints to standard error, because standard output is for a result.
func (g *globals) aside() *globals {
	aside := *g
	aside.out = g.out.to(g.world.err)
	return &aside
}

// asker returns nil unless a user can read a question and answer it.
func (g *globals) asker() *term.Asker {
	if !term.Is(g.world.in) || !term.Is(g.world.err) {
		return nil
	}
	return &term.Asker{In: g.world.in, Out: g.world.err}
}

// print prints a document for programs, or a sentence for people. If the reader of the output has ended, that is no
// error: the command goes on, and its exit code tells its result.
func (p *printer) print(value any, format string, args ...any) error {
	mustBeListed(reflect.TypeOf(value))
	if p.forPrograms() {
		return withoutEndOfReader(p.printValue(value))
	}
	_, err := fmt.Fprintf(p.w, format, args...)
	return withoutEndOfReader(err)
}

// printList prints values: as JSON for programs, else as a table with a row for each.
func printList[T any](p *printer, all []T, columns []string, row func(T) []any) error {
	if p.forPrograms() {
		return printJSON(p, all)
	}
	t := term.NewTable(p.w, p.look(), columns)
	for _, v := range all {
		if err := t.Row(row(v)); err != nil {
			return err
		}
	}
	return t.Close()
}

// printJSON prints values as a list, or with ndjson one a line.
func printJSON[T any](p *printer, all []T) error {
	mustBeListed(reflect.TypeFor[[]T]())
	list := &term.JSONList{W: p.w, Lines: p.format == "ndjson"}
	for _, v := range all {
		if err := list.Add(v); err != nil {
			return err
		}
	}
	return list.Close()
}
