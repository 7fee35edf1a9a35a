package ledger

import (
	"testing"
	"testing/synctest"
	"time"
)

// TestJumpOfTheMachinesClockEndsTheAgreement: what was counted since may be wrong, as time
// does not count while a machine sleeps.
func TestJumpOfTheMachinesClockEndsTheAgreement(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := New(nil, nil, time.UTC, 1)
		for _, jump := range []time.Duration{-time.Hour, time.Hour} {
			l.ConfirmClock()
			time.Sleep(time.Hour)
			if !l.ClockAgreed() {
				t.Error("an hour in which nothing happened has ended the agreement")
			}
			before := l.ServiceTime()
			l.clock.wall = l.clock.wall.Add(-jump)
			if l.ClockAgreed() || !l.ServiceTime().Equal(before) {
				t.Errorf("after a jump of %v it is %s and was %s, agreed on: %v", jump, l.ServiceTime(), before, l.ClockAgreed())
			}
			l.learnDate(before)
			if !l.ClockAgreed() {
				t.Error("the next answer has not told the time")
			}
		}
	})
}
