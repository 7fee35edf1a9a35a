package pace

import (
	"testing"
	"testing/synctest"
	"time"
)

// TestPollTellsWhenOneMayLeave: a poll that is made then waits for nothing, and the next
// one may be made when the polls have had no more than their share.
func TestPollTellsWhenOneMayLeave(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, err := Open(Quota{Requests: 10, Window: time.Minute}, Options{})
		if err != nil {
			t.Fatal(err)
		}
		if at := l.Poll(); at.After(time.Now()) {
			t.Errorf("the first poll has to wait until %s", at)
		}
		for range 3 {
			time.Sleep(time.Until(l.Poll()))
			began := time.Now()
			if err := l.Wait(t.Context(), aPoll); err != nil {
				t.Fatal(err)
			}
			if waited := time.Since(began); waited > 0 {
				t.Errorf("a poll waited %s although it could leave", waited)
			}
			if pause := time.Until(l.Poll()); pause != 2*time.Minute {
				t.Errorf("the next poll in %s, want 2m: one of 20 requests", pause)
			}
		}
	})
}
