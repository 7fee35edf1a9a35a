package engine

import (
	"context"
	"errors"
	"fmt"
	"time"

	"outlierd/sinks"
	"outlierd/sync/job"
)

// # Sinks that fail
//
// A sink that fails is disabled and retried with back-off, whatever runs are under way, and
// at the end of each run. It catches up from the journal. It does not affect other sinks;
// while another sink works, runs end as partial instead of failed. Once no sink has
// worked for sinks_down_after, paid calls are refused: their answers could not be seen.

// A disabled sink is tried again after firstRetry, then after twice as long each time,
// up to lastRetry.
const (
	firstRetry = 10 * time.Second
	lastRetry  = 10 * time.Minute
)

// sinkState is a sink and what this process knows of it.
type sinkState struct {
	sinks.Sink
	mark    int64         // its watermark, while it is not disabled
	version int64         // of the operations tables that it had when it published last
	err     error         // why it is disabled; nil while it is not
	retryAt time.Time     // when it is tried again, while it is disabled
	pause   time.Duration // before that; 0 once it has published again
}

// ask reads the watermark of a sink, and disables the sink if it does not answer.
func (l *loader) ask(ctx context.Context, s *sinkState) error {
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

// disable sets when a sink that failed is tried again. A try before its time does not
// lengthen the back-off.
func (l *loader) disable(s *sinkState, err error) error {
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
	if l.working() || !l.downSince.IsZero() {
		return nil
	}
	l.downSince = time.Now()
	return l.store.Runs.SetSinksDown(l.downSince)
}

// noteSink logs that the state of a sink is not on record, where people look for it. That stops
// nothing: the sink itself knows how far it is.
func (l *loader) noteSink(s *sinkState, err error) {
	if err != nil {
		l.log.Warn("sink state not recorded", "sink", s.Name(), "err", err)
	}
}

// recovered notes that a sink has published.
func (l *loader) recovered(s *sinkState) error {
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

// retry tries the disabled sinks whose time has come, or with all set every one, also while
// a stop is under way: what a sink does not have at the end of a process it lacks until the
// next one. Those that answer catch up and publish. An error is the state's, or an
// [AheadError].
func (l *loader) retry(ctx context.Context, all bool) error {
	var due []*sinkState
	for _, s := range l.sinks {
		if s.err != nil && (all || !time.Now().Before(s.retryAt)) {
			due = append(due, s)
		}
	}
	if len(due) == 0 || !all && ctx.Err() != nil {
		return nil
	}
	if l.hi > l.lo { // what is decoded belongs to the sinks that stand at its beginning
		if err := l.flush(ctx); err != nil {
			return err
		}
	}
	for _, s := range due {
		if err := l.ask(context.WithoutCancel(ctx), s); err != nil {
			return err
		}
	}
	l.restart()
	if err := l.load(ctx, true); err != nil { // only the first batches, if a stop is under way
		return err
	}
	for _, s := range due {
		if s.err != nil {
			continue
		}
		if err := l.publish(context.WithoutCancel(ctx), s); err != nil {
			return err
		}
	}
	return nil
}

// nextRetry is when a disabled sink is tried again; zero if none is disabled.
func (l *loader) nextRetry() (next time.Time) {
	for _, s := range l.sinks {
		if s.err != nil && (next.IsZero() || s.retryAt.Before(next)) {
			next = s.retryAt
		}
	}
	return next
}

// shownByAll is the last answer that readers of all sinks find. It is not known while a sink is disabled.
func (l *loader) shownByAll() (upTo int64, known bool, err error) {
	for i, s := range l.sinks {
		if s.err != nil {
			return 0, false, nil
		}
		state, err := l.store.Runs.Sink(s.Name())
		if err != nil {
			return 0, false, err
		}
		shown := min(s.mark, state.Mark) // a sink may be a new one in the place of that which is on record
		if i == 0 || shown < upTo {
			upTo = shown
		}
	}
	return upTo, len(l.sinks) > 0, nil
}

// working reports whether there is a sink that is not disabled, or none at all.
func (l *loader) working() bool {
	for _, s := range l.sinks {
		if s.err == nil {
			return true
		}
	}
	return len(l.sinks) == 0
}

// disabled is how many sinks are disabled.
func (l *loader) disabled() (n int) {
	for _, s := range l.sinks {
		if s.err != nil {
			n++
		}
	}
	return n
}

// problems joins what the sinks are disabled for; nil if none is.
func (l *loader) problems() error {
	var errs []error
	for _, s := range l.sinks {
		if s.err != nil {
			errs = append(errs, s.err)
		}
	}
	return errors.Join(errs...)
}

// StaleError says that a job has to wait whose SQL is to find what another job has brought:
// the tables that SQL reads do not have it yet.
type StaleError struct {
	Job, After string
	Err        error // what the sink is disabled for
}

func (e *StaleError) Error() string {
	return fmt.Sprintf("its SQL cannot see the rows of job %s yet, because sink %s is disabled; run it when the sink works again: %v",
		e.After, job.SinkDuckDB, e.Err)
}

func (e *StaleError) Unwrap() error { return e.Err }

// stale returns a [StaleError] for a job that comes after another one and has SQL, while the
// tables that SQL reads are behind.
func (l *loader) stale(spec *job.Spec) error {
	if spec.After == "" || len(spec.SQL()) == 0 {
		return nil
	}
	for _, s := range l.sinks {
		if s.err != nil && s.Name() == job.SinkDuckDB {
			return &StaleError{Job: spec.Name, After: spec.After, Err: s.err}
		}
	}
	return nil
}

// SinksDownError refuses a paid call because no sink works.
type SinksDownError struct {
	Since time.Time // zero if none has worked since the process started
	Err   error     // what the sinks are disabled for
}

func (e *SinksDownError) Error() string {
	since := "since the start"
	if !e.Since.IsZero() {
		since = "since " + e.Since.UTC().Format("2006-01-02 15:04 UTC")
	}
	return fmt.Sprintf("no sink has worked %s, and nothing is bought until one does (sinks_down_after): %v", since, e.Err)
}

func (e *SinksDownError) Unwrap() error { return e.Err }

// down returns a [SinksDownError] once no sink has worked for the given time. Until a sink
// has answered since the process started, the journal and the ledger may be incomplete
// (see [AheadError]), so paid calls are refused from the start.
func (l *loader) down(after time.Duration) error {
	switch {
	case !l.answered:
		return &SinksDownError{Err: l.problems()}
	case l.downSince.IsZero() || time.Since(l.downSince) < after:
		return nil
	}
	return &SinksDownError{Since: l.downSince, Err: l.problems()}
}

// isSinksDown reports whether an error is a [SinksDownError].
func isSinksDown(err error) bool {
	_, down := errors.AsType[*SinksDownError](err)
	return down
}
