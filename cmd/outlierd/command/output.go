package command

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"slices"
	"strings"
	"time"

	"outlierd/cmd/outlierd/term"
	"outlierd/sync/yamltree"
)

// # One document for programs
//
// With -o json or ndjson standard output has exactly one document: the result of the command, or the
// error that prevented it. Messages for people go to standard error.

// forPrograms reports whether results are JSON.
func (o *options) forPrograms() bool { return o.output == "json" || o.output == "ndjson" }

// prepare checks the global flags before a command starts.
func (o *options) prepare() error {
	if err := o.anyOutput(); err != nil {
		return err
	}
	if _, err := o.logger(); err != nil {
		return err
	}
	if o.forPrograms() && o.printed == nil {
		o.printed = &countingWriter{w: o.world.out}
		o.world.out = o.printed
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
	Message  string    `json:"message"`
	ExitCode int       `json:"exit_code"`
	Mistakes []mistake `json:"mistakes,omitempty"` // of the job file
}

type mistake struct {
	File    string `json:"file"`
	Line    int    `json:"line"`
	Column  int    `json:"column"`
	Message string `json:"message"`
	Hint    string `json:"hint,omitempty"`
}

// fail prints an error as the document, unless a result was printed.
func (o *options) fail(ctx context.Context, err error) error {
	if err == nil || !o.forPrograms() && !asksForJSON(o.world.args) || o.printed != nil && o.printed.n > 0 {
		return nil
	}
	document := failure{
		Message:  cmp.Or(strings.TrimPrefix(errorMessage(ctx, err), "outlierd: "), o.ended, err.Error()),
		ExitCode: exitCode(ctx, err),
	}
	if mistakes, ok := errors.AsType[yamltree.Mistakes](err); ok {
		document.Mistakes = mistakesOf(mistakes)
		document.Message = mistakes[0].String()
		if more := len(mistakes) - 1; more > 0 {
			document.Message += fmt.Sprintf(" (and %d more)", more)
		}
	}
	return o.whole(map[string]failure{"error": document})
}

func mistakesOf(all []yamltree.Mistake) []mistake {
	list := []mistake{}
	for _, m := range all {
		list = append(list, mistake{m.File, m.Line, m.Column, m.Message, m.Hint})
	}
	return list
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

// done prints the result of a command: a sentence for people, or a document for programs.
func (o *options) done(result any, format string, args ...any) error {
	if o.forPrograms() {
		return o.whole(result)
	}
	_, err := fmt.Fprintf(o.world.out, format, args...)
	return err
}

// whole prints one value as JSON.
func (o *options) whole(v any) error {
	text, err := term.JSON(v)
	if err != nil {
		return err
	}
	var out bytes.Buffer
	if o.output != "ndjson" {
		if err := json.Indent(&out, text, "", "  "); err != nil {
			return err
		}
		text = out.Bytes()
	}
	_, err = fmt.Fprintf(o.world.out, "%s\n", text)
	return err
}

// list prints values as JSON while they are read: as a list, or with ndjson one a line.
func (o *options) list(all iter.Seq2[any, error]) error {
	begin, between, end := "[\n", ",\n", "\n]\n"
	if o.output == "ndjson" {
		begin, between, end = "", "\n", "\n"
	}
	printed, next := false, begin
	for v, err := range all {
		if err != nil {
			return err
		}
		text, err := term.JSON(v)
		if err != nil {
			return err
		}
		if _, err := fmt.Fprintf(o.world.out, "%s%s", next, text); err != nil {
			return err
		}
		printed, next = true, between
	}
	switch {
	case !printed && begin == "":
		return nil
	case !printed:
		end = "[]\n"
	}
	_, err := io.WriteString(o.world.out, end)
	return err
}

// tableOrJSON refuses other outputs, for commands that print no list of rows.
func (o *options) tableOrJSON() error {
	if o.output != "table" && !o.forPrograms() {
		return usageError{fmt.Errorf("--output %s: want table, json or ndjson", o.output)}
	}
	return nil
}

// anyOutput refuses an unknown output format before anything is done.
func (o *options) anyOutput() error {
	if slices.Contains(term.Formats, o.output) {
		return nil
	}
	meant := didYouMean(o.output, term.Formats)
	return usageError{fmt.Errorf("--output %s: want %s%s", o.output, term.OneOf(term.Formats), meant)}
}

// printer returns a printer to standard output in the chosen format.
func (o *options) printer(columns []string) (term.Printer, error) {
	return term.NewPrinter(o.output, o.world.out, o.look(), columns)
}

func (o *options) look() term.Options {
	screen, _ := o.screen()
	return term.Options{Screen: cmp.Or(screen, term.DefaultScreen), Wide: o.wide, Zone: o.zone}
}

// rows prints a result that does not come from a query.
func (o *options) rows(columns []string, rows [][]any) error {
	p, err := o.printer(columns)
	if err != nil {
		return err
	}
	for _, row := range rows {
		if err := p.Row(row); err != nil {
			return err
		}
	}
	return p.Close()
}

// when returns a time as a value of a result: NULL if it is zero.
func when(t time.Time) any {
	if t.IsZero() {
		return nil
	}
	return t
}

// second rounds a time for people to the second.
func second(v any) any {
	if t, ok := v.(time.Time); ok {
		return t.Truncate(time.Second)
	}
	return v
}

// listed returns a list of texts as a value of a result.
func listed(texts []string) any {
	all := []any{}
	for _, text := range texts {
		all = append(all, text)
	}
	return all
}

// filled returns a text as a value of a result: NULL if it is empty.
func filled(text string) any {
	if text == "" {
		return nil
	}
	return text
}

// aside returns options that print to standard error, for when standard output is for a result.
func (o *options) aside() *options {
	aside := *o
	aside.world.out = o.world.err
	aside.block = term.NewBlock(o.world.err, aside.screen)
	return &aside
}

// columns selects the columns: the most important ones for people, otherwise all.
func (o *options) columns(few string) string {
	switch o.output {
	case "table", "markdown":
		return few
	}
	return "t.*"
}

// asker returns nil unless a user can read a question and answer it.
func (o *options) asker() *term.Asker {
	if !term.Is(o.world.in) || !term.Is(o.world.err) {
		return nil
	}
	return &term.Asker{In: o.world.in, Out: o.world.err}
}
