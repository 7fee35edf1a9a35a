package load

import (
	"context"
	"errors"
	"fmt"
	"time"

	"outlierd/sinks"
	"outlierd/sync/state"
)

// # Failures
//
// The warehouse or a copy that fails is disabled. It is retried with back-off, independent of runs, and at
// the end of each run. A copy does not affect the others; while another one works, runs end as partial
// instead of failed. Without the warehouse no copy works. Once none has worked for sinks_down_after, paid
// calls are refused, because readers could not see their answers.

// What is disabled is retried after firstRetry, then after twice as long each time, up to lastRetry.
const (
	firstRetry = 10 * time.Second
	lastRetry  = 10 * time.Minute
)

// sinkState is the state of the warehouse or of a copy in this process.
type sinkState struct {
	name    string
	marks   sinks.Marks   // of the warehouse what it has, of a copy what it shows, while it is not disabled
	err     error         // why it is disabled; nil while it is not
	retryAt time.Time     // when it is retried, if it is disabled
	pause   time.Duration // the last back-off; 0 once it works again
}

type copyState struct {
	sinks.Copy
	sinkState
}

// readMarks reads the marks of the warehouse and of the copies.
func (l *Loader) readMarks(ctx context.Context) error {
	if err := l.readMark(l.source, func() (sinks.Marks, error) { return l.warehouse.Marks(ctx) }); err != nil {
		return err
	}
	for _, c := range l.copies {
		if err := l.readMark(&c.sinkState, func() (sinks.Marks, error) { return c.Shows(ctx) }); err != nil {
			return err
		}
	}
	if l.source.err == nil {
		filled, err := Refill(ctx, l.store, l.warehouse, l.source.marks)
		if lacking, is := errors.AsType[*PrunedError](err); is {
			err = l.disableSink(l.source, lacking)
		} else if filled && err == nil {
			err = l.readMark(l.source, func() (sinks.Marks, error) { return l.warehouse.Marks(ctx) })
		}
		if err != nil {
			return err
		}
	}
	if l.source.err != nil {
		return nil
	}
	l.lo, l.hi = l.source.marks.Answers, l.source.marks.Answers
	l.answered, l.omitted = l.answered || l.Working(), unread
	return l.omitUnwanted(ctx)
}

// readMark reads the marks of one of them, and disables it if that fails, or if it was filled from a state
// that was lost.
func (l *Loader) readMark(s *sinkState, read func() (sinks.Marks, error)) (err error) {
	if s.marks, err = read(); err != nil {
		return l.disableSink(s, fmt.Errorf("read what sink %s holds: %w", s.name, err))
	}
	end, err := l.store.Journal.End()
	if err != nil {
		return err
	}
	restores, err := l.store.Restores()
	if err != nil {
		return err
	}
	lost := restores.LostWith(s.name, s.marks.Ops, s.marks.Answers)
	if s.marks.Answers > end {
		return &AheadError{Sink: s.name, Mark: s.marks.Answers, End: end, Restored: lost != nil}
	}
	if len(restores) == 0 {
		return nil
	}
	if lost != nil {
		return l.disableSink(s, &LostStateError{Sink: s.name, Mark: s.marks.Answers, Backup: lost.Answers})
	}
	if l.strict || restores.Accepted(s.name) { // a new warehouse says nothing about the one that it is to replace
		return nil
	}
	return l.store.AcceptSink(s.name)
}

// Refill gives a warehouse with these marks, if it lacks rows of pruned answers, those of a copy, and reports whether it
// did. It takes all that the copy has, because histories that the job file cuts short no longer say when a key was first
// seen. A copy of a state that was lost has only the answers of the backup in common with the journal.
func Refill(ctx context.Context, from *state.Store, w sinks.Warehouse, has sinks.Marks) (filled bool, err error) {
	pruned, err := from.Journal.Pruned()
	if err != nil || has.Answers >= pruned {
		return false, err
	}
	end, err := from.Journal.End()
	if err != nil {
		return false, err
	}
	restores, err := from.Restores()
	if err != nil {
		return false, err
	}
	common := func(copy string, has sinks.Marks) int64 {
		if lost := restores.LostWith(copy, has.Ops, has.Answers); lost != nil {
			return lost.Answers
		}
		return end
	}
	if err := w.Refill(ctx, pruned, common); err != nil {
		return false, &PrunedError{Mark: has.Answers, Pruned: pruned, Err: err}
	}
	return true, nil
}

// LostStateError reports that a sink has answers of a state that was lost, while the journal of the
// restored one has other answers with the same numbers.
type LostStateError struct {
	Sink         string
	Mark, Backup int64
}

func (e *LostStateError) Error() string {
	away := "move the files of the sink away: they are written again from the journal, " +
		"and only the old ones have the rows of these"
	switch e.Sink {
	case "warehouse":
		away = "move data/state/warehouse.duckdb and the published DuckDB file away: the tables are written again from " +
			"the journal, and only the old files have the rows of these"
	case "iceberg":
		away = "give the sink another `namespace`: it is filled from the journal, " +
			"and the rows of these stay in the old one"
	}
	return fmt.Sprintf("sink %s holds answers %d to %d of the state that was lost, "+
		"and the journal of the restored one has others with these numbers: stop outlierd and %s; "+
		"or let 'outlierd rebuild' replace them", e.Sink, e.Backup+1, e.Mark, away)
}

// PrunedError reports that the warehouse lacks rows of answers whose bodies were pruned from the journal.
type PrunedError struct {
	Mark, Pruned int64
	Err          error // why they could not be taken from a copy
}

func (e *PrunedError) Error() string {
	return fmt.Sprintf("the warehouse holds answers up to %d, the journal is pruned up to %d (`retention`), and no copy "+
		"can replace the rows: %v. Put back data/state/warehouse.duckdb, the published DuckDB file or the Parquet folder "+
		"from a backup; 'outlierd rebuild --without-pruned' goes on without these rows", e.Mark, e.Pruned, e.Err)
}

func (e *PrunedError) Unwrap() error { return e.Err }

// disableSink disables what failed and sets when it is retried. A retry before that time does not lengthen
// the back-off.
func (l *Loader) disableSink(s *sinkState, err error) error {
	if l.strict {
		return err
	}
	again := s.pause > 0
	s.err = err
	if now := time.Now(); !now.Before(s.retryAt) {
		s.pause = min(max(2*s.pause, firstRetry), lastRetry)
		s.retryAt = now.Add(s.pause)
	}
	if again {
		l.log.Debug("sink still disabled", "sink", s.name, "retry_at", s.retryAt, "err", err)
	} else {
		l.log.Error("sink disabled", "sink", s.name, "retry_at", s.retryAt, "err", err)
	}
	l.noteSink(s, l.store.Sinks.SetDisabled(s.name, err))
	if l.Working() || !l.downSince.IsZero() {
		return nil
	}
	l.downSince = time.Now()
	return l.store.Sinks.SetDown(l.downSince)
}

// noteSink records the state of a sink, which commands show. If that fails, it logs the error and
// loading continues, because the sink has its own marks.
func (l *Loader) noteSink(s *sinkState, err error) {
	if err != nil {
		l.log.Warn("sink state not recorded", "sink", s.name, "err", err)
	}
}

// recordRecovery records that a copy was published.
func (l *Loader) recordRecovery(s *sinkState) error {
	for _, s := range []*sinkState{l.source, s} {
		if s.pause > 0 {
			s.pause, s.retryAt = 0, time.Time{}
			l.log.Info("sink recovered", "sink", s.name, "answers", s.marks.Answers)
		}
	}
	l.noteSink(s, l.store.Sinks.SetPublished(s.name, s.marks.Answers))
	if l.downSince.IsZero() {
		return nil
	}
	l.downSince = time.Time{}
	return l.store.Sinks.SetDown(time.Time{})
}

// Retry retries what is disabled and whose back-off is over. If all is set, it retries everything that is
// disabled, even during a stop, because what is behind when the process ends stays behind until the next
// one. A warehouse that answers catches up, and the copies are published. An error is one of the state,
// or an [AheadError].
func (l *Loader) Retry(ctx context.Context, all bool) error {
	if !all && ctx.Err() != nil {
		return nil
	}
	isDue := func(s *sinkState) bool { return s.err != nil && (all || !time.Now().Before(s.retryAt)) }
	due := isDue(l.source)
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
	if l.hi > l.lo {
		if err := l.flushBatch(ctx); err != nil {
			return err
		}
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

// allSinks returns the state of the warehouse and of the copies.
func (l *Loader) allSinks() []*sinkState {
	states := []*sinkState{l.source}
	for _, c := range l.copies {
		states = append(states, &c.sinkState)
	}
	return states
}

// NextRetry returns when something disabled is retried next; zero if nothing is disabled.
func (l *Loader) NextRetry() (next time.Time) {
	for _, s := range l.allSinks() {
		if s.err != nil && (next.IsZero() || s.retryAt.Before(next)) {
			next = s.retryAt
		}
	}
	return next
}

// ShownByAll returns the last answer that all copies show. It is not known while one of them is disabled.
func (l *Loader) ShownByAll() (upTo int64, known bool, err error) {
	if l.warehouse == nil || l.Disabled() > 0 {
		return 0, false, nil
	}
	upTo = l.source.marks.Answers
	for _, c := range l.copies {
		upTo = min(upTo, c.marks.Answers)
	}
	return upTo, true, nil
}

// Working reports whether the warehouse and at least one copy are not disabled, or there is nothing to load
// into.
func (l *Loader) Working() bool {
	for _, c := range l.copies {
		if c.err == nil {
			return l.source.err == nil
		}
	}
	return len(l.copies) == 0 && l.source.err == nil
}

// DownSince returns since when no copy can be published; zero while one can.
func (l *Loader) DownSince() time.Time { return l.downSince }

// Disabled returns how many of the warehouse and the copies are disabled.
func (l *Loader) Disabled() (n int) {
	for _, s := range l.allSinks() {
		if s.err != nil {
			n++
		}
	}
	return n
}

// Problem returns why a copy cannot be published; nil if it can, or if there is no copy with that name.
func (l *Loader) Problem(name string) error {
	for _, c := range l.copies {
		if c.name == name {
			return errors.Join(l.source.err, c.err)
		}
	}
	return nil
}

// Problems returns the joined errors of all that is disabled; nil if nothing is.
func (l *Loader) Problems() error {
	var errs []error
	for _, s := range l.allSinks() {
		errs = append(errs, s.err)
	}
	return errors.Join(errs...)
}

// SinksDownError refuses a paid call because no sink works.
type SinksDownError struct {
	Since time.Time // zero if none has worked since the process started
	Err   error     // why the sinks are disabled
}

func (e *SinksDownError) Error() string {
	since := "since the start"
	if !e.Since.IsZero() {
		since = "since " + e.Since.UTC().Format("2006-01-02 15:04 UTC")
	}
	return fmt.Sprintf("no sink has worked %s, and nothing is bought until one does (sinks_down_after): %v",
		since, e.Err)
}

func (e *SinksDownError) Unwrap() error { return e.Err }

// Down returns a [SinksDownError] once no sink has worked for the given time. Until a sink
// has answered since the process started, the journal and the ledger may be incomplete
// (see [AheadError]), so paid calls are refused from the start.
func (l *Loader) Down(after time.Duration) error {
	switch {
	case !l.answered:
		return &SinksDownError{Err: l.Problems()}
	case l.downSince.IsZero() || time.Since(l.downSince) < after:
		return nil
	}
	return &SinksDownError{Since: l.downSince, Err: l.Problems()}
}
