package state

import (
	"testing"
	"testing/synctest"
	"time"

	"outlierd/outlier"
	"outlierd/sync/credit"
)

// TestCycleThatBeginsOnAnotherDayKeepsWhatWasSpent: whoever edits budget.renews finds
// no fresh budget, however often.
func TestCycleThatBeginsOnAnotherDayKeepsWhatWasSpent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dir := t.TempDir()
		time.Sleep(19 * 24 * time.Hour) // the 20th of January
		on := func(day int, held outlier.Credits, work func(*Store)) {
			t.Helper()
			o := options()
			o.Renews, o.Location = day, time.UTC
			s, err := Open(t.Context(), dir, o)
			if err != nil {
				t.Fatal(err)
			}
			cap := credit.Cap{Scope: credit.AllMonth, Period: credit.Cycle(time.Now(), time.UTC, day)}
			if got, err := s.Held(cap); err != nil || got != held {
				t.Errorf("with cycles from day %d the cycle holds %d (%v), want %d", day, got, err, held)
			}
			work(s)
			if err := s.Close(); err != nil {
				t.Fatal(err)
			}
		}
		nothing := func(*Store) {}
		on(1, 0, func(s *Store) {
			if err := s.Adjust(30, "elsewhere"); err != nil {
				t.Fatal(err)
			}
		})
		on(15, 30, nothing)
		on(1, 30, nothing)
		on(15, 30, func(s *Store) {
			if err := s.Adjust(5, "elsewhere"); err != nil {
				t.Fatal(err)
			}
		})
		on(1, 35, nothing)
		on(1, 35, func(s *Store) {
			if err := s.Adjust(-50, "bought on top"); err != nil {
				t.Fatal(err)
			}
		})
		on(15, -15, nothing)
		on(1, -15, nothing)
		time.Sleep(5 * 24 * time.Hour)
		on(22, 0, nothing) // which is a cycle that began after all of it
		on(1, -15, nothing)
	})
}
