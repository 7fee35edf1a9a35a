package state_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"outlierd/outlier"
	"outlierd/sync/ledger"
	"outlierd/sync/runs"
	"outlierd/sync/state"
	"outlierd/sync/state/statetest"
	"outlierd/sync/store"
)

// TestLedgerFollowsTheModel performs random attempts, scans and readings, now and
// then on a store as a kill leaves it, beside a model of what each period must hold
// and how each scan must stand.
func TestLedgerFollowsTheModel(t *testing.T) {
	t.Parallel()
	b := &model{t: t, s: statetest.Hasty(t, statetest.Open(t, t.TempDir()))}
	rapid.Check(t, func(r *rapid.T) {
		b.begin(r)
		r.Repeat(map[string]func(*rapid.T){
			"reserve": b.reserve, "send": b.send, "settle": b.settle, "kill": b.kill, "": b.check,
			"start a scan": b.start, "join a scan": b.join, "read": b.read, "release": b.release, "ask an operator": b.operate, "rename": b.rename, "end": b.end,
			"change the cap": func(r *rapid.T) { b.limit = drawLimit(r) },
		})
	})
}

func drawLimit(r *rapid.T) outlier.Credits {
	return rapid.SampledFrom([]outlier.Credits{3, 12, 20, 40}).Draw(r, "limit")
}

const (
	pagePrice = 2
	scanPrice = 5
)

// model is a store and what is known of it.
type model struct {
	t      *testing.T
	s      *state.Store
	checks int

	job   string
	limit outlier.Credits            // of the job in the cycle
	held  map[string]outlier.Credits // per run; "" is the whole job
	scans []*scanning                // one per run
	alive []*live
}

// scanning is a run's step with its scan and its newest hold.
type scanning struct {
	run     string
	what    string // it looks for
	step    int64
	intent  int64
	state   runs.ScanState // "" before the first intent
	ended   bool           // the run has, for good
	charged bool           // the ledger's row is
	joined  *scanning      // whose scan it waits for, and begins none itself
	hold    *setAside
}

// setAside is a hold.
type setAside struct {
	rest outlier.Credits
	open bool
}

// live is an attempt that has not been settled.
type live struct {
	outlier.Attempt
	run   string
	price outlier.Credits
	sent  bool

	made    *setAside // the hold that it made
	drawn   *setAside // the hold that pays for it
	starts  *scanning
	request *outlier.Request
	garbled bool // its answer, when it comes
}

// begin takes a job of its own for every check.
func (b *model) begin(r *rapid.T) {
	b.checks++
	b.job = fmt.Sprint("job-", b.checks)
	b.held, b.alive, b.scans = map[string]outlier.Credits{}, nil, nil
	alike := rapid.Bool().Draw(r, "alike")
	for _, name := range []string{"-a", "-b"} {
		s := &scanning{run: b.job + name, what: b.job, hold: &setAside{}}
		if !alike {
			s.what += name
		}
		if err := b.s.Runs.Begin(runs.Run{ID: s.run, Job: b.job, Status: runs.Running}, []runs.Step{{Query: outlier.UncheckedQuery(outlier.OpStartScan, "")}}); err != nil {
			r.Fatal(err)
		}
		steps, err := b.s.Steps.OfRun(s.run)
		if err != nil {
			r.Fatal(err)
		}
		s.step = steps[0].ID
		b.scans = append(b.scans, s)
	}
	b.limit = drawLimit(r)
}

func (b *model) cap() ledger.Cap {
	return ledger.Cap{Scope: ledger.ScopeJobMonth, Period: ledger.JobCycle(b.job, ledger.Cycle(time.Now(), time.UTC, 1)), Max: b.limit}
}

func (b *model) book(run string, amount outlier.Credits) {
	b.held[run] += amount
	b.held[""] += amount
}

func (b *model) close(run string, h *setAside) {
	if h.open {
		b.book(run, -h.rest)
		h.rest, h.open = 0, false
	}
}

// refund is what a settled attempt gives back, and to whom.
func (b *model) refund(l *live) {
	if l.drawn != nil && l.drawn.open {
		l.drawn.rest += l.price
	} else {
		b.book(l.run, -l.price)
	}
	if l.made != nil {
		b.close(l.run, l.made)
	}
}

func (b *model) scan(r *rapid.T) *scanning { return rapid.SampledFrom(b.scans).Draw(r, "scan") }

func (b *model) starting(s *scanning) bool {
	return slices.ContainsFunc(b.alive, func(l *live) bool { return l.starts == s })
}

// attempt reserves l for p, which must succeed exactly if it may.
func (b *model) attempt(r *rapid.T, p ledger.Purchase, l live, may bool) bool {
	p.Job, p.Run = b.job, l.run
	p.Caps = func(time.Time) []ledger.Cap { return []ledger.Cap{b.cap()} }
	a, err := b.s.Ledger.Meter(p).Reserve(b.t.Context(), l.request)
	if (err == nil) != may {
		r.Fatalf("holding %d of %d, a call for %d and a hold of %d got %v", b.held[""], b.limit, l.price, p.Hold, err)
	}
	if err == nil {
		l.Attempt = a
		b.alive = append(b.alive, &l)
	}
	return err == nil
}

func (b *model) reserve(r *rapid.T) {
	l := live{run: b.scan(r).run, price: pagePrice, request: statetest.SearchRequest("0")}
	if b.attempt(r, ledger.Purchase{}, l, b.held[""]+pagePrice <= b.limit) {
		b.book(l.run, pagePrice)
	}
}

// live reports whether a scan of the same may be under way.
func (b *model) live(s *scanning) bool {
	return slices.ContainsFunc(b.scans, func(other *scanning) bool {
		return other.what == s.what && slices.Contains([]runs.ScanState{runs.ScanIntended, runs.ScanUnknown, runs.ScanRunning}, other.state)
	})
}

// join lets a run wait for the scan of the other one, which must succeed exactly if the
// service has that and reading it fits.
func (b *model) join(r *rapid.T) {
	s, other := b.scans[0], b.scans[1]
	if rapid.Bool().Draw(r, "the first") {
		s, other = other, s
	}
	if s.what != other.what || s.state != "" || s.joined != nil || s.ended {
		return
	}
	hold := rapid.SampledFrom([]outlier.Credits{1, 4, 6}).Draw(r, "hold")
	err := b.s.Scans.Join(ledger.Purchase{
		Job: b.job, Run: s.run, Step: s.step, Hold: hold,
		Caps: func(time.Time) []ledger.Cap { return []ledger.Cap{b.cap()} },
	}, other.intent)
	if may := other.state == runs.ScanRunning && b.held[""]+hold <= b.limit; may != (err == nil) {
		r.Fatalf("holding %d of %d, joining a scan that is %q with a hold of %d got %v",
			b.held[""], b.limit, other.state, hold, err)
	}
	if err == nil {
		s.joined, s.hold = other, &setAside{rest: hold, open: true}
		b.book(s.run, hold)
	}
}

// start intends a scan if none may be under way, and tries to start it in any case.
func (b *model) start(r *rapid.T) {
	s := b.scan(r)
	if s.joined != nil {
		return
	}
	standing := b.live(s)
	err := b.s.DB.Update(func(tx *store.Tx) error {
		id, err := b.s.Scans.Intend(tx, runs.Scan{Run: s.run, Job: b.job, Step: s.step, Queries: []string{s.what}, Price: scanPrice})
		if err == nil {
			s.intent = id
		}
		return err
	})
	refused := store.IsConstraint(err)
	if refused != standing || refused != (err != nil) {
		r.Fatalf("while the scan is %q, a second intent got %v", s.state, err)
	}
	if err == nil {
		s.state, s.charged = runs.ScanIntended, false
	}
	hold := rapid.SampledFrom([]outlier.Credits{0, 1, 4, 6}).Draw(r, "hold")
	request := statetest.ScanFor(scanPrice)
	l := live{run: s.run, price: scanPrice, request: request, starts: s, garbled: rapid.Bool().Draw(r, "garbled")}
	if hold > 0 {
		l.made = &setAside{rest: hold, open: true}
	}
	p := ledger.Purchase{Step: s.step, Intent: s.intent, Hold: hold, Commit: b.keep(&l)}
	may := s.state == runs.ScanIntended && !b.starting(s) && b.held[""]+scanPrice+hold <= b.limit
	if b.attempt(r, p, l, may) {
		b.book(s.run, scanPrice+hold)
		if l.made != nil {
			s.hold = l.made
		}
	}
}

// keep does what the engine does with the answer to a scan's start.
func (b *model) keep(l *live) func(*store.Tx, ledger.Kept) error {
	scan := runs.Scan{Intent: l.starts.intent, State: runs.ScanRunning, ScanID: fmt.Sprint("scan-", b.checks, "-", l.starts.intent)}
	return func(tx *store.Tx, k ledger.Kept) error {
		if k.Outcome != outlier.Charged || l.garbled {
			return nil
		}
		return runs.SaveScan(tx, scan)
	}
}

// read takes a page's price from the hold, or from the periods if the hold is used up.
func (b *model) read(r *rapid.T) {
	s := b.scan(r)
	l := live{run: s.run, price: pagePrice, request: statetest.SearchRequest("0")}
	covered := s.hold.open && s.hold.rest >= pagePrice
	if covered {
		l.drawn = s.hold
	}
	if !b.attempt(r, ledger.Purchase{Step: s.step, FromHold: s.step}, l, covered || b.held[""]+pagePrice <= b.limit) {
		return
	}
	if covered {
		s.hold.rest -= pagePrice
	} else {
		b.book(l.run, pagePrice)
	}
}

func (b *model) release(r *rapid.T) {
	s := b.scan(r)
	if err := b.s.DB.Update(func(tx *store.Tx) error { return ledger.Release(tx, s.step) }); err != nil {
		r.Fatal(err)
	}
	b.letGo(s)
}

// end ends a run for good. What it still holds comes back.
func (b *model) end(r *rapid.T) {
	s := b.scan(r)
	if err := b.s.Finish(runs.Run{ID: s.run, Status: rapid.SampledFrom([]runs.Status{runs.OK, runs.Partial}).Draw(r, "status")}); err != nil {
		r.Fatal(err)
	}
	s.ended = true
	b.letGo(s)
}

// letGo releases what may be released of a hold: nothing while the start of its scan is not confirmed.
func (b *model) letGo(s *scanning) {
	if s.state != runs.ScanUnknown {
		b.close(s.run, s.hold)
	}
}

// take picks an open attempt, nil if there is none.
func (b *model) take(r *rapid.T) *live {
	if len(b.alive) == 0 {
		return nil
	}
	i := rapid.IntRange(0, len(b.alive)-1).Draw(r, "which")
	l := b.alive[i]
	b.alive = slices.Delete(b.alive, i, i+1)
	return l
}

func (b *model) send(r *rapid.T) {
	l := b.take(r)
	if l == nil {
		return
	}
	if err := l.Sending(); (err != nil) != l.sent {
		r.Fatalf("Sending, marked before: %v, got %v", l.sent, err)
	}
	l.sent = true
	if l.starts != nil {
		l.starts.state = runs.ScanUnknown
	}
	b.alive = append(b.alive, l)
}

func (b *model) settle(r *rapid.T) {
	l := b.take(r)
	if l == nil {
		return
	}
	answer, outcome := &outlier.Answer{Request: l.request}, outlier.Refunded
	if l.sent {
		switch rapid.SampledFrom([]outlier.Outcome{outlier.Charged, outlier.Refunded, outlier.Unknown}).Draw(r, "outcome") {
		case outlier.Charged:
			answer, outcome = statetest.AnswerTo(l.request, `{}`), outlier.Charged
		case outlier.Refunded:
			answer = statetest.ErrorTo(l.request, 429, outlier.Limited)
		case outlier.Unknown:
			answer, outcome = statetest.Lost(l.request), outlier.Unknown
		}
	}
	if err := l.Settle(answer, outcome); err != nil {
		r.Fatalf("Settle: %v", err)
	}
	if outcome == outlier.Refunded {
		b.refund(l)
	}
	b.settleScan(l, outcome)
}

func (b *model) settleScan(l *live, o outlier.Outcome) {
	switch {
	case l.starts == nil:
	case o == outlier.Refunded:
		l.starts.state = runs.ScanIntended
	case o == outlier.Charged:
		l.starts.charged = true
		if !l.garbled {
			l.starts.state = runs.ScanRunning
		}
	}
}

// operate settles an unknown scan as a person would.
func (b *model) operate(r *rapid.T) {
	s := b.scan(r)
	to := runs.Scan{State: runs.ScanNotCreated}
	if rapid.Bool().Draw(r, "found") {
		to = runs.Scan{State: runs.ScanRunning, ScanID: fmt.Sprint("found-", b.checks, "-", s.intent)}
	}
	_, err := b.s.Scans.Settle(s.intent, to)
	if may := s.state == runs.ScanUnknown && !b.starting(s); may != (err == nil) {
		r.Fatalf("while the scan is %q, an operator's word got %v", s.state, err)
	}
	if err != nil {
		return
	}
	s.state = to.State
	if to.State == runs.ScanNotCreated {
		if !s.charged {
			b.book(s.run, -scanPrice)
		}
		b.close(s.run, s.hold)
	}
	if s.ended { // the adopted scan is not read
		b.close(s.run, s.hold)
	}
}

// rename goes on under another name, which must make no difference.
func (b *model) rename(r *rapid.T) {
	to := b.job + "'"
	if err := b.s.Rename(b.job, to); err != nil {
		r.Fatal(err)
	}
	b.job = to
}

// kill goes on with the store as another process would find it: what was never
// marked as sent comes back, what was stays held.
func (b *model) kill(r *rapid.T) {
	if rapid.IntRange(0, 9).Draw(r, "rarely") > 0 {
		return // opening takes longer than all else together
	}
	killed := statetest.CopyFolder(b.t, b.s.DB.Dir())
	if err := b.s.Close(); err != nil {
		r.Fatal(err)
	}
	b.s = statetest.Hasty(b.t, statetest.Open(b.t, killed))
	for _, l := range b.alive {
		if !l.sent {
			b.refund(l)
		}
	}
	b.alive = nil
	for _, s := range b.scans {
		if s.state == runs.ScanIntended {
			s.state = runs.ScanRefused
		}
	}
}
