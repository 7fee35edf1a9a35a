package pace

import (
	"testing"
	"testing/synctest"
	"time"
)

// TestPollReturnsWhenOneMayLeave: a poll at that time does not wait, and the next one keeps the polls
// within their share.
func TestPollReturnsWhenOneMayLeave(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, err := Open(Quota{Requests: 10, Window: time.Minute}, Options{})
		if err != nil {
			t.Fatal(err)
		}
		if at := l.Poll(); at.After(time.Now()) {
			t.Errorf("the first poll has to wait until %s, want no wait", at)
		}
		for range 3 {
			time.Sleep(time.Until(l.Poll()))
			began := time.Now()
			if err := l.Wait(t.Context(), aPoll); err != nil {
				t.Fatal(err)
			}
			if waited := time.Since(began); waited > 0 {
				t.Errorf("a poll waited %s, want no wait", waited)
			}
			if pause := time.Until(l.Poll()); pause != 2*time.Minute {
				t.Errorf("the next poll in %s, want 2m: one of 20 requests", pause)
			}
		}
	})
}
