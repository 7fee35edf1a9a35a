package main

import (
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"outlierd/outlier"
	"outlierd/sync/engine"
	"outlierd/sync/job"
	"outlierd/sync/state"
)

// outcome is what is told of a run that has ended.
type outcome struct {
	row     *state.Run
	since   time.Time             // when it was begun, or gone on with
	queued  int                   // data calls left
	unknown outlier.Credits       // of the row's, which may have been spent
	fresh   map[time.Duration]int // data calls that were not made; see [engine.Progress]
	ends    []engine.Ending       // of its searches
	why     string                // it ended so; "" if nothing has to be said
	rest    *engine.Rest          // what its searches left, if that can be bought; else nil

	distinct map[string]int64 // keys of its rows, by table; see [state.Store.Distinct]
}

// outcomeColumns are those of a run's row for programs; [outcome.values] has them.
var outcomeColumns = []string{"run", "job", "status", "started_at", "ended_at", "pages", "hits", "new_hits", "requests", "credits", "unknown", "refunded",
	"missing", "failures", "queued", "skipped_fresh", "rest_of", "error", "searches"}

func (told *outcome) values() []any {
	row, searches := told.row, told.ends
	if searches == nil {
		searches = []engine.Ending{}
	}
	var skipped int64
	for _, calls := range told.fresh {
		skipped += int64(calls)
	}
	return []any{row.ID, row.Job, string(row.Status), when(row.Started), when(row.Ended), row.Pages, row.Hits, row.NewHits, row.Requests, int64(row.Credits),
		int64(told.unknown), int64(row.Refunded), row.Missing, row.Failures, int64(told.queued), skipped, filled(row.RestOf), filled(row.Error), searches}
}

// reportRun gathers what there is to tell of a run, and tells it. An error that it
// failed with is left to whoever is told of that, so that nobody reads it twice.
func (o *options) reportRun(p *program, row *state.Run, failed error) error {
	told := outcome{row: row, since: row.Started}
	if failed == nil {
		told.why = row.Error
	}
	var err error
	if told.queued, err = p.Store.Queued(state.Filter{Job: row.Job}); err != nil {
		return err
	}
	if told.ends, err = p.Endings(row); err != nil {
		return err
	}
	if err := o.offerRest(p, &told); err != nil {
		return err
	}
	spend, err := p.Store.Spent(row.ID)
	if err != nil {
		return err
	}
	told.unknown = spend.Unknown
	if told.distinct, err = p.Store.Distinct(row.ID); err != nil {
		return err
	}
	progress, err := p.Progress()
	if err != nil {
		return err
	}
	if progress.Run == row.ID {
		told.since, told.fresh = progress.Started, progress.Fresh
	}
	o.told = append(o.told, told)
	o.report(p.Config, told)
	return nil
}

// report tells how a run ended and where its rows are.
func (o *options) report(config *job.Config, told outcome) {
	row := told.row
	fmt.Fprintf(o.out, "%s %s  %s in %s   run %s\n", mark(row.Status), row.Job, row.Status, spell(row.Ended.Sub(told.since)), row.ID)
	if !barren(row) {
		columns, _ := o.screen()
		for _, facts := range [][]string{found(row, told.unknown, len(told.ends) > 0), undone(row, told.queued), spared(told.ends), skipped(told.fresh), tableCounts(row.Rows, told.distinct)} {
			if len(facts) > 0 {
				fmt.Fprint(o.out, joined(facts, columns))
			}
		}
	}
	for _, line := range slices.Concat(endLines(told.ends), restLine(told), pagings(told.ends)) {
		fmt.Fprintf(o.out, "  %s\n", plain(line))
	}
	if told.why != "" {
		fmt.Fprintf(o.out, "  %s\n", plain(told.why))
	}
	if barren(row) {
		return
	}
	for _, s := range config.Sinks {
		fmt.Fprintf(o.out, "  %s\n", relative(sinkPath(config, s)))
	}
}

// barren reports whether a run was refused before it brought anything: all that there is
// to tell of it is why.
func barren(row *state.Run) bool {
	switch row.Status {
	case state.Failed, state.PausedBudget, state.PausedQuota:
		return row.Hits == 0 && row.Credits == 0 && len(tableCounts(row.Rows, nil)) == 0
	}
	return false
}

// found is what a run brought and what it cost; what may have been spent stands apart. One
// that searched nothing has no hits to count.
func found(row *state.Run, unknown outlier.Credits, searched bool) []string {
	var facts []string
	if searched || row.Pages > 0 {
		facts = append(facts, fmt.Sprintf("%s on %s, %d new", count(row.Hits, "hit"), count(row.Pages, "page"), row.NewHits))
	}
	facts = append(facts, count(row.Requests, "request"), count(row.Credits-unknown, "credit")+" spent")
	if unknown > 0 {
		facts = append(facts, fmt.Sprintf("%d unknown", unknown))
	}
	if row.Refunded > 0 {
		facts = append(facts, fmt.Sprintf("%d refunded", row.Refunded))
	}
	return facts
}

// undone is what a run asked for and did not get.
func undone(row *state.Run, queued int) []string {
	var facts []string
	if row.Missing > 0 {
		facts = append(facts, count(row.Missing, "call")+" found nothing")
	}
	if row.Failures > 0 {
		facts = append(facts, count(row.Failures, "call")+" failed")
	}
	switch {
	case queued > 0 && isOnce(row.Job):
		facts = append(facts, count(queued, "call")+" left for when it is asked again")
	case queued > 0:
		facts = append(facts, count(queued, "call")+" left for the next run")
	}
	return facts
}

// skipped are the data calls that were not made, by how old an answer may be.
func skipped(fresh map[time.Duration]int) (facts []string) {
	for _, age := range slices.Sorted(maps.Keys(fresh)) {
		facts = append(facts, fmt.Sprintf("%d skipped as fresh (%s)", fresh[age], engine.FreshFor(age)))
	}
	return facts
}

// count is a number of things, in the singular if it is one.
func count[N int | int64 | outlier.Credits](n N, thing string) string {
	if n == 1 {
		return "1 " + thing
	}
	return fmt.Sprintf("%d %ss", n, thing)
}

// joined puts facts on one line, or at a terminal on as many as they need.
func joined(facts []string, columns int) string {
	const indent, between = "  ", " · "
	var out strings.Builder
	line := indent + facts[0]
	for _, fact := range facts[1:] {
		if next := line + between + fact; columns == 0 || width(next) < columns {
			line = next
			continue
		}
		out.WriteString(line + "\n")
		line = indent + fact
	}
	return out.String() + line + "\n"
}

func mark(s state.Status) string {
	switch s {
	case state.OK, state.OKEmpty:
		return "✓"
	case state.Partial, state.PausedBudget, state.PausedQuota, state.Interrupted:
		return "!"
	}
	return "✗"
}

// tableCounts lists the rows that were loaded, leaving out the histories, which repeat them,
// and of tables where a key came more than once, how many keys there were.
func tableCounts(rows, distinct map[string]int64) []string {
	var counts []string
	for name, n := range rows {
		if n > 0 && !strings.HasSuffix(name, "_history") {
			text := fmt.Sprintf("%s %d", name, n)
			if keys := distinct[name]; 0 < keys && keys < n {
				text += fmt.Sprintf(" (%d distinct)", keys)
			}
			counts = append(counts, text)
		}
	}
	slices.Sort(counts)
	if len(counts) > 0 {
		counts[0] = "rows " + counts[0]
	}
	return counts
}

// relative shortens a path below the working folder, for reading and for pasting.
func relative(path string) string {
	here, err := filepath.Abs(".")
	if err != nil {
		return path
	}
	short, err := filepath.Rel(here, path)
	if err != nil || strings.HasPrefix(short, "..") {
		return path
	}
	return short
}

// spell is a duration as a person says it: seconds up to two minutes, then minutes,
// then hours.
func spell(d time.Duration) string {
	switch {
	case d.Round(time.Second) < 2*time.Minute:
		return fmt.Sprintf("%.0f s", d.Seconds())
	case d.Round(time.Minute) < 2*time.Hour:
		return fmt.Sprintf("%.0f min", d.Minutes())
	}
	return fmt.Sprintf("%.1f h", d.Hours())
}
