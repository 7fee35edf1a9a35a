package state_test

import (
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"

	"outlierd/outlier"
	"outlierd/sync/ledger"
	"outlierd/sync/state"
	"outlierd/sync/store"
)

// TestCalendarChangeCountsSpendingOnce edits budget.renews and timezone at random, also back, and buys and
// waits in between: every current period holds exactly what was reserved within it, also for a reader.
func TestCalendarChangeCountsSpendingOnce(t *testing.T) {
	t.Parallel()
	fresh := newFolder(t)
	checks := 0
	rapid.Check(t, func(r *rapid.T) {
		checks++
		c := &calendars{
			t: t, zones: fresh.zones, dir: filepath.Join(fresh.home, fmt.Sprint("calendars-", checks)), options: options(r, fresh.zones),
			now: time.Date(2040, 1, 1, 12, 0, 30, 0, time.UTC), holds: map[int64]*spending{},
		}
		if err := fresh.write(c.dir); err != nil {
			r.Fatal(err)
		}
		c.open(r)
		defer func() { c.close(r) }()
		r.Repeat(map[string]func(*rapid.T){
			"buy": c.buy, "set aside": c.setAside, "read": c.read, "release": c.release, "adjust": c.adjust,
			"wait": c.wait, "edit": c.edit, "look": c.look, "": func(r *rapid.T) { c.check(r, c.store) },
		})
	})
}

func options(r *rapid.T, zones []*time.Location) state.Options {
	return state.Options{
		Location: rapid.SampledFrom(zones).Draw(r, "timezone"), Renews: rapid.IntRange(1, 31).Draw(r, "renews"),
		Options: store.Options{MinFree: 8, FreeSpace: func(string) (uint64, error) { return 1 << 40, nil }},
	}
}

// calendars is a store, and what was spent with it.
type calendars struct {
	t       *testing.T
	zones   []*time.Location
	dir     string
	options state.Options
	store   *state.Store
	now     time.Time // at the service; half a minute from any day's beginning

	steps int64
	holds map[int64]*spending // what is left of them, by their steps
	spent []*spending
}

func (c *calendars) open(r *rapid.T) {
	var err error
	if c.store, err = state.Open(c.t.Context(), c.dir, c.options); err != nil {
		r.Fatal(err)
	}
	c.tell(r)
}

// tell records the service's time from two answers, because one alone might be wrong.
func (c *calendars) tell(r *rapid.T) {
	for range 2 {
		request, err := outlier.DataRequest(outlier.OpDetails, "dQw4w9WgXcQ")
		if err != nil {
			r.Fatal(err)
		}
		a, err := c.store.Ledger.Meter(ledger.Purchase{}).Reserve(c.t.Context(), request)
		if err == nil {
			err = a.Sending()
		}
		if err == nil {
			date := http.Header{"Date": {c.now.Format(http.TimeFormat)}}
			err = a.Settle(&outlier.Answer{Request: request, Status: http.StatusOK, Header: date, Body: []byte(`{}`)}, outlier.Charged)
		}
		if err != nil {
			r.Fatal(err)
		}
	}
}

func (c *calendars) close(r *rapid.T) {
	if err := c.store.Close(); err != nil {
		r.Fatal(err)
	}
}

func (c *calendars) note(account string, n outlier.Credits) *spending {
	one := &spending{account: account, at: c.store.Clock.Now(), credits: n}
	if account != "" {
		one.run = account + "-run"
	}
	c.spent = append(c.spent, one)
	return one
}

// attempt makes a call of 2 credits, and reports whether they stay spent.
func (c *calendars) attempt(r *rapid.T, p ledger.Purchase) bool {
	request, err := outlier.NewRequest(outlier.OpSearch, url.Values{"query": {"chess"}, "from": {"0"}, "size": {"40"}}, nil)
	if err != nil {
		r.Fatal(err)
	}
	a, err := c.store.Ledger.Meter(p).Reserve(c.t.Context(), request)
	if err == nil {
		err = a.Sending()
	}
	answer, outcome := &outlier.Answer{Request: request, Status: http.StatusOK, Body: []byte(`{}`), SentAt: time.Now()}, outlier.Charged
	if rapid.IntRange(0, 3).Draw(r, "refund") == 0 {
		answer.Status, outcome = http.StatusBadRequest, outlier.Refunded
	}
	if err == nil {
		err = a.Settle(answer, outcome)
	}
	if err != nil {
		r.Fatal(err)
	}
	return outcome == outlier.Charged
}

func anyJob(r *rapid.T) string { return rapid.SampledFrom([]string{"ideas", "rivals"}).Draw(r, "job") }

func (c *calendars) buy(r *rapid.T) {
	job := anyJob(r)
	one := c.note(job, 2)
	if !c.attempt(r, ledger.Purchase{Run: one.run, Job: job}) {
		one.credits = 0
	}
}

// setAside buys with a hold of 4 more, which ends with a refund.
func (c *calendars) setAside(r *rapid.T) {
	job := anyJob(r)
	c.steps++
	one, hold := c.note(job, 2), c.note(job, 4)
	if c.attempt(r, ledger.Purchase{Run: one.run, Job: job, Step: c.steps, Hold: 4}) {
		c.holds[c.steps] = hold
	} else {
		one.credits, hold.credits = 0, 0
	}
}

// read draws from the newest hold. What it draws counts for the time of the hold.
func (c *calendars) read(r *rapid.T) {
	hold := c.holds[c.steps]
	if hold == nil || hold.credits < 2 {
		return
	}
	if c.attempt(r, ledger.Purchase{Run: hold.run, Job: hold.account, Step: c.steps, FromHold: c.steps}) {
		hold.credits -= 2
		c.spent = append(c.spent, &spending{hold.run, hold.account, hold.at, 2})
	}
}

func (c *calendars) release(r *rapid.T) {
	if err := c.store.DB.Update(func(tx *store.Tx) error { return ledger.Release(tx, c.steps) }); err != nil {
		r.Fatal(err)
	}
	if hold := c.holds[c.steps]; hold != nil {
		hold.credits = 0
	}
}

func (c *calendars) adjust(r *rapid.T) {
	n := outlier.Credits(rapid.SampledFrom([]int{-5, 3, 9}).Draw(r, "credits"))
	c.note("", n)
	if err := c.store.Ledger.Adjust(n, "elsewhere"); err != nil {
		r.Fatal(err)
	}
}

func (c *calendars) wait(r *rapid.T) {
	c.now = c.now.Add(rapid.SampledFrom([]time.Duration{time.Minute, 5 * time.Hour, 26 * time.Hour, 12 * 24 * time.Hour}).Draw(r, "wait"))
	c.tell(r)
}

func (c *calendars) edit(r *rapid.T) {
	c.close(r)
	c.options = options(r, c.zones)
	c.open(r)
}

// look reads the state as `plan` does, before the next process has opened it.
func (c *calendars) look(r *rapid.T) {
	o := options(r, c.zones)
	seen, err := state.Peek(c.t.Context(), c.dir, o)
	if err != nil {
		r.Fatal(err)
	}
	was := c.options
	c.options = o
	c.check(r, seen)
	c.options = was
	if err := seen.Close(); err != nil {
		r.Fatal(err)
	}
}

// check holds the present periods against what was spent within them.
func (c *calendars) check(r *rapid.T, s *state.Store) {
	now := s.Clock.Now()
	day, cycle := ledger.Day(now, c.options.Location), ledger.Cycle(now, c.options.Location, c.options.Renews)
	for _, account := range []string{"ideas", "rivals"} {
		for _, p := range ledger.Periods(account+"-run", account, day, cycle) {
			var want outlier.Credits
			for _, one := range c.spent {
				if c.counts(one, p, account, now) {
					want += one.credits
				}
			}
			if got, err := s.Ledger.Held(ledger.Cap{Scope: p.Scope, Period: p.Key}); err != nil || got != want {
				r.Fatalf("by days of %s and cycles from day %d, %s %s holds %d (%v), want %d",
					c.options.Location, c.options.Renews, p.Scope, p.Key, got, err, want)
			}
		}
	}
}

// counts reports whether something that was spent belongs to the present period p.
func (c *calendars) counts(one *spending, p ledger.Period, account string, now time.Time) bool {
	at, loc := one.at.In(c.options.Location), c.options.Location
	switch p.Scope {
	case ledger.ScopeRun:
		return one.run == p.Key
	case ledger.ScopeDay:
		return one.account != "" && at.Format(time.DateOnly) == now.In(loc).Format(time.DateOnly)
	case ledger.ScopeJobMonth:
		return one.account == account && ledger.Cycle(at, loc, c.options.Renews) == ledger.Cycle(now, loc, c.options.Renews)
	}
	return ledger.Cycle(at, loc, c.options.Renews) == ledger.Cycle(now, loc, c.options.Renews)
}

// TestCapsSurviveCalendarEdits: a used-up month of a job, and a used-up day, stay so under another name.
func TestCapsSurviveCalendarEdits(t *testing.T) {
	t.Parallel()
	auckland, err := time.LoadLocation("Pacific/Auckland")
	if err != nil {
		t.Fatal(err)
	}
	fresh := newFolder(t)
	for scope, change := range map[ledger.Scope]func(*state.Options){
		ledger.ScopeJobMonth: func(o *state.Options) { o.Renews = 15 },
		ledger.ScopeMonth:    func(o *state.Options) { o.Renews = 15 },
		ledger.ScopeDay:      func(o *state.Options) { o.Location = auckland },
	} {
		synctest.Test(t, func(t *testing.T) {
			time.Sleep((19*24 + 15) * time.Hour) // the 20th of January at 15:00, which is the 21st in Auckland
			o := state.Options{Location: time.UTC, Renews: 14, Options: store.Options{MinFree: 8, FreeSpace: func(string) (uint64, error) { return 1 << 40, nil }}}
			dir := filepath.Join(fresh.home, string(scope))
			if err := fresh.write(dir); err != nil {
				t.Fatal(err)
			}
			buyAll(t, dir, o, scope, 2)
			change(&o)
			buyAll(t, dir, o, scope, 0)
		})
	}
}

// buyAll makes calls of 2 credits until the cap of 4 on a period is reached.
func buyAll(t *testing.T, dir string, o state.Options, scope ledger.Scope, want int) {
	t.Helper()
	s, err := state.Open(t.Context(), dir, o)
	if err != nil {
		t.Fatal(err)
	}
	caps := func(at time.Time) []ledger.Cap {
		for _, p := range ledger.Periods("run-1", "ideas", ledger.Day(at, o.Location), ledger.Cycle(at, o.Location, o.Renews)) {
			if p.Scope == scope {
				return []ledger.Cap{{Scope: scope, Period: p.Key, Max: 4}}
			}
		}
		return nil
	}
	request, err := outlier.NewRequest(outlier.OpSearch, url.Values{"query": {"chess"}}, nil)
	bought := 0
	for err == nil {
		var a outlier.Attempt
		if a, err = s.Ledger.Meter(ledger.Purchase{Run: "run-1", Job: "ideas", Caps: caps}).Reserve(t.Context(), request); err == nil {
			bought++
			err = a.Sending()
		}
	}
	if bought != want {
		t.Errorf("%s: %d calls were paid for, want %d", scope, bought, want)
	}
	if full, ok := errors.AsType[*ledger.Exceeded](err); !ok || full.Held != 4 {
		t.Errorf("%s: %v", scope, err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
}
