package load

import (
	"context"
	"errors"
	"fmt"
	"time"

	"outlierd/sinks"
)

// # Sinks that fail
//
// A sink that fails is disabled. It is retried with back-off, independent of runs, and at the end of
// each run, and then catches up from the journal. It does not affect other sinks; while another sink works,
// runs end as partial instead of failed. Once no sink has worked for sinks_down_after, paid calls are
// refused, because readers could not see their answers.

// A disabled sink is retried after firstRetry, then after twice as long each time, up to lastRetry.
const (
	firstRetry = 10 * time.Second
	lastRetry  = 10 * time.Minute
)

// sinkState is a sink with its state in this process.
type sinkState struct {
	sinks.Sink
	mark    int64         // its watermark, while it is not disabled
	version int64         // of the operations tables when it last published
	err     error         // why it is disabled; nil while it is not
	retryAt time.Time     // when it is retried, if it is disabled
	pause   time.Duration // the last back-off; 0 after it has published again
}

// readMark reads the watermark of a sink, and disables the sink if that fails.
func (l *Loader) readMark(ctx context.Context, s *sinkState) error {
	mark, err := s.Watermark(ctx)
	if err != nil {
		return l.disable(s, fmt.Errorf("ask sink %s for its watermark: %w", s.Name(), err))
	}
	end, err := l.store.Journal.End()
	if err != nil {
		return err
	}
	if mark > end {
		return &AheadError{Sink: s.Name(), Mark: mark, End: end}
	}
	if err := l.lostWith(ctx, s, mark); err != nil {
		return l.disable(s, err)
	}
	pruned, err := l.store.Journal.Pruned()
	if err != nil {
		return err
	}
	if mark < pruned {
		return l.disable(s, &PrunedError{Sink: s.Name(), Mark: mark, Pruned: pruned})
	}
	s.mark, s.err, l.answered = mark, nil, true
	return nil
}

// lostWith returns a [*LostStateError] if a sink was filled from a state that was lost, and its watermark
// was not read before the restored state had as many answers. It records if a sink was not.
func (l *Loader) lostWith(ctx context.Context, s *sinkState, mark int64) error {
	restores, err := l.store.Restores()
	if err != nil || len(restores) == 0 {
		return err
	}
	version, err := s.OpsVersion(ctx)
	if err != nil {
		return fmt.Errorf("ask sink %s for the version of the operations tables: %w", s.Name(), err)
	}
	if lost := restores.LostWith(s.Name(), version, mark); lost != nil {
		return &LostStateError{Sink: s.Name(), Mark: mark, Backup: lost.Answers}
	}
	if l.strict || restores.Accepted(s.Name()) { // a new sink says nothing about the one that it is to replace
		return nil
	}
	return l.store.AcceptSink(s.Name())
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
	if e.Sink == "iceberg" {
		away = "give the sink another `namespace`: it is filled from the journal, " +
			"and the rows of these stay in the old one"
	}
	return fmt.Sprintf("sink %s holds answers %d to %d of the state that was lost, "+
		"and the journal of the restored one has others with these numbers: stop outlierd and %s; "+
		"or let 'outlierd rebuild %s' replace them", e.Sink, e.Backup+1, e.Mark, away, e.Sink)
}

// PrunedError reports that a sink lacks rows of answers whose bodies were pruned from the journal.
type PrunedError struct {
	Sink         string
	Mark, Pruned int64
}

func (e *PrunedError) Error() string {
	return fmt.Sprintf("sink %s holds answers up to %d, and the journal is pruned up to %d (`retention`): "+
		"stop outlierd, and 'outlierd rebuild %s' copies the rows of these from the other sink", e.Sink, e.Mark,
		e.Pruned, e.Sink)
}

// disable disables a sink that failed and sets when it is retried. A retry before that time does not
// lengthen the back-off.
func (l *Loader) disable(s *sinkState, err error) error {
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
		l.log.Debug("sink still disabled", "sink", s.Name(), "retry_at", s.retryAt, "err", err)
	} else {
		l.log.Error("sink disabled", "sink", s.Name(), "retry_at", s.retryAt, "err", err)
	}
	l.noteSink(s, l.store.Runs.SinkDisabled(s.Name(), err))
	if l.Working() || !l.downSince.IsZero() {
		return nil
	}
	l.downSince = time.Now()
	return l.store.Runs.SetSinksDown(l.downSince)
}

// noteSink records the state of a sink, which commands show. If that fails, it logs the error and
// loading continues, because the sink has its own watermark.
func (l *Loader) noteSink(s *sinkState, err error) {
	if err != nil {
		l.log.Warn("sink state not recorded", "sink", s.Name(), "err", err)
	}
}

// recovered records that a sink has published.
func (l *Loader) recovered(s *sinkState) error {
	if s.pause > 0 {
		s.pause, s.retryAt = 0, time.Time{}
		l.log.Info("sink recovered", "sink", s.Name(), "answers", s.mark)
	}
	l.noteSink(s, l.store.Runs.SinkPublished(s.Name(), s.mark))
	if l.downSince.IsZero() {
		return nil
	}
	l.downSince = time.Time{}
	return l.store.Runs.SetSinksDown(time.Time{})
}

// Retry retries the disabled sinks whose back-off is over. If all is set, it retries every disabled
// sink, even during a stop, because a sink that is behind when the process ends stays behind until
// the next one. Sinks that answer catch up and publish. An error is one of the state, or an
// [AheadError].
func (l *Loader) Retry(ctx context.Context, all bool) error {
	var due []*sinkState
	for _, s := range l.sinks {
		if s.err != nil && (all || !time.Now().Before(s.retryAt)) {
			due = append(due, s)
		}
	}
	if len(due) == 0 || !all && ctx.Err() != nil {
		return nil
	}
	if l.hi > l.lo { // the batch belongs to the sinks whose watermark is at its beginning
		if err := l.flush(ctx); err != nil {
			return err
		}
	}
	for _, s := range due {
		if err := l.readMark(context.WithoutCancel(ctx), s); err != nil {
			return err
		}
	}
	l.restart()
	if err := l.Load(ctx, true); err != nil { // only the first batches during a stop
		return err
	}
	for _, s := range due {
		if s.err != nil {
			continue
		}
		if err := l.publishTo(context.WithoutCancel(ctx), s); err != nil {
			return err
		}
	}
	return nil
}

// NextRetry returns when the next disabled sink is retried; zero if none is disabled.
func (l *Loader) NextRetry() (next time.Time) {
	for _, s := range l.sinks {
		if s.err != nil && (next.IsZero() || s.retryAt.Before(next)) {
			next = s.retryAt
		}
	}
	return next
}

// ShownByAll returns the last answer that all sinks have published. It is not known while a sink is
// disabled.
func (l *Loader) ShownByAll() (upTo int64, known bool, err error) {
	for i, s := range l.sinks {
		if s.err != nil {
			return 0, false, nil
		}
		state, err := l.store.Runs.Sink(s.Name())
		if err != nil {
			return 0, false, err
		}
		shown := min(s.mark, state.Mark) // a new sink may have replaced the recorded one
		if i == 0 || shown < upTo {
			upTo = shown
		}
	}
	return upTo, len(l.sinks) > 0, nil
}

// Working reports whether at least one sink is not disabled, or there are no sinks.
func (l *Loader) Working() bool {
	for _, s := range l.sinks {
		if s.err == nil {
			return true
		}
	}
	return len(l.sinks) == 0
}

// DownSince returns since when no sink works; zero while one does.
func (l *Loader) DownSince() time.Time { return l.downSince }

// Disabled returns how many sinks are disabled.
func (l *Loader) Disabled() (n int) {
	for _, s := range l.sinks {
		if s.err != nil {
			n++
		}
	}
	return n
}

// Problem returns why a sink is disabled; nil if it is not, or if there is no sink with that name.
func (l *Loader) Problem(name string) error {
	for _, s := range l.sinks {
		if s.Name() == name {
			return s.err
		}
	}
	return nil
}

// Problems returns the joined errors of all disabled sinks; nil if none is disabled.
func (l *Loader) Problems() error {
	var errs []error
	for _, s := range l.sinks {
		if s.err != nil {
			errs = append(errs, s.err)
		}
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
