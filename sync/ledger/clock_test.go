package ledger

import (
	"testing"
	"testing/synctest"
	"time"
)

// TestClockJumpEndsAgreement with the service: the time counted since may be wrong, as time does not count
// while a machine sleeps.
func TestClockJumpEndsAgreement(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		clock := New(nil, time.UTC, 1).Clock
		for _, jump := range []time.Duration{-time.Hour, time.Hour} {
			clock.Confirm()
			time.Sleep(time.Hour)
			if !clock.Agreed() {
				t.Error("an hour in which nothing happened has ended the agreement")
			}
			before := clock.Now()
			clock.wall = clock.wall.Add(-jump)
			if clock.Agreed() || !clock.Now().Equal(before) {
				t.Errorf("after a jump of %v it is %s and was %s, agreed on: %v", jump, clock.Now(), before, clock.Agreed())
			}
			clock.learnDate(before)
			if !clock.Agreed() {
				t.Error("the next answer has not told the time")
			}
		}
	})
}
