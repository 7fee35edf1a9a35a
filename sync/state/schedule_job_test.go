package state_test

import (
	"errors"
	"fmt"
	"iter"
	"net/url"
	"slices"
	"strconv"
	"time"

	"outlierd/outlier"
	"outlierd/sync/ledger"
	"outlierd/sync/plan"
	"outlierd/sync/runs"
	"outlierd/sync/store"
)

// job is one of the jobs of a process, and does what package engine does. It stops at every point at
// which other jobs may proceed or the process may be killed, until next is called.
type job struct {
	*process
	name, account string // as in the job file, and that with which it began
	http          *outlier.Client
	call          *call // on its way; nil if there is none

	at    string // the point where it stands
	next  func() (struct{}, bool)
	stop  func()
	yield func(struct{}) bool
}

func hire(p *process, account string) *job {
	j := &job{process: p, name: p.names[account], account: account, at: "idle"}
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

// pause waits for its turn, unless the process was killed.
func (j *job) pause(at string) {
	if !j.dead {
		j.at = at
		j.yield(struct{}{})
	}
}

// fail ends the schedule with an unexpected error.
func (j *job) fail(err error) {
	if !j.dead && j.wrong == nil {
		j.wrong = fmt.Errorf("job %s: %w", j.name, err)
	}
}

// breaks ends the schedule if a rule was broken.
func (j *job) breaks(rule error) {
	if rule != nil && j.wrong == nil {
		j.wrong = rule
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
		if met := j.advance(run, step); met != nil {
			if !expected(met) {
				return met
			}
			stuck[step.ID] = met
		}
	}
	return nil
}

// The ends of a perform that leave a step open.
var (
	errUnsettled = errors.New("the start of the scan is not confirmed")
	errRunning   = errors.New("the scan runs")
)

// expected reports whether a schedule may lead to err. That the service takes a request
// for a wrong one is not among what may happen.
func expected(err error) bool {
	if e, ok := errors.AsType[*outlier.Error](err); ok {
		return e.Kind != outlier.Invalid && e.Kind != outlier.NotFound
	}
	_, capped := errors.AsType[*ledger.Exceeded](err)
	return capped || errors.Is(err, errNoTime) || errors.Is(err, errUnsettled) || errors.Is(err, errRunning) || errors.Is(err, errKilled)
}

// open takes up a run that may go on, or begins another in its place.
func (j *job) open() (*runs.Run, error) {
	unfinished, err := j.store.Runs.Unfinished(j.name)
	if err != nil {
		return nil, err
	}
	for i := range unfinished {
		old := &unfinished[i]
		if j.dice.IntN(3) > 0 {
			j.note("continues %s, which was %s", old.ID, old.Status)
			return old, j.store.Runs.Resume(*old)
		}
		if err := j.sawUnknown(old); err != nil {
			return nil, err
		}
		if err := j.store.Supersede(*old); err != nil {
			return nil, err
		}
	}
	j.runs++
	run := runs.Run{ID: fmt.Sprint("run-", j.runs), Job: j.name, Trigger: "schedule", Started: time.Now(), Status: runs.Running, Plan: &plan.Stored{}}
	if j.dice.IntN(4) == 0 {
		run.Due = time.Unix(int64(j.runs)*3600, 0)
	}
	steps := j.steps()
	j.note("begins %s of %d steps", run.ID, len(steps))
	return &run, j.store.Runs.Begin(run, steps)
}

// steps are the searches of a run. Jobs sometimes make the same requests.
func (j *job) steps() (steps []runs.Step) {
	query := url.Values{"query": {one(j.dice, "chess", "go")}}.Encode()
	if j.dice.IntN(2) == 0 {
		steps = append(steps, runs.Step{Query: outlier.UncheckedQuery(outlier.OpStartScan, query)})
	}
	for range 1 + j.dice.IntN(2) {
		op := one(j.dice, outlier.OpTrendingFormats, outlier.OpTrendingFormats, outlier.OpSearch, outlier.OpFindChannels)
		steps = append(steps, runs.Step{Query: outlier.UncheckedQuery(op, query)})
	}
	return steps
}

// pages of every search, and what is read of a scan.
const pages = 2

// nextStep is the open step with the fewest pages; nil if none can proceed.
func (j *job) nextStep(run *runs.Run, stuck map[int64]error) (next *runs.Step, err error) {
	steps, err := j.store.Steps.OfRun(run.ID)
	for i, s := range steps {
		if s.Stop == "" && stuck[s.ID] == nil && (next == nil || s.Next < next.Next) {
			next = &steps[i]
		}
	}
	return next, err
}

func (j *job) advance(run *runs.Run, step *runs.Step) error {
	if step.Query.Op() == outlier.OpStartScan {
		return j.scan(run, step)
	}
	return j.page(run, step)
}

// finish ends the run, unless it waits for a scan.
func (j *job) finish(run *runs.Run, stuck map[int64]error) error {
	run.Status = runs.OK
	for _, met := range stuck {
		if errors.Is(met, errRunning) {
			return nil
		}
		if _, ok := errors.AsType[*ledger.Exceeded](met); ok {
			run.Status = runs.PausedBudget
		} else if run.Status == runs.OK {
			run.Status = runs.Failed
		}
	}
	run.Ended = time.Now()
	j.note("%s is %s", run.ID, run.Status)
	return j.store.Finish(*run)
}

// request is the step's next call, at the price that is on the list.
func (j *job) request(step *runs.Step) *outlier.Request {
	params, _ := url.ParseQuery(step.Query.Encode()) // it was encoded by us
	prices := outlier.DocumentedPrices()
	for tariff := range prices {
		prices[tariff] += j.surcharge
	}
	if step.Query.Op() != outlier.OpStartScan {
		params.Set("from", strconv.Itoa(step.Next))
		params.Set("size", "1")
	}
	r, err := outlier.NewRequest(step.Query.Op(), params, prices)
	if err != nil {
		j.t.Fatal(err)
	}
	return r
}

// page takes the step's next page, and asks a second time where that may help: for the
// same, which the service may give for nothing.
func (j *job) page(run *runs.Run, step *runs.Step) error {
	holder, err := j.holder(run, step)
	if err != nil {
		return err
	}
	for attempt := 1; ; attempt++ {
		_, err = j.buy(run, j.request(step), ledger.Purchase{
			Step: step.ID, Page: step.Next, Attempt: attempt, FromHold: holder,
			Commit: func(tx *store.Tx, kept ledger.Kept) error { return turnPage(tx, *step, kept) },
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
func turnPage(tx *store.Tx, step runs.Step, kept ledger.Kept) error {
	if e, ok := errors.AsType[*outlier.Error](kept.Answer.Err); ok && e.Kind == outlier.Malformed {
		step.Stop = "unreadable"
		return runs.SaveStep(tx, step)
	}
	if kept.Answer.Err != nil {
		return nil
	}
	step.Next++
	step.Pages++
	if step.Next == pages {
		step.Stop = "pages"
	}
	return runs.SaveStep(tx, step)
}

// holder is the step whose hold pays for the pages of a scan: that of the run which has
// started or joined it.
func (j *job) holder(run *runs.Run, step *runs.Step) (int64, error) {
	if step.Scan == "" {
		return 0, nil
	}
	steps, err := j.store.Steps.OfRun(run.ID)
	if err != nil {
		return 0, err
	}
	start := slices.IndexFunc(steps, func(s runs.Step) bool { return s.Query.Op() == outlier.OpStartScan })
	rest, err := j.store.Ledger.HoldOf(steps[start].ID)
	if rest >= j.request(step).Price() {
		j.saw("a page was paid from a hold")
	}
	return steps[start].ID, err
}
