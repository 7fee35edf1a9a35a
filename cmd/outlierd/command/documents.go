package command

import (
	"fmt"
	"iter"

	"outlierd/cmd/outlierd/term"
)

// # Documents
//
// With -o json a command prints one document: a value of one type, or a list of such values. From the types a test
// writes the lists of members in docs/commands.md.

// documents lists all documents.
var documents []documented

// documented is a document as the manual lists it.
type documented struct {
	commands []string
	zero     any  // of the type of the value
	isList   bool // of such values
}

// A document is a value that commands print.
type document[T any] struct{}

func documentOf[T any](commands ...string) (d document[T]) {
	documents = append(documents, documented{commands, *new(T), false})
	return d
}

// print prints the value for programs, or a sentence for people.
func (document[T]) print(p *printer, value T, format string, args ...any) error {
	if p.forPrograms() {
		return p.printValue(value)
	}
	_, err := fmt.Fprintf(p.w, format, args...)
	return err
}

// A documentList is a list of values that commands print.
type documentList[T any] struct{}

func listOf[T any](commands ...string) (l documentList[T]) {
	documents = append(documents, documented{commands, *new(T), true})
	return l
}

// print prints values while they are read: as JSON for programs, else as a table with a row for each.
func (l documentList[T]) print(p *printer, all iter.Seq2[T, error], columns []string, row func(T) []any) error {
	if p.forPrograms() {
		return l.printJSON(p, all)
	}
	t := term.NewTable(p.w, p.look(), columns)
	for v, err := range all {
		if err != nil {
			return err
		}
		if err := t.Row(row(v)); err != nil {
			return err
		}
	}
	return t.Close()
}

// printJSON prints values as a list, or with ndjson one a line.
func (documentList[T]) printJSON(p *printer, all iter.Seq2[T, error]) error {
	begin, between, end := "[\n", ",\n", "\n]\n"
	if p.format == "ndjson" {
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
		if _, err := fmt.Fprintf(p.w, "%s%s", next, text); err != nil {
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
	_, err := fmt.Fprint(p.w, end)
	return err
}
