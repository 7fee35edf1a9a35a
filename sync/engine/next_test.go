package engine

import (
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"outlierd/outlier"
	"outlierd/sync/job"
	"outlierd/sync/plan"
	"outlierd/sync/runs"
)

// prices of the calls in these tests.
var prices = map[outlier.Operation]outlier.Credits{outlier.OpSearch: 2, outlier.OpFindChannels: 3, outlier.OpStartScan: 50}

// factsOf returns the facts of open steps, whose ids count from 1.
func factsOf(steps ...runs.Step) *searchFacts {
	for i := range steps {
		steps[i].ID, steps[i].Ordinal = int64(i+1), i
	}
	return &searchFacts{
		now: time.Date(2026, 5, 1, 12, 0, 0, 0, time.UTC), steps: steps, scans: map[int64]*runs.Scan{},
		plan:    &plan.Stored{Terms: job.Terms{Scan: &job.Scan{PollMax: 10 * time.Minute}}},
		priceOf: func(s *runs.Step) outlier.Credits { return prices[s.Query.Op()] },
	}
}

func stepOf(op outlier.Operation) runs.Step {
	return runs.Step{Query: outlier.UncheckedQuery(op, "")}
}

func TestNextActionOfSearches(t *testing.T) {
	t.Parallel()
	search, channels, deep := stepOf(outlier.OpSearch), stepOf(outlier.OpFindChannels), stepOf(outlier.OpStartScan)
	second, done, reading := search, search, search
	second.Next, done.Stop, reading.Scan = 1, runs.StopPages, "s1"
	reading.Paid = true
	broken := func(f *searchFacts) { f.steps[0].Problem = "broken" }
	full := func(f *searchFacts) { f.steps[0].Problem, f.steps[0].Capped = "cap", true }
	for _, c := range []struct {
		name  string
		steps []runs.Step
		given func(f *searchFacts)
		kind  actionKind
		step  int64 // 0 for none
		until time.Duration
	}{
		{"all pages are in", []runs.Step{done}, nil, enrich, 0, 0},
		{"fewest pages first", []runs.Step{second, done, search}, nil, takePage, 3, 0},
		{"newest window first", []runs.Step{{Query: search.Query, Window: "2026-01"}, {Query: search.Query, Window: "2026-02", Next: 4}},
			func(f *searchFacts) { f.plan.Backfill = &job.Dates{} }, takePage, 2, 0},
		{"a failed search stops alone", []runs.Step{search, second}, broken, takePage, 2, 0},
		{"a cap stops what costs as much", []runs.Step{search, second, channels}, full, enrich, 0, 0},
		{"a cap lets the cheaper go on", []runs.Step{channels, search}, full, takePage, 2, 0},
		{"a cap lets what is paid go on", []runs.Step{search, reading}, full, takePage, 2, 0},
		{"no more requests", []runs.Step{search}, func(f *searchFacts) { f.requests = &RequestsError{1} }, skipStep, 1, 0},
		{"a paid page needs no requests", []runs.Step{search, reading}, func(f *searchFacts) { f.requests = &RequestsError{1}; full(f) }, takePage, 2, 0},
		{"time is up", []runs.Step{reading, search}, func(f *searchFacts) { f.timeUp = true }, closeStep, 2, 0},
		{"time is up for all but a scan", []runs.Step{reading, done}, func(f *searchFacts) { f.timeUp = true }, takePage, 1, 0},
		{"a scan starts", []runs.Step{deep}, nil, startScan, 1, 0},
		{"a refunded start is made again", []runs.Step{deep}, func(f *searchFacts) { f.scans[1] = &runs.Scan{State: runs.ScanRefused} }, startScan, 1, 0},
		{"a start that was never sent is made again", []runs.Step{deep}, func(f *searchFacts) { f.scans[1] = &runs.Scan{State: runs.ScanIntended} }, startScan, 1, 0},
		{"a start that may have worked is not", []runs.Step{deep}, func(f *searchFacts) { f.scans[1] = &runs.Scan{State: runs.ScanUnknown} }, skipStep, 1, 0},
		{"a live scan is joined, whatever caps say", []runs.Step{search, deep}, func(f *searchFacts) {
			full(f)
			f.requests = &RequestsError{1}
			f.scans[2] = &runs.Scan{Intent: 9, Step: 8, State: runs.ScanRunning, ScanID: "s1"}
		}, joinScan, 2, 0},
		{"a live scan is joined before others start", []runs.Step{deep, search, deep}, func(f *searchFacts) {
			f.scans[3] = &runs.Scan{Intent: 9, Step: 8, State: runs.ScanRunning, ScanID: "s1"}
		}, joinScan, 3, 0},
		{"another start that may have worked", []runs.Step{deep}, func(f *searchFacts) { f.scans[1] = &runs.Scan{Step: 8, State: runs.ScanUnknown} }, skipStep, 1, 0},
		{"a scan is not due", []runs.Step{deep}, func(f *searchFacts) {
			f.scans[1] = &runs.Scan{Intent: 1, Step: 1, State: runs.ScanRunning, NextPoll: f.now.Add(5 * time.Minute)}
		}, wait, 0, 5 * time.Minute},
		{"a scan waits for the rate limit", []runs.Step{deep}, func(f *searchFacts) {
			f.scans[1], f.mayPoll = &runs.Scan{Intent: 1, Step: 1, State: runs.ScanRunning, NextPoll: f.now}, f.now.Add(time.Minute)
		}, wait, 0, time.Minute},
		{"others go on meanwhile", []runs.Step{deep, second}, func(f *searchFacts) {
			f.scans[1] = &runs.Scan{Intent: 1, Step: 1, State: runs.ScanRunning, NextPoll: f.now.Add(5 * time.Minute)}
		}, takePage, 2, 0},
		{"the first scan that is due", []runs.Step{deep, deep}, func(f *searchFacts) {
			f.scans[1] = &runs.Scan{Intent: 1, Step: 1, State: runs.ScanRunning, NextPoll: f.now.Add(5 * time.Minute)}
			f.scans[2] = &runs.Scan{Intent: 2, Step: 2, State: runs.ScanRunning, NextPoll: f.now.Add(3 * time.Minute)}
		}, wait, 0, 3 * time.Minute},
		{"a scan is due", []runs.Step{deep}, func(f *searchFacts) {
			f.scans[1] = &runs.Scan{Intent: 1, Step: 1, State: runs.ScanRunning, NextPoll: f.now}
		}, pollScan, 1, 0},
		{"a scan has ended", []runs.Step{deep}, func(f *searchFacts) { f.scans[1] = &runs.Scan{Intent: 1, Step: 1, State: runs.ScanEnded} }, endScan, 1, 0},
	} {
		f := factsOf(slices.Clone(c.steps)...)
		if c.given != nil {
			c.given(f)
		}
		a, step, until := f.next(), int64(0), time.Duration(0)
		if a.step != nil {
			step = a.step.ID
		}
		if a.kind == wait {
			until = a.until.Sub(f.now)
		}
		if a.kind != c.kind || step != c.step || until != c.until {
			t.Errorf("%s: %s of step %d until %s, want %s of step %d until %s", c.name, a.kind, step, until, c.kind, c.step, c.until)
		}
	}
}

// A searchPlay is a run whose searches are played by what [searchFacts.next] decides, against a service that answers
// by chance.
type searchPlay struct {
	*rapid.T
	*searchFacts
	starts map[int64]int // by step: how often the service may have started its scan
}

// TestSearchesEndWhateverIsAnswered: over random answers, caps and clocks, each turn does what the rows allow, no
// scan is started twice, and all ends.
func TestSearchesEndWhateverIsAnswered(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		ops := rapid.SliceOfN(rapid.SampledFrom([]outlier.Operation{outlier.OpSearch, outlier.OpFindChannels, outlier.OpStartScan}), 1, 5).Draw(t, "ops")
		var steps []runs.Step
		for _, op := range ops {
			steps = append(steps, stepOf(op))
		}
		s := &searchPlay{t, factsOf(steps...), map[int64]int{}}
		for range 500 {
			s.lookAgain()
			a := s.next()
			if b := s.next(); !same(a, b) {
				t.Fatalf("%+v, and then %+v of the same", a, b)
			}
			if a.kind == enrich {
				s.checkEnd()
				return
			}
			s.play(a)
		}
		t.Fatalf("no end after 500 turns: %+v", s.steps)
	})
}

func (s *searchPlay) chance(n int, of string) bool { return rapid.IntRange(1, n).Draw(s.T, of) == 1 }

// lookAgain sets what [run.look] derives from the rows.
func (s *searchPlay) lookAgain() {
	for i := range s.steps {
		step := &s.steps[i]
		scan := s.scans[step.ID]
		step.Paid = step.Scan != "" || step.Query.Op() == outlier.OpStartScan && !scan.Unstarted()
	}
	s.timeUp = s.timeUp || s.chance(60, "time up")
	if s.requests == nil && s.chance(60, "requests used up") {
		s.requests = &RequestsError{10}
	}
	for i := range s.steps {
		if s.steps[i].Stop == "" && s.chance(40, "tried again") {
			s.steps[i].Problem, s.steps[i].Capped = "", false
		}
	}
}

func same(a, b action) bool { return a.kind == b.kind && a.step == b.step && a.until.Equal(b.until) }

// checkEnd checks that nothing could be done any more.
func (s *searchPlay) checkEnd() {
	for i := range s.steps {
		if step := &s.steps[i]; step.Stop == "" && step.Problem == "" && !s.exceedsCap(step) {
			s.Fatalf("the end, with an open step %+v", step)
		}
	}
}

// play performs an action.
func (s *searchPlay) play(a action) {
	if a.kind == wait {
		if !a.until.After(s.now) || a.until.After(s.now.Add(s.plan.Scan.PollMax)) {
			s.Fatalf("at %s it waits until %s", s.now, a.until)
		}
		s.now = a.until
		return
	}
	step := a.step
	if a.kind == closeStep {
		if step.Stop = a.stop; step.Paid {
			s.Fatalf("a paid scan is not read: %+v", step)
		}
		return
	}
	if step.Stop != "" || step.Problem != "" {
		s.Fatalf("%s of a step that has stopped: %+v", a.kind, step)
	}
	switch buys := a.kind == takePage && step.Scan == "" || a.kind == startScan; {
	case buys && s.requests != nil && step.Scan == "", buys && s.timeUp:
		s.Fatalf("%s although the run may buy nothing more", a.kind)
	case buys && s.chance(6, "cap"):
		step.Problem, step.Capped = "cap", true
		return
	case s.chance(8, "failure"):
		step.Problem = "failed"
		return
	}
	switch a.kind {
	case takePage:
		if step.Next++; step.Next == 3 || s.chance(4, "last page") {
			step.Stop = runs.StopPages
		}
	case startScan:
		s.start(step)
	case pollScan:
		scan := *a.scan
		scan.NextPoll = s.now.Add(time.Duration(rapid.IntRange(1, 99).Draw(s.T, "minutes")) * time.Minute)
		scan.State = rapid.SampledFrom([]runs.ScanState{runs.ScanRunning, runs.ScanEnded, runs.ScanFailed}).Draw(s.T, "poll")
		s.scans[step.ID] = &scan
	case endScan:
		if step.Stop = runs.StopScanFailed; a.scan.State == runs.ScanEnded {
			step.Stop = runs.StopScanned
			reading := stepOf(outlier.OpSearch)
			reading.ID, reading.Ordinal, reading.Scan = int64(len(s.steps)+1), len(s.steps), fmt.Sprint("s", step.ID)
			s.steps = append(s.steps, reading)
		}
	case skipStep:
		step.Problem, step.Capped = a.err.Error(), isBudget(a.err)
	default:
		s.Fatalf("%s, of a scan that nothing else has started", a.kind)
	}
	s.steps = slices.Clone(s.steps)
	s.scans = maps.Clone(s.scans)
}

// start sends the start of a scan.
func (s *searchPlay) start(step *runs.Step) {
	if s.starts[step.ID] > 0 {
		s.Fatalf("the scan of step %d is started again", step.ID)
	}
	state := rapid.SampledFrom([]runs.ScanState{
		runs.ScanIntended, runs.ScanRefused, runs.ScanRunning, runs.ScanUnknown, runs.ScanEnded,
	}).Draw(s.T, "start")
	if state != runs.ScanIntended && state != runs.ScanRefused {
		s.starts[step.ID]++
	}
	s.scans[step.ID] = &runs.Scan{Intent: step.ID, Step: step.ID, State: state, NextPoll: s.now.Add(time.Minute)}
}
