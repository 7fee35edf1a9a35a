package state_test

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"iter"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"time"

	"outlierd/outlier"
	"outlierd/sync/credit"
	"outlierd/sync/state"
)

// job is one of the jobs of a process, doing what package engine does. It stops at
// every point at which others may go on or the process may die, until next is called.
type job struct {
	*process
	name string
	http *outlier.Client
	call *call // on its way; nil if there is none

	at    string // the point where it stands
	next  func() (struct{}, bool)
	stop  func()
	yield func(struct{}) bool
}

func hire(p *process, name string) *job {
	j := &job{process: p, name: name, at: "idle"}
	j.next, j.stop = iter.Pull(func(yield func(struct{}) bool) {
		j.yield = yield
		for !j.dead {
			if err := j.perform(); err != nil {
				j.fail(err)
			}
			j.pause("idle")
		}
	})
	return j
}

// pause waits for its turn. In a dead process there is nothing to wait for.
func (j *job) pause(at string) {
	if !j.dead {
		j.at = at
		j.yield(struct{}{})
	}
}

// fail ends the schedule for a reason that should not be.
func (j *job) fail(err error) {
	if !j.dead && j.wrong == nil {
		j.wrong = fmt.Errorf("job %s: %w", j.name, err)
	}
}

func (j *job) note(format string, args ...any) { j.process.note(j.name, format, args...) }

// perform continues the job's run, or begins one, and does all that can be done in it.
func (j *job) perform() error {
	j.http = j.client(roundTripper(j.roundTrip))
	run, err := j.open()
	if err != nil {
		return err
	}
	stuck := map[int64]error{}
	for !j.dead {
		step, err := j.nextStep(run, stuck)
		if err != nil {
			return err
		}
		if step == nil {
			return j.finish(run, stuck)
		}
		met := j.advance(run, step)
		if unexpected(met) {
			return met
		}
		if met != nil {
			stuck[step.ID] = met
		}
	}
	return nil
}

// The ends of a perform that leave a step open.
var (
	errUnsettled = errors.New("nobody knows whether the scan was begun")
	errRunning   = errors.New("the scan runs")
)

// unexpected are errors that no schedule should lead to.
func unexpected(err error) bool {
	if _, ok := errors.AsType[*credit.Exceeded](err); ok || err == nil {
		return false
	}
	e, ok := errors.AsType[*outlier.Error](err)
	return !ok && !errors.Is(err, errUnsettled) && !errors.Is(err, errRunning) && !errors.Is(err, errKilled) ||
		ok && (e.Kind == outlier.Invalid || e.Kind == outlier.NotFound)
}

// open takes up a run that may go on, or begins another in its place.
func (j *job) open() (*state.Run, error) {
	old, err := j.store.Unfinished(j.name)
	if err != nil {
		return nil, err
	}
	if old != nil && j.dice.IntN(5) > 0 {
		j.note("continues %s, which was %s", old.ID, old.Status)
		return old, j.store.Resume(old.ID, old.Due)
	}
	if old != nil && old.Status == state.Running {
		old.Status, old.Ended = state.Interrupted, time.Now()
		if err := j.store.Finish(*old); err != nil {
			return nil, err
		}
	}
	j.runs++
	run := state.Run{ID: fmt.Sprint("run-", j.runs), Job: j.name, Trigger: "schedule", Started: time.Now(), Status: state.Running, Plan: []byte(`{}`)}
	if j.dice.IntN(2) == 0 {
		run.Due = time.Unix(int64(j.runs)*3600, 0)
	}
	steps := j.steps()
	j.note("begins %s of %d steps", run.ID, len(steps))
	return &run, j.store.Begin(run, steps)
}

// steps are what a run is to do. The jobs ask for the same now and then.
func (j *job) steps() (steps []state.Step) {
	query := url.Values{"query": {one(j.dice, "chess", "go")}}.Encode()
	if j.dice.IntN(2) == 0 {
		steps = append(steps, state.Step{Op: outlier.OpStartScan, Params: query})
	}
	for range 1 + j.dice.IntN(2) {
		op := one(j.dice, outlier.OpTrendingFormats, outlier.OpTrendingFormats, outlier.OpSearch, outlier.OpFindChannels)
		steps = append(steps, state.Step{Op: op, Params: query})
	}
	return steps
}

// pages of every search, and what is read of a scan.
const pages = 2

// nextStep is the open step with the fewest pages; nil if all that are open are stuck.
func (j *job) nextStep(run *state.Run, stuck map[int64]error) (next *state.Step, err error) {
	steps, err := j.store.Steps(run.ID)
	for i, s := range steps {
		if s.Stop == "" && stuck[s.ID] == nil && (next == nil || s.Next < next.Next) {
			next = &steps[i]
		}
	}
	return next, err
}

func (j *job) advance(run *state.Run, step *state.Step) error {
	if step.Op == outlier.OpStartScan {
		return j.scan(run, step)
	}
	return j.page(run, step)
}

// finish ends the run, unless it waits for a scan.
func (j *job) finish(run *state.Run, stuck map[int64]error) error {
	run.Status = state.OK
	for _, met := range stuck {
		if errors.Is(met, errRunning) {
			return nil
		}
		if _, ok := errors.AsType[*credit.Exceeded](met); ok {
			run.Status = state.PausedBudget
		} else if run.Status == state.OK {
			run.Status = state.Failed
		}
	}
	run.Ended = time.Now()
	j.note("%s is %s", run.ID, run.Status)
	return j.store.Finish(*run)
}

// request is the step's next call, at the price that is on the list.
func (j *job) request(step *state.Step) *outlier.Request {
	params, _ := url.ParseQuery(step.Params) // it was encoded by us
	r := outlier.StartScanRequest(params)
	if step.Op != outlier.OpStartScan {
		params.Set("from", strconv.Itoa(step.Next))
		params.Set("size", "1")
		r = outlier.PageRequest(step.Op, params)
	}
	r.Price += j.dearer
	return r
}

// page takes the step's next page, and asks a second time where that may help: for the
// same, which the service may give for nothing.
func (j *job) page(run *state.Run, step *state.Step) error {
	holder, err := j.holder(step)
	if err != nil {
		return err
	}
	for attempt := 1; ; attempt++ {
		_, err = j.buy(run, j.request(step), state.Purchase{
			Step: step.ID, Page: step.Next, Attempt: attempt, FromHold: holder,
			Commit: func(tx *state.Tx, kept state.Kept) error { return turnPage(tx, *step, kept) },
		})
		if err == nil || j.dead || attempt == 2 || !passes(err) {
			return err
		}
	}
}

// passes reports whether what went wrong may be over when the call is made again.
func passes(err error) bool {
	e, ok := errors.AsType[*outlier.Error](err)
	return ok && slices.Contains([]outlier.Kind{outlier.Limited, outlier.Unsent, outlier.Lost, outlier.Foreign, outlier.Failed}, e.Kind)
}

// turnPage moves the step's cursor in the transaction of the answer.
func turnPage(tx *state.Tx, step state.Step, kept state.Kept) error {
	if e, ok := errors.AsType[*outlier.Error](kept.Answer.Err); ok && e.Kind == outlier.Malformed {
		step.Stop = "unreadable"
		return tx.SaveStep(step)
	}
	if kept.Answer.Err != nil {
		return nil
	}
	step.Next++
	step.Pages++
	if step.Next == pages {
		step.Stop = "pages"
	}
	return tx.SaveStep(step)
}

// holder is the step whose hold pays for the pages of a scan.
func (j *job) holder(step *state.Step) (int64, error) {
	if step.Scan == "" {
		return 0, nil
	}
	scan, err := j.store.ScanByID(step.Scan)
	if err != nil || scan == nil {
		return 0, cmp.Or(err, fmt.Errorf("scan %s is not on record", step.Scan))
	}
	rest, err := j.store.HoldOf(scan.Step)
	if rest >= j.request(step).Price {
		j.saw("a page was paid from a hold")
	}
	return scan.Step, err
}

// buy makes a paid call, once the service has told that a day has turned.
func (j *job) buy(run *state.Run, r *outlier.Request, p state.Purchase) (*outlier.Answer, error) {
	j.pause("about to reserve")
	if day, cycle := j.store.Turned(); (day || cycle) && !j.asked && !j.dead && !j.bug.guesses {
		if err := j.askTime(run); err != nil {
			return nil, err
		}
	}
	return j.do(run, r, p)
}

// askTime asks the service for anything that is free: what matters is the date.
func (j *job) askTime(run *state.Run) error {
	j.saw("the time was asked for")
	r, err := outlier.DataRequest(outlier.OpDetails, "dQw4w9WgXcQ")
	if err != nil {
		return err
	}
	answer, err := j.do(run, r, state.Purchase{})
	if answer == nil || answer.Status == 0 {
		return err
	}
	j.asked = true
	return nil
}

// do makes one call.
func (j *job) do(run *state.Run, r *outlier.Request, p state.Purchase) (*outlier.Answer, error) {
	c := &call{run: run.ID, job: j.name, step: p.Step, intent: p.Intent, paid: r.Paid()}
	p.Run, p.Job = run.ID, j.name
	p.Caps = func(at time.Time) []credit.Cap {
		c.at = at
		return j.caps.of(j.periodsOf(c))
	}
	var books outlier.Meter = j.store.Meter(p)
	if j.bug.meter != nil {
		books = j.bug.meter(books)
	}
	j.call = c
	defer func() { j.call = nil }()
	return j.http.Do(j.t.Context(), r, pausing{j, c, books})
}

func (j *job) roundTrip(r *http.Request) (*http.Response, error) {
	resp, err := j.deliver(r, j.call)
	if err == nil && j.call.paid {
		j.pause("at the service")
	}
	return resp, err
}

// pausing stops before and after everything that a paid call writes down.
type pausing struct {
	*job
	*call
	books outlier.Meter
}

// Reserve implements [outlier.Meter].
func (m pausing) Reserve(ctx context.Context, r *outlier.Request) (outlier.Attempt, error) {
	if m.dead {
		return nil, errKilled
	}
	now := m.store.ServiceTime().Truncate(time.Microsecond)
	m.call.at = now
	attempt, err := m.books.Reserve(ctx, r)
	if e, ok := errors.AsType[*credit.Exceeded](err); ok {
		m.saw("refused by " + string(e.Cap.Scope))
	} else if err != nil {
		m.fail(err)
	}
	if err != nil || !m.call.paid {
		return pausingAttempt{m, attempt}, err
	}
	if now.After(m.newest) {
		m.newest = now
	}
	m.job.note("reserved %d for %s, booked for %s", r.Price, r.Op, m.call.at.Format("01-02 15:04:05"))
	m.wrong = m.checkDay(m.call)
	m.pause("reserved")
	return pausingAttempt{m, attempt}, nil
}

type pausingAttempt struct {
	pausing
	attempt outlier.Attempt
}

// Sending implements [outlier.Attempt].
func (a pausingAttempt) Sending() error {
	if a.dead {
		return errKilled
	}
	if err := a.attempt.Sending(); err != nil {
		a.fail(err)
		return err
	}
	if !a.call.paid {
		return nil
	}
	a.call.sent = true
	if !slices.ContainsFunc(a.jobs, func(j *job) bool { return j.call == nil || !j.call.sent || j.call.settled }) {
		a.saw("two calls on their way")
	}
	a.pause("marked as sent")
	if a.dead {
		return errKilled
	}
	return nil
}

// Settle implements [outlier.Attempt].
func (a pausingAttempt) Settle(answer *outlier.Answer, o outlier.Outcome) error {
	if a.call.paid {
		a.pause("answered")
	}
	if a.dead {
		return nil
	}
	if err := a.attempt.Settle(answer, o); err != nil {
		a.fail(err)
		return err
	}
	a.call.settled = true
	a.told = a.told || !answer.Date().IsZero()
	if a.call.paid {
		a.saw("settled as " + string(o))
		a.job.note("settled as %s: %v", o, answer.Err)
		a.pause("settled")
	}
	return nil
}
