// Package load writes answers from the journal to the warehouse, and has the copies made that readers use:
// in batches during runs ([Loader]), or all at once, into a new warehouse ([Project]).
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

	"outlierd/internal/excerpt"
	"outlierd/schema"
	"outlierd/sinks"
	"outlierd/sync/job"
	"outlierd/sync/journal"
	"outlierd/sync/ops"
	"outlierd/sync/runs"
	"outlierd/sync/state"
	"outlierd/sync/store"
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

	Advise  func(sink string, err error) error // adds to an error what to do about it; nil for nothing
	Observe func(Step)                         // is told of each batch and publication; nil for nothing
}

// Step is a batch that was written into the warehouse, or a publication of a copy.
type Step struct {
	Sink string // the name of the copy; "" for a batch
	Took time.Duration
	Rows map[string]int64 // of a batch, by table; else nil
}

// Loader brings the warehouse up to the end of the journal, and publishes the copies.
type Loader struct {
	PagesIn bool // all pages of a run are received and not yet published
	Marked  bool // people have marked videos, which is not yet published

	health

	store *state.Store
	batch *batch                      // what the warehouse gets next; nil while it does not work
	drift []schema.Drift              // found in the answers of the batch
	rows  map[string]map[string]int64 // of the answers of the batch, by run and table
	noted int64                       // drift and rows of answers up to this one are recorded

	shown     int64         // the last answer at the time of the last publication
	published time.Time     // when that was
	copying   time.Duration // how long it took

	tables    func() []job.Table
	left      sinks.Omitted // what is left out of the warehouse
	lacking   []string      // tables of which the job file keeps more than the warehouse has
	forgotten int64         // changes of the operations tables up to this one were removed from the state

	beat    func()     // called for each batch
	observe func(Step) // see [Line]
}

// New returns a loader. It reads the marks of the warehouse and of every copy, and disables what does not
// answer. A stop does not interrupt it. The loader calls beat for each batch that it writes.
func New(ctx context.Context, store *state.Store, line Line, log *slog.Logger, beat func()) (*Loader, error) {
	l := &Loader{
		store: store,
		health: health{record: store.Sinks, log: log, advise: line.Advise, answered: line.Warehouse == nil,
			source: &warehouseState{line.Warehouse, sinkState{name: "warehouse"}}},
		shown: -1, tables: line.Tables, published: time.Now(), beat: beat, observe: line.Observe,
	}
	if l.tables == nil {
		l.tables = func() []job.Table { return nil }
	}
	if l.observe == nil {
		l.observe = func(Step) {}
	}
	var err error
	if l.noted, err = store.Learned.DriftMark(); err != nil || line.Warehouse == nil {
		return l, err
	}
	for _, c := range line.Copies {
		known, err := store.Sinks.State(c.Name())
		if err != nil {
			return nil, err
		}
		if now := time.Now(); known.Since.After(now) { // the clock was set back
			known.Since = now
		}
		l.copies = append(l.copies, &copyState{Copy: c, sinkState: sinkState{name: c.Name()}, downSince: known.Since})
	}
	if err := l.readMarks(context.WithoutCancel(ctx)); err != nil {
		return nil, err
	}
	for _, c := range l.copies {
		if l.source.err == nil && c.err == nil && c.marks.Warehouse == "" { // readers find all tables before the first row
			return l, l.Publish(ctx)
		}
	}
	return l, nil
}

// batchesAfterStop is how many batches are still written after a stop was requested. There are more
// only while a sink catches up, and the next start continues that.
const batchesAfterStop = 2

// Load brings the new answers of the journal into the warehouse. A warehouse that fails is disabled until
// [Loader.Retry], because the journal has the answers that it lacks. [Loader.Problems] returns why.
func (l *Loader) Load(ctx context.Context) error {
	for batches := 0; l.batch != nil && (ctx.Err() == nil || batches < batchesAfterStop); batches++ {
		if err := l.batch.fill(l.store.Journal.After(l.batch.hi), l.noteAnswer); err != nil {
			return err
		}
		if l.batch.hi == l.batch.lo {
			return nil
		}
		if err := l.flushBatch(ctx); err != nil {
			return err
		}
	}
	return nil
}

// maxErrorLength is how many characters of an error are logged. A message about deeply nested JSON can
// be very long.
const maxErrorLength = 300

// noteAnswer counts the rows of an answer in the batch, and collects its drift, unless that was done when it was loaded
// before. An unreadable answer stays in the journal, quarantined: it adds no rows, and loading continues.
func (l *Loader) noteAnswer(entry *journal.Entry, unreadable error) {
	if unreadable != nil {
		l.log.Warn("answer quarantined", "job", entry.Job, "run", entry.Run, "response", entry.ID,
			"op", entry.Op, "entity", entry.Entity,
			"err", excerpt.Runes(cmp.Or(entry.Unreadable, unreadable).Error(), maxErrorLength))
	}
	drift := l.batch.decoder.Drift()
	if entry.ID <= l.noted {
		return
	}
	for table, n := range l.batch.decoder.Counted() {
		if l.left.UpTo[table] == sinks.Whole || n == 0 {
			continue
		}
		if l.rows[entry.Run] == nil {
			l.rows[entry.Run] = map[string]int64{}
		}
		l.rows[entry.Run][table] += n
	}
	l.drift = append(l.drift, drift...)
}

// noteBatch records the collected drift, and the rows of the runs. It logs each new field once.
func (l *Loader) noteBatch() error {
	if len(l.drift) == 0 && len(l.rows) == 0 {
		return nil
	}
	var fresh []schema.Drift
	err := l.store.DB.Update(func(tx *store.Tx) (err error) {
		fresh, err = journal.NoteDrift(tx, l.drift, l.batch.hi)
		for run, rows := range l.rows {
			err = errors.Join(err, runs.AddRows(tx, run, rows))
		}
		return err
	})
	if err != nil {
		return fmt.Errorf("keep what the service's answers have: %w", err)
	}
	for _, d := range fresh {
		l.log.Warn("the service's answers have changed", "op", d.Op, "field", d.Path, "problem", d.Problem,
			"example", d.Example)
	}
	l.noted = l.batch.hi
	l.dropNotes()
	return nil
}

// dropNotes drops what was collected.
func (l *Loader) dropNotes() { l.drift, l.rows = nil, map[string]map[string]int64{} }

// flushBatch writes the batch to the warehouse. A stop does not interrupt it: writing takes little time, and
// the decoder no longer has the rows.
func (l *Loader) flushBatch(ctx context.Context) error {
	l.beat()
	if err := l.noteBatch(); err != nil {
		return err
	}
	began := time.Now()
	rows, err := l.batch.writeTo(context.WithoutCancel(ctx), l.source)
	if err != nil {
		l.batch = nil
		return l.disableSink(&l.source.sinkState, err)
	}
	l.source.marks.Answers = l.batch.lo
	l.observe(Step{Took: time.Since(began), Rows: rows})
	return nil
}

// Retry retries what is disabled and whose back-off is over. If all is set, it retries everything that is
// disabled, even during a stop, because what is behind when the process ends stays behind until the next
// one. A warehouse that answers catches up, and the copies are published. An error is one of the state,
// or an [AheadError].
func (l *Loader) Retry(ctx context.Context, all bool) error {
	if !all && ctx.Err() != nil || l.store.DB.InPlace() != nil { // a copy would make a folder where a moved one is put back
		return nil
	}
	isDue := func(s *sinkState) bool { return s.err != nil && (all || !time.Now().Before(s.retryAt)) }
	due := isDue(&l.source.sinkState)
	if due {
		l.source.err = nil
	}
	for _, c := range l.copies {
		if isDue(&c.sinkState) {
			c.err, due = nil, true
		}
	}
	if !due {
		return nil
	}
	if l.source.err == nil {
		if err := l.readMarks(context.WithoutCancel(ctx)); err != nil {
			return err
		}
	}
	if err := l.Load(ctx); err != nil { // only the first batches during a stop
		return err
	}
	return l.Publish(ctx)
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
	if l.source.Warehouse != nil {
		bytes = l.source.Bytes()
	}
	return l.published.Add(max(every, 20*l.copying, time.Duration(bytes>>20)*time.Second))
}

// Unseen reports whether the journal has answers that are not published.
func (l *Loader) Unseen() (bool, error) {
	end, err := l.store.Journal.End()
	return l.batch != nil && end > l.shown, err
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
	l.shown, l.published, l.copying, l.PagesIn, l.Marked = l.source.marks.Answers, time.Now(), time.Since(began), false, false
	return l.forgetOps()
}

// forgetOps removes from the state the record of changes that every copy shows.
func (l *Loader) forgetOps() error {
	shown, known := l.ShownByAll()
	if !known || shown.Ops <= l.forgotten {
		return nil
	}
	l.forgotten = shown.Ops
	return ops.Forget(l.store.DB, shown.Ops)
}

// writeOps writes the changes of the operations tables into the warehouse.
func (l *Loader) writeOps(ctx context.Context) error {
	if l.source.Warehouse == nil || l.source.err != nil {
		return nil
	}
	marks := &l.source.marks
	changes, err := ops.Since(l.store.DB, marks.Ops)
	if err != nil || changes.Version == marks.Ops {
		return err
	}
	if err := l.source.WriteOps(ctx, opsOf(l.store, changes, marks.Ops)); err != nil {
		return l.disableSink(&l.source.sinkState, fmt.Errorf("write the operations tables into the warehouse: %w", err))
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
	began := time.Now()
	if err := c.Publish(ctx); err != nil {
		return l.disableSink(&c.sinkState, fmt.Errorf("publish sink %s: %w", c.name, err))
	}
	c.marks = l.source.marks
	l.observe(Step{Sink: c.name, Took: time.Since(began)})
	l.recordRecovery(c)
	return nil
}
