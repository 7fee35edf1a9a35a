package pace

import (
	"path/filepath"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"outlierd/outlier"
)

// openAs makes a limiter of an owner whose calls wait as long as it takes.
func openAs(t *testing.T, owner, path string) *Limiter {
	t.Helper()
	l, err := Open(tenAMinute, Options{Path: path, Owner: owner, MaxWait: day})
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// lower is a refusal that teaches a lower limit and blocks for five minutes.
func lower() *outlier.Answer {
	return refusal(&outlier.Rate{Limit: 5, Current: 6, Reset: time.Now().Add(5 * time.Minute)}, nil)
}

func TestBlockOfTheLastKeyDoesNotHoldTheNewOne(t *testing.T) {
	path := filepath.Join(t.TempDir(), "pace.json")
	synctest.Test(t, func(t *testing.T) {
		l := openAs(t, "old", path)
		drain(t, l, 3)
		ask(t, l, lower())
		var waiting sync.WaitGroup
		waiting.Go(func() { drain(t, l, 1) })
		synctest.Wait()
		changed := time.Now()
		l.Own("new")
		waiting.Wait()
		if held := time.Since(changed); held != 0 {
			t.Errorf("a call that waited was held for %v more", held)
		}
		if s := l.Status(); s.Limit != 10 || s.Remaining != 9 || s.Foreign != 0 || !s.BlockedUntil.IsZero() {
			t.Errorf("status is %+v", s)
		}
	})
}

func TestNextProcessFindsTheWindowOfTheNewKeyAlone(t *testing.T) {
	path := filepath.Join(t.TempDir(), "pace.json")
	synctest.Test(t, func(t *testing.T) {
		l := openAs(t, "old", path)
		ask(t, l, lower())
		l.Own("new")
		if s := openAs(t, "old", path).Status(); s.Remaining != 10 || !s.BlockedUntil.IsZero() {
			t.Errorf("the file is still the last owner's: %+v", s)
		}
		drain(t, l, 7)
		if s := openAs(t, "new", path).Status(); s.Remaining != 3 {
			t.Errorf("after 7 of 10 a restart finds %d", s.Remaining)
		}
		if s := openAs(t, "old", path).Status(); s.Remaining != 10 {
			t.Errorf("after 7 of 10 of the new key, a restart with the last one finds %d", s.Remaining)
		}
	})
}

func TestSameKeyKeepsItsBlock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := openAs(t, "key", "")
		ask(t, l, lower())
		was := l.Status()
		l.Own("key")
		if s := l.Status(); s != was || s.BlockedUntil.IsZero() {
			t.Errorf("status is %+v, was %+v", s, was)
		}
	})
}

// Until it completes it keeps its slot, as it may not have left yet.
func TestAnswerToTheLastKeyTeachesTheNewOneNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := openAs(t, "old", "")
		if err := l.Wait(t.Context(), details); err != nil {
			t.Fatal(err)
		}
		sent := time.Now()
		time.Sleep(time.Second)
		l.Own("new")
		if s := l.Status(); s.Remaining != 9 {
			t.Errorf("with one under way, %d may leave", s.Remaining)
		}
		a := lower()
		a.SentAt = sent
		l.Observe(a)
		if s := l.Status(); s.Limit != 10 || s.Remaining != 10 || !s.BlockedUntil.IsZero() {
			t.Errorf("status is %+v", s)
		}
	})
}
