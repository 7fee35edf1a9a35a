package pace

import (
	"path/filepath"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"outlierd/outlier"
)

// openAs opens a limiter for an owner. Its calls wait for up to a day.
func openAs(t *testing.T, owner, path string) *Limiter {
	t.Helper()
	l, err := Open(tenAMinute, Options{Path: path, Owner: owner, MaxWait: day})
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// lowerLimit returns a refusal that states a lower limit and blocks for five minutes.
func lowerLimit() *outlier.Answer {
	return refusal(&outlier.Rate{Limit: 5, Current: 6, Reset: time.Now().Add(5 * time.Minute)}, nil)
}

// A new key starts with the configured limit and without the block of the old key.
func TestNewKeyIgnoresOldBlock(t *testing.T) {
	path := filepath.Join(t.TempDir(), "pace.json")
	synctest.Test(t, func(t *testing.T) {
		l := openAs(t, "old", path)
		drain(t, l, 3)
		ask(t, l, lowerLimit())
		var waiting sync.WaitGroup
		waiting.Go(func() { drain(t, l, 1) })
		synctest.Wait()
		changed := time.Now()
		l.Own("new")
		waiting.Wait()
		if waited := time.Since(changed); waited != 0 {
			t.Errorf("a waiting call left %v after the change of the key, want at once", waited)
		}
		if s := l.Status(); s.Limit != 10 || s.Remaining != 9 || s.Foreign != 0 || !s.BlockedUntil.IsZero() {
			t.Errorf("status is %+v, want limit 10, 9 remaining, no other clients, no block", s)
		}
	})
}

func TestFileKeepsOnlyNewKeysWindow(t *testing.T) {
	path := filepath.Join(t.TempDir(), "pace.json")
	synctest.Test(t, func(t *testing.T) {
		l := openAs(t, "old", path)
		ask(t, l, lowerLimit())
		l.Own("new")
		if s := openAs(t, "old", path).Status(); s.Remaining != 10 || !s.BlockedUntil.IsZero() {
			t.Errorf("with the old key, status is %+v, want 10 remaining and no block", s)
		}
		drain(t, l, 7)
		if s := openAs(t, "new", path).Status(); s.Remaining != 3 {
			t.Errorf("after 7 of 10 requests and a restart, %d remain, want 3", s.Remaining)
		}
		if s := openAs(t, "old", path).Status(); s.Remaining != 10 {
			t.Errorf("after 7 of 10 requests and a restart with the old key, %d remain, want 10", s.Remaining)
		}
	})
}

func TestSameKeyKeepsItsBlock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := openAs(t, "key", "")
		ask(t, l, lowerLimit())
		was := l.Status()
		l.Own("key")
		if s := l.Status(); s != was || s.BlockedUntil.IsZero() {
			t.Errorf("status is %+v, want %+v as before, with a block", s, was)
		}
	})
}

// TestOldKeysAnswerIsIgnored: until the call completes it keeps its slot, because it may be sent with the new
// key.
func TestOldKeysAnswerIsIgnored(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := openAs(t, "old", "")
		if err := l.Wait(t.Context(), details); err != nil {
			t.Fatal(err)
		}
		sent := time.Now()
		time.Sleep(time.Second)
		l.Own("new")
		if s := l.Status(); s.Remaining != 9 {
			t.Errorf("with one call in flight, %d remain, want 9", s.Remaining)
		}
		a := lowerLimit()
		a.SentAt = sent
		l.Observe(a)
		if s := l.Status(); s.Limit != 10 || s.Remaining != 10 || !s.BlockedUntil.IsZero() {
			t.Errorf("status is %+v, want limit 10, 10 remaining, no block", s)
		}
	})
}
