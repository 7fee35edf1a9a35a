package command

import (
	"fmt"
	"iter"
	"reflect"
	"slices"

	"outlierd/cmd/outlierd/report"
	"outlierd/cmd/outlierd/term"
	"outlierd/sync/backup"
	"outlierd/sync/forecast"
	"outlierd/sync/journal"
	"outlierd/sync/marks"
	"outlierd/sync/runs"
	"outlierd/sync/serve"
)

// # Documents
//
// With -o json a command prints one document: a value of one type, or a list of such values. From the types a test
// writes the lists of members in docs/commands.md.

// documented is the document of commands: an empty value of its type.
type documented struct {
	commands string
	zero     any
}

// documents lists all documents.
var documents = []documented{
	{"backup, restore", backup.Backup{}},
	{"budget resume", serve.Lifted{}},
	{"budget, budget adjust", forecast.Budget{}},
	{"channels resolve", channelsResolved{}},
	{"check", report.Checked{}},
	{"connect", []snippets{}},
	{"cursor reset", cursorsReset{}},
	{"cursor set", serve.SetCursors{}},
	{"cursor show", []runs.Watermark{}},
	{"doctor", setup{}},
	{"export", fileExported{}},
	{"forget", forgottenThings{}},
	{"health", health{}},
	{"import", serve.Imported{}},
	{"init, man", filesWritten{}},
	{"lint", linted{}},
	{"mark", []marks.Mark{}},
	{"notify test", testSent{}},
	{"open", pageAt{}},
	{"pause", []runs.Pause{}},
	{"plan", forecast.Forecast{}},
	{"prune", prunedNow{}},
	{"queue", []*forecast.Waiting{}},
	{"queue clear", serve.Cleared{}},
	{"rebuild", rebuilt{}},
	{"report preview", previewWritten{}},
	{"resume", jobsResumed{}},
	{"run --cancel", runCancelled{}},
	{"run --dry-run, backfill --dry-run", []price{}},
	{"run, backfill", []*report.Run{}},
	{"runs", []*runs.Run{}},
	{"runs RUN", report.Run{}},
	{"scan adopt", runs.Scan{}},
	{"scan list", []runs.Scan{}},
	{"scan resolve", scanResolved{}},
	{"schema drift", []journal.Drift{}},
	{"schema tables", []tableColumn{}},
	{"share", fileShared{}},
	{"simulate", simulatorAt{}},
	{"status", forecast.Status{}},
	{"version", versions{}},
	{"why", report.Origin{}},
}

// mustBeListed panics if the manual does not have the documents of a type.
func mustBeListed(of reflect.Type) {
	if of.Kind() == reflect.Pointer {
		of = of.Elem()
	}
	if !slices.ContainsFunc(documents, func(d documented) bool { return reflect.TypeOf(d.zero) == of }) {
		panic(fmt.Sprintf("documents lacks %s", of))
	}
}

// print prints a document for programs, or a sentence for people.
func (p *printer) print(value any, format string, args ...any) error {
	mustBeListed(reflect.TypeOf(value))
	if p.forPrograms() {
		return p.printValue(value)
	}
	_, err := fmt.Fprintf(p.w, format, args...)
	return err
}

// printList prints values while they are read: as JSON for programs, else as a table with a row for each.
func printList[T any](p *printer, all iter.Seq2[T, error], columns []string, row func(T) []any) error {
	if p.forPrograms() {
		return printJSON(p, all)
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
func printJSON[T any](p *printer, all iter.Seq2[T, error]) error {
	mustBeListed(reflect.TypeFor[[]T]())
	list := &term.JSONList{W: p.w, Lines: p.format == "ndjson"}
	for v, err := range all {
		if err == nil {
			err = list.Add(v)
		}
		if err != nil {
			return err
		}
	}
	return list.Close()
}
