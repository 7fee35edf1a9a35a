package command

import (
	"bytes"
	"encoding/json"
	"fmt"
	"iter"

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
// With -o json a command prints one document: a value of one type, or a list of such values. From these types a test
// writes the lists of members in docs/commands.md.

var (
	writtenFiles     = documentOf[filesWritten]("init", "man")
	lintedFile       = documentOf[linted]("lint")
	forecastShown    = documentOf[*forecast.Forecast]("plan")
	endedRuns        = listOf[*report.Run]("run", "backfill")
	runPrices        = listOf[price]("run --dry-run", "backfill --dry-run")
	cancelledRun     = documentOf[runCancelled]("run --cancel")
	jobPauses        = documentOf[[]runs.Pause]("pause")
	resumedJobs      = documentOf[jobsResumed]("resume")
	queuedCalls      = listOf[*forecast.Waiting]("queue")
	clearedQueue     = documentOf[serve.Cleared]("queue clear")
	jobCursors       = listOf[runs.Watermark]("cursor show")
	setCursors       = documentOf[serve.SetCursors]("cursor set")
	resetCursors     = documentOf[cursorsReset]("cursor reset")
	knownScans       = listOf[runs.Scan]("scan list")
	adoptedScan      = documentOf[*runs.Scan]("scan adopt")
	resolvedScan     = documentOf[scanResolved]("scan resolve")
	resolvedChannels = documentOf[channelsResolved]("channels resolve")
	statusShown      = documentOf[*forecast.Status]("status")
	recordedRuns     = listOf[*runs.Run]("runs")
	recordedRun      = documentOf[*report.Run]("runs RUN")
	exportedFile     = documentOf[fileExported]("export")
	sharedFile       = documentOf[fileShared]("share")
	toolLines        = documentOf[[]snippets]("connect")
	originShown      = documentOf[*report.Origin]("why")
	budgetShown      = documentOf[*forecast.Budget]("budget", "budget adjust")
	liftedBlocks     = documentOf[serve.Lifted]("budget resume")
	tableColumns     = documentOf[[]tableColumn]("schema tables")
	answerDrift      = listOf[journal.Drift]("schema drift")
	checkedAll       = documentOf[report.Checked]("check")
	checkedSetup     = documentOf[setup]("doctor")
	healthShown      = documentOf[health]("health")
	pageAddress      = documentOf[pageAt]("open")
	listedMarks      = listOf[marks.Mark]("mark")
	markedVideos     = documentOf[videosMarked]("mark VIDEO")
	importedVideos   = documentOf[serve.Imported]("import")
	sentTest         = documentOf[testSent]("notify test")
	reportPreview    = documentOf[previewWritten]("report preview")
	backupShown      = documentOf[backup.Backup]("backup", "restore")
	rebuiltTables    = documentOf[*rebuilt]("rebuild")
	prunedJournal    = documentOf[prunedNow]("prune")
	forgottenIDs     = documentOf[forgottenThings]("forget")
	simulatorURL     = documentOf[simulatorAt]("simulate")
	versionShown     = documentOf[versions]("version")
)

// documents lists all documents, in the order above.
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
func (document[T]) print(o *options, value T, format string, args ...any) error {
	if o.forPrograms() {
		return o.whole(value)
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

// A documentList is a list of values that commands print.
type documentList[T any] struct{}

func listOf[T any](commands ...string) (l documentList[T]) {
	documents = append(documents, documented{commands, *new(T), true})
	return l
}

// print prints values while they are read: as JSON for programs, else as a table with a row for each.
func (l documentList[T]) print(o *options, all iter.Seq2[T, error], columns []string, row func(T) []any) error {
	if o.forPrograms() {
		return l.printJSON(o, all)
	}
	t := term.NewTable(o.world.out, o.look(), columns)
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
func (documentList[T]) printJSON(o *options, all iter.Seq2[T, error]) error {
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
	_, err := fmt.Fprint(o.world.out, end)
	return err
}
