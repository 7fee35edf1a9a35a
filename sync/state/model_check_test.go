package state

import (
	"pgregory.net/rapid"

	"outlierd/sync/credit"
	"outlierd/sync/store"
)

func (b *books) check(r *rapid.T) {
	for run, want := range b.held {
		period := b.cap()
		if run != "" {
			period = credit.Cap{Scope: credit.Run, Period: run}
			spend, err := b.s.Spent(run)
			if sum := spend.Charged + spend.Unknown + spend.Reserved + spend.Held; err != nil || sum != want {
				r.Fatalf("%s spent %+v (%v), want a sum of %d", run, spend, err, want)
			}
		}
		if got, err := b.s.Held(period); err != nil || got != want {
			r.Fatalf("%s %s holds %d (%v), want %d", period.Scope, period.Period, got, err, want)
		}
	}
	for _, s := range b.scans {
		b.checkScan(r, s)
	}
	if err := b.s.db.View(func(tx *store.Tx) error { _, err := b.s.ledger.Audit(tx); return err }); err != nil {
		r.Fatal(err)
	}
}

func (b *books) checkScan(r *rapid.T, s *scanning) {
	var state ScanState
	scan, err := b.s.ScanOf(s.step)
	if scan != nil {
		state = scan.State
	}
	if err != nil || state != s.state {
		r.Fatalf("the scan of %s is %q (%v), want %q", s.run, state, err, s.state)
	}
	if rest, err := b.s.HoldOf(s.step); err != nil || rest != s.hold.rest {
		r.Fatalf("%s holds %d (%v), want %d", s.run, rest, err, s.hold.rest)
	}
}
