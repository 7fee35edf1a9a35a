package state_test

import (
	"pgregory.net/rapid"

	"outlierd/sync/ledger"
	"outlierd/sync/runs"
	"outlierd/sync/state/statetest"
)

func (b *model) check(r *rapid.T) {
	for run, want := range b.held {
		period := b.cap()
		if run != "" {
			period = ledger.Cap{Scope: ledger.ScopeRun, Period: run}
			spend, err := b.s.Ledger.Spent(run)
			if sum := spend.Charged + spend.Unknown + spend.Reserved + spend.Held; err != nil || sum != want {
				r.Fatalf("%s spent %+v (%v), want a sum of %d", run, spend, err, want)
			}
		}
		if got, err := b.s.Ledger.Held(period); err != nil || got != want {
			r.Fatalf("%s %s holds %d (%v), want %d", period.Scope, period.Period, got, err, want)
		}
	}
	for _, s := range b.scans {
		b.checkScan(r, s)
	}
	if err := statetest.CompareBooks(b.s); err != nil {
		r.Fatal(err)
	}
}

func (b *model) checkScan(r *rapid.T, s *scanning) {
	var state runs.ScanState
	scan, err := b.s.Scans.OfStep(s.step)
	if scan != nil {
		state = scan.State
	}
	want := s.state
	if s.joined != nil {
		want = s.joined.state
	}
	if err != nil || state != want {
		r.Fatalf("the scan of %s is %q (%v), want %q", s.run, state, err, want)
	}
	if rest, err := b.s.Ledger.HoldOf(s.step); err != nil || rest != s.hold.rest {
		r.Fatalf("%s holds %d (%v), want %d", s.run, rest, err, s.hold.rest)
	}
}
