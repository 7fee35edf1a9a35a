package command

import (
	"cmp"
	"context"
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
	if err := o.checkOutput(); err != nil {
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

// first yields the first values; all of them for a limit of 0.
func first[T any](all iter.Seq2[T, error], limit int) iter.Seq2[T, error] {
	return func(yield func(T, error) bool) {
		n := 0
		for v, err := range all {
			if n++; limit > 0 && n > limit || !yield(v, err) {
				return
			}
		}
	}
}

// each yields the values of a list that was read.
func each[T any](all []T) iter.Seq2[T, error] {
	return func(yield func(T, error) bool) {
		for _, v := range all {
			if !yield(v, nil) {
				return
			}
		}
	}
}

// rowCommands are the commands that print the rows of a query, in any format. All others print one value or a list of
// values, as text or as JSON.
var rowCommands = []string{"sql", "search", "related", "find-channels", "trending-formats", "start", "read", "channel", "video",
	"comments", "transcript"}

// checkOutput refuses an output format that the command does not have, before anything is done.
func (o *options) checkOutput() error {
	formats := []string{"table", "json", "ndjson"}
	if slices.Contains(rowCommands, o.command.Name()) {
		formats = term.Formats
	}
	if slices.Contains(formats, o.output) {
		return nil
	}
	return usageError{fmt.Errorf("--output %s: want %s%s", o.output, term.OneOf(formats), didYouMean(o.output, formats))}
}

// printer returns a printer to standard output in the chosen format.
func (o *options) printer(columns []string) (term.Printer, error) {
	return term.NewPrinter(o.output, o.world.out, o.look(), columns)
}

func (o *options) look() term.Options {
	screen, _ := o.screen()
	return term.Options{Screen: screen, Wide: o.wide, Zone: o.zone}
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

// aside returns options that print to standard error, for when standard output is for a result.
func (o *options) aside() *options {
	aside := *o
	aside.world.out = o.world.err
	aside.block = term.NewBlock(o.world.err, aside.screen)
	return &aside
}

// columns selects the columns: the most important ones for people, otherwise all.
func (o *options) columns(few string) string {
	if o.brief || o.output == "table" || o.output == "markdown" {
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
