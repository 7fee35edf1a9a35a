package load

import (
	"errors"
	"fmt"
	"log/slog"
	"time"

	"outlierd/sinks"
	"outlierd/sync/runs"
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

type warehouseState struct {
	sinks.Warehouse // nil if nothing is loaded
	sinkState
}

type copyState struct {
	sinks.Copy
	sinkState
	downSince time.Time // since when it or the warehouse fails; zero once it was published
}

// health says which of the warehouse and its copies work.
type health struct {
	record *runs.Sinks
	log    *slog.Logger
	advise func(sink string, err error) error // see [Line]

	source *warehouseState
	copies []*copyState

	answered bool // the warehouse and a copy have told their marks, so the journal is known to be complete
}

// disableSink disables what failed and sets when it is retried. A retry before that time does not lengthen
// the back-off. If it is the warehouse, that is recorded of every copy, because none can be made.
func (h *health) disableSink(s *sinkState, err error) error {
	if h.advise != nil {
		err = h.advise(s.name, err)
	}
	again := s.pause > 0
	s.err = err
	if now := time.Now(); !now.Before(s.retryAt) {
		s.pause = min(max(2*s.pause, firstRetry), lastRetry)
		s.retryAt = now.Add(s.pause)
	}
	if again {
		h.log.Debug("sink still disabled", "sink", s.name, "retry_at", s.retryAt, "err", err)
	} else {
		h.log.Error("sink disabled", "sink", s.name, "retry_at", s.retryAt, "err", err)
	}
	for _, c := range h.copies {
		if s != &c.sinkState && s != &h.source.sinkState {
			continue
		}
		h.noteSink(&c.sinkState, h.record.SetDisabled(c.name, err))
		if c.downSince.IsZero() {
			c.downSince = time.Now()
		}
	}
	return nil
}

// noteSink records the state of a sink, which commands show. If that fails, it logs the error and
// loading continues, because the sink has its own marks.
func (h *health) noteSink(s *sinkState, err error) {
	if err != nil {
		h.log.Warn("sink state not recorded", "sink", s.name, "err", err)
	}
}

// recordRecovery records that a copy was published.
func (h *health) recordRecovery(c *copyState) {
	for _, s := range []*sinkState{&h.source.sinkState, &c.sinkState} {
		if s.pause > 0 {
			s.pause, s.retryAt = 0, time.Time{}
			h.log.Info("sink recovered", "sink", s.name, "answers", s.marks.Answers)
		}
	}
	c.downSince = time.Time{}
	h.noteSink(&c.sinkState, h.record.SetPublished(c.name, c.marks.Answers))
}

// allSinks returns the state of the warehouse and of the copies.
func (h *health) allSinks() []*sinkState {
	states := []*sinkState{&h.source.sinkState}
	for _, c := range h.copies {
		states = append(states, &c.sinkState)
	}
	return states
}

// NextRetry returns when something disabled is retried next; zero if nothing is disabled.
func (h *health) NextRetry() (next time.Time) {
	for _, s := range h.allSinks() {
		if s.err != nil && (next.IsZero() || s.retryAt.Before(next)) {
			next = s.retryAt
		}
	}
	return next
}

// ShownByAll returns the last answer and the last version of the operations tables that all copies show. They are not
// known while one of them is disabled.
func (h *health) ShownByAll() (shown sinks.Marks, known bool) {
	shown = h.source.marks
	for _, c := range h.copies {
		shown.Answers, shown.Ops = min(shown.Answers, c.marks.Answers), min(shown.Ops, c.marks.Ops)
	}
	return shown, h.source.Warehouse != nil && h.Disabled() == 0
}

// Working reports whether the warehouse and at least one copy are not disabled, or there is nothing to load
// into.
func (h *health) Working() bool {
	for _, c := range h.copies {
		if c.err == nil {
			return h.source.err == nil
		}
	}
	return len(h.copies) == 0 && h.source.err == nil
}

// DownSince returns since when no copy can be published; zero while one can.
func (h *health) DownSince() (since time.Time) {
	for _, c := range h.copies {
		if c.downSince.IsZero() {
			return time.Time{}
		}
		if c.downSince.After(since) {
			since = c.downSince
		}
	}
	return since
}

// Disabled returns how many of the warehouse and the copies are disabled.
func (h *health) Disabled() (n int) {
	for _, s := range h.allSinks() {
		if s.err != nil {
			n++
		}
	}
	return n
}

// Problem returns why a copy cannot be published; nil if it can, or if there is no copy with that name.
func (h *health) Problem(name string) error {
	for _, c := range h.copies {
		if c.name == name {
			return errors.Join(h.source.err, c.err)
		}
	}
	return nil
}

// Problems returns the joined errors of all that is disabled; nil if nothing is.
func (h *health) Problems() error {
	var errs []error
	for _, s := range h.allSinks() {
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
func (h *health) Down(after time.Duration) error {
	since := h.DownSince()
	switch {
	case !h.answered:
		return &SinksDownError{Err: h.Problems()}
	case since.IsZero() || time.Since(since) < after:
		return nil
	}
	return &SinksDownError{Since: since, Err: h.Problems()}
}
