package load

import (
	"fmt"

	"outlierd/schema"
	"outlierd/sinks"
	"outlierd/sync/journal"
)

// tally counts the rows of the runs in progress, but for tables without rows.
type tally struct {
	counted int64                       // answers up to this one are in rows, or counted by another process
	rows    map[string]map[string]int64 // number of rows by run and table
	left    sinks.Omitted               // what is left out of the tables
}

// Expect starts counting the rows of a run, until [Loader.Taken].
func (t *tally) Expect(run string) { t.rows[run] = map[string]int64{} }

// Taken returns the number of rows of a run since [Loader.Expect], by table, and stops counting.
func (t *tally) Taken(run string) map[string]int64 {
	rows := t.rows[run]
	delete(t.rows, run)
	return rows
}

// countRows adds the number of rows of the answer that was decoded last to that of its run. Answers that are decoded
// again, for a warehouse that is filled again, are not counted again.
func (t *tally) countRows(entry *journal.Entry, decoder *schema.Decoder) {
	if entry.ID <= t.counted {
		return
	}
	t.counted = entry.ID
	if rows := t.rows[entry.Run]; rows != nil { // else the run has ended, and its record is final
		t.addCounted(rows, decoder)
	}
}

func (t *tally) addCounted(rows map[string]int64, decoder *schema.Decoder) {
	for table, n := range decoder.Counted() {
		if t.left.UpTo[table] != sinks.Whole {
			rows[table] += n
		}
	}
}

// Recount returns the number of rows of a run so far, by table. It is for a run whose process was
// killed and whose counts were lost. Its cost is proportional to the run's answers.
func (l *Loader) Recount(run string) (map[string]int64, error) {
	answers, err := l.store.Calls.AnswersOf(run, l.counted)
	if err != nil {
		return nil, err
	}
	rows, b := map[string]int64{}, batchAfter(l.store, 0)
	count := func(*journal.Entry, error) { l.addCounted(rows, b.decoder) }
	for entry, err := range l.store.Journal.Each(answers) {
		if err == nil {
			err = b.add(entry, count)
		}
		if err != nil {
			return nil, fmt.Errorf("count the rows of run %s: %w", run, err)
		}
		releaseParts(b.decoder.Take())
	}
	return rows, nil
}
