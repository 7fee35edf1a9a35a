// Package load writes answers from the journal to the warehouse, and has the copies made that readers use:
// in batches during runs ([Loader]), or all at once, to compare ([Project]).
//
// An answer must be durable in the journal before it is written. A loader reads the journal from the
// warehouse's own watermark, so a warehouse that was locked, full or new catches up without a purchase.
// Readers see changes only when a copy is published.
package load

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/apache/arrow-go/v18/arrow/memory"

	"outlierd/internal/excerpt"
	"outlierd/schema"
	"outlierd/sinks"
	"outlierd/sync/job"
	"outlierd/sync/journal"
	"outlierd/sync/ops"
	"outlierd/sync/state"
	"outlierd/sync/store"
)

// A batch has at most this size. The cost of a batch in DuckDB is mostly fixed, so fewer and larger ones are
// cheaper; the limits keep memory small. Batches are written before publishing only: the journal makes an
// answer durable, and readers see it when it is published.
const (
	batchBytes = 8 << 20
	batchRows  = 60_000
)

// publishEvery is the interval at which a run publishes. At ten requests per minute there is little
// new to see more often.
const publishEvery = time.Minute

// publishSoon is the interval once all pages of a run are received, to show its hits while the calls
// about them are made, and once people have marked videos.
const publishSoon = 10 * time.Second

// Line is the warehouse and the copies that are made from it. Without a warehouse nothing is loaded.
type Line struct {
	Warehouse sinks.Warehouse
	Copies    []sinks.Copy
	Tables    func() []job.Table // what the job file leaves out now; nil for nothing
}

// Loader brings the warehouse up to the end of the journal, and publishes the copies.
type Loader struct {
	PagesIn bool // all pages of a run are received and not yet published
	Marked  bool // people have marked videos, which is not yet published

	strict    bool // a failure is an error; see [Fill]
	store     *state.Store
	log       *slog.Logger
	decoder   *schema.Decoder
	warehouse sinks.Warehouse // nil if nothing is loaded
	source    *sinkState      // of the warehouse
	copies    []*copyState

	lo, hi  int64                       // the answers (lo, hi] are in the decoder; -1 while the warehouse does not work
	counted int64                       // answers up to this one are in rows, or counted by another process
	rows    map[string]map[string]int64 // number of rows by run and table
	drift   []journal.Drift             // found in the answers of the batch
	drifted int64                       // the drift of answers up to this one is recorded

	shown     int64         // the last answer at the time of the last publication
	published time.Time     // when that was
	copying   time.Duration // how long it took

	tables  func() []job.Table
	omitted string        // what was left out of the warehouse, as [Loader.wanted]
	left    sinks.Omitted // that is left out

	forgotten int64 // changes of the operations tables up to this one were removed from the state

	beat func() // called for each batch

	downSince time.Time // since when no copy can be published; zero while one can
	answered  bool      // the warehouse and a copy have told their marks, so the journal is known to be complete
}

// New returns a loader. It reads the marks of the warehouse and of every copy, and disables what does not
// answer. The loader calls beat for each batch that it writes.
func New(ctx context.Context, store *state.Store, line Line, log *slog.Logger, beat func()) (*Loader, error) {
	return openLoader(ctx, store, line, log, beat, false)
}

// Fill brings the warehouse up to the end of the journal and publishes the copies. A failure ends it with
// an error, which is not recorded in the state: the warehouse may be a new one, beside the one in use.
func Fill(ctx context.Context, store *state.Store, line Line, log *slog.Logger, beat func()) error {
	l, err := openLoader(ctx, store, line, log, beat, true)
	if err == nil {
		err = l.Load(ctx)
	}
	if err == nil {
		err = l.Publish(ctx)
	}
	if err == nil {
		err = context.Cause(ctx)
	}
	return err
}

func openLoader(
	ctx context.Context, store *state.Store, line Line, log *slog.Logger, beat func(), strict bool,
) (*Loader, error) {
	l := &Loader{
		strict: strict, store: store, log: log, decoder: schema.NewDecoder(memory.DefaultAllocator),
		warehouse: line.Warehouse, source: &sinkState{name: "warehouse"}, lo: -1, hi: -1, shown: -1, tables: line.Tables,
		rows: map[string]map[string]int64{}, published: time.Now(), answered: line.Warehouse == nil, beat: beat,
	}
	if l.tables == nil {
		l.tables = func() []job.Table { return nil }
	}
	var err error
	if l.downSince, err = store.Sinks.DownSince(); err != nil {
		return nil, err
	}
	if l.drifted, err = store.Learned.DriftMark(); err != nil || line.Warehouse == nil {
		return l, err
	}
	for _, c := range line.Copies {
		l.copies = append(l.copies, &copyState{Copy: c, sinkState: sinkState{name: c.Name()}})
	}
	if err := l.readMarks(ctx); err != nil {
		return nil, err
	}
	l.counted = l.source.marks.Answers
	return l, l.publishNew(ctx)
}

// AheadError reports that a sink has answers that the journal does not have: the state was lost or is an
// old copy, and the credits spent are unknown.
type AheadError struct {
	Sink      string
	Mark, End int64
	Restored  bool // from a backup, after which the lost state wrote the sink
}

func (e *AheadError) Error() string {
	return fmt.Sprintf("sink %s holds answers up to %d, but the journal ends at %d: "+
		"the state folder is lost or older than the sink, and with it the record of what was spent; %s", e.Sink,
		e.Mark, e.End, e.Remedy())
}

// Remedy returns what to do. A rebuild is an option only if a backup was restored and what was spent since was
// recorded: it takes the rows of pruned answers from these tables, and the rows of the later answers are lost.
func (e *AheadError) Remedy() string {
	remedy := "restore its newest copy; if this is the newest, move the files of the sink away: " +
		"they are written again from the journal, and only the old ones have the rows of the later answers"
	switch {
	case e.End == 0:
		remedy = "restore its newest copy; without a copy, move the whole data folder away, start with a new one, " +
			"and lower budget.per_month by what was spent in this cycle"
	case e.Sink == "iceberg":
		remedy = "restore its newest copy; if this is the newest, give the sink another `namespace`: " +
			"it is filled from the journal, and the rows of the later answers stay in the old one"
	}
	if e.Restored {
		remedy += "; or let 'outlierd rebuild' replace them"
	}
	return remedy
}

// batchesAfterStop is how many batches are still written after a stop was requested. There are more
// only while a sink catches up, and the next start continues that.
const batchesAfterStop = 2

// Load brings the new answers of the journal into the warehouse. A warehouse that fails is disabled until
// [Loader.Retry], because the journal has the answers that it lacks. [Loader.Problems] returns why.
func (l *Loader) Load(ctx context.Context) error {
	for batches := 0; l.lo >= 0 && (ctx.Err() == nil || batches < batchesAfterStop); batches++ {
		if err := l.fillBatch(); err != nil {
			return err
		}
		if l.hi == l.lo {
			return nil
		}
		if err := l.flushBatch(ctx); err != nil {
			return err
		}
	}
	return nil
}

func isFull(batch *schema.Decoder) bool {
	return batch.Bytes() >= batchBytes || batch.Rows() >= batchRows
}

// fitsBatch reports whether an answer may join a batch. Its rows take at least about as much memory as its body, and those of
// a large one ten times as much, so a large answer is loaded alone.
func fitsBatch(batch *schema.Decoder, entry *journal.Entry) bool {
	return !isFull(batch) && batch.Bytes()+len(entry.Body) <= batchBytes
}

// fillBatch decodes journal entries until the batch is full or the journal ends.
func (l *Loader) fillBatch() error {
	for entry, err := range l.store.Journal.After(l.hi) {
		if err != nil {
			return fmt.Errorf("read the journal after %d: %w", l.hi, err)
		}
		if l.hi > l.lo && !fitsBatch(l.decoder, entry) {
			return nil
		}
		if err := l.decodeAnswer(entry); err != nil {
			return err
		}
		l.hi = entry.ID
	}
	return nil
}

// maxErrorLength is how many characters of an error are logged. A message about deeply nested JSON can
// be very long.
const maxErrorLength = 300

// decodeAnswer adds an answer's rows to the batch. An unreadable answer stays in the journal, quarantined: it
// adds no rows, and loading continues.
func (l *Loader) decodeAnswer(entry *journal.Entry) error {
	source, ok, err := sourceOf(l.store, entry)
	if !ok {
		return err
	}
	if err := l.decoder.Decode(source, entry.Body); err != nil {
		l.log.Warn("answer quarantined", "job", entry.Job, "run", entry.Run, "response", entry.ID,
			"op", entry.Op, "entity", entry.Entity,
			"err", excerpt.Runes(cmp.Or(entry.Unreadable, err).Error(), maxErrorLength))
	}
	l.countRows(entry)
	for _, d := range l.decoder.Drift() {
		if entry.ID <= l.drifted {
			continue
		}
		l.drift = append(l.drift, journal.Drift{
			Op: d.Op, Path: d.Path, Problem: d.Problem, Count: int64(d.Count), Example: d.Example,
			First: entry.ReceivedAt, Last: entry.ReceivedAt,
		})
	}
	return nil
}

// countRows adds the number of an answer's rows to that of its run. Answers that are decoded again, for a
// warehouse that is filled again, are not counted again.
func (l *Loader) countRows(entry *journal.Entry) {
	if entry.ID <= l.counted {
		return
	}
	l.counted = entry.ID
	rows := l.rows[entry.Run]
	if rows == nil {
		return // the run has ended, and its record is final
	}
	l.addCounted(rows, l.decoder)
}

// addCounted adds the rows of the last answer, but for tables without rows.
func (l *Loader) addCounted(rows map[string]int64, decoder *schema.Decoder) {
	for table, n := range decoder.Counted() {
		if l.left.UpTo[table] != sinks.Whole {
			rows[table] += n
		}
	}
}

// noteDrift records the collected drift and logs each new field once.
func (l *Loader) noteDrift() error {
	if len(l.drift) == 0 {
		return nil
	}
	var fresh []journal.Drift
	err := l.store.DB.Update(func(tx *store.Tx) (err error) {
		fresh, err = journal.NoteDrift(tx, l.drift, l.hi)
		return err
	})
	if err != nil {
		return fmt.Errorf("keep what changed in the service's answers: %w", err)
	}
	for _, d := range fresh {
		l.log.Warn("the service's answers have changed", "op", d.Op, "field", d.Path, "problem", d.Problem,
			"example", d.Example)
	}
	l.drift, l.drifted = nil, l.hi
	return nil
}

// flushBatch writes the batch to the warehouse. A stop does not interrupt it: writing takes little time, and
// the decoder no longer has the rows.
func (l *Loader) flushBatch(ctx context.Context) error {
	l.beat()
	if err := l.noteDrift(); err != nil {
		return err
	}
	batch := sinks.Batch{Lo: l.lo, Hi: l.hi, Parts: l.decoder.Take()}
	defer releaseParts(batch.Parts)
	if err := l.warehouse.Write(context.WithoutCancel(ctx), batch); err != nil {
		l.lo, l.hi = -1, -1
		return l.disableSink(l.source, fmt.Errorf("write answers %d to %d into the warehouse: %w", batch.Lo+1, batch.Hi, err))
	}
	l.source.marks.Answers, l.lo = batch.Hi, batch.Hi
	return nil
}

func releaseParts(parts []schema.Part) {
	for _, part := range parts {
		part.Release()
	}
}

// Recount returns the number of rows of a run so far, by table. It is for a run whose process was
// killed and whose counts were lost. Its cost is proportional to the run's answers.
func (l *Loader) Recount(run string) (map[string]int64, error) {
	rows := map[string]int64{}
	decoder := schema.NewDecoder(memory.DefaultAllocator)
	for entry, err := range l.store.JournalOf(run, l.counted) {
		if err != nil {
			return nil, fmt.Errorf("count the rows of run %s: %w", run, err)
		}
		source, ok, err := sourceOf(l.store, entry)
		if err != nil {
			return nil, err
		}
		if !ok {
			continue
		}
		if err := decoder.Decode(source, entry.Body); err == nil {
			l.addCounted(rows, decoder)
		}
		releaseParts(decoder.Take())
	}
	return rows, nil
}

// Expect starts counting the rows of a run, until [Loader.Taken].
func (l *Loader) Expect(run string) { l.rows[run] = map[string]int64{} }

// Taken returns the number of rows of a run since [Loader.Expect], by table, and stops counting.
func (l *Loader) Taken(run string) map[string]int64 {
	rows := l.rows[run]
	delete(l.rows, run)
	return rows
}

// PublishDue reports whether a run should publish now.
func (l *Loader) PublishDue() bool { return !time.Now().Before(l.PublishAt()) }

// PublishAt returns when a run should publish next. The cost of publishing is proportional to the
// data, so it takes at most about a twentieth of the time, and writes at most about a megabyte per second.
func (l *Loader) PublishAt() time.Time {
	every := publishEvery
	if l.PagesIn || l.Marked {
		every = publishSoon
	}
	var bytes int64
	if l.warehouse != nil {
		bytes = l.warehouse.Bytes()
	}
	return l.published.Add(max(every, 20*l.copying, time.Duration(bytes>>20)*time.Second))
}

// Unseen reports whether the journal has answers that are not published.
func (l *Loader) Unseen() (bool, error) {
	end, err := l.store.Journal.End()
	return l.hi >= 0 && end > l.shown, err
}

// Publish makes the loaded rows and the current operations tables visible to readers. A stop does not
// interrupt it.
func (l *Loader) Publish(ctx context.Context) error {
	ctx = context.WithoutCancel(ctx)
	began := time.Now()
	if err := errors.Join(l.omitUnwanted(ctx), l.writeOps(ctx)); err != nil || l.source.err != nil {
		return err
	}
	for _, c := range l.copies {
		if c.err == nil {
			if err := l.publishTo(ctx, c); err != nil {
				return err
			}
		}
	}
	l.shown, l.published, l.copying, l.PagesIn, l.Marked = l.hi, time.Now(), time.Since(began), false, false
	return l.forgetOps()
}

// forgetOps removes from the state the record of changes that every copy shows.
func (l *Loader) forgetOps() error {
	if l.warehouse == nil || l.Disabled() > 0 {
		return nil
	}
	shown := l.source.marks.Ops
	for _, c := range l.copies {
		shown = min(shown, c.marks.Ops)
	}
	if shown <= l.forgotten {
		return nil
	}
	l.forgotten = shown
	return ops.Forget(l.store.DB, shown)
}

// writeOps writes the changes of the operations tables into the warehouse.
func (l *Loader) writeOps(ctx context.Context) error {
	if l.warehouse == nil || l.source.err != nil {
		return nil
	}
	marks := &l.source.marks
	changes, err := ops.Since(l.store.DB, marks.Ops)
	if err != nil || changes.None() {
		return err
	}
	if err := l.warehouse.WriteOps(ctx, opsOf(l.store, changes, marks.Ops)); err != nil {
		return l.disableSink(l.source, fmt.Errorf("write the operations tables into the warehouse: %w", err))
	}
	marks.Ops = changes.Version
	return nil
}

// publishTo publishes a copy. One that shows more answers than the warehouse has, because the warehouse is
// being filled again, waits until the warehouse has caught up.
func (l *Loader) publishTo(ctx context.Context, c *copyState) error {
	if c.marks.Answers > l.source.marks.Answers {
		return nil
	}
	if err := c.Publish(ctx); err != nil {
		return l.disableSink(&c.sinkState, fmt.Errorf("publish sink %s: %w", c.name, err))
	}
	c.marks = l.source.marks
	return l.recordRecovery(&c.sinkState)
}

// publishNew publishes if readers do not find a copy yet, so that they find all tables before the first row.
func (l *Loader) publishNew(ctx context.Context) error {
	for _, c := range l.copies {
		if l.source.err == nil && c.err == nil && c.marks.Warehouse == "" {
			return l.Publish(ctx)
		}
	}
	return nil
}
