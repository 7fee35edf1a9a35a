package pace

import (
	"testing"
	"time"

	"pgregory.net/rapid"
)

// anyReading draws a reading, however implausible, with limits up to most.
func anyReading(t *rapid.T, most int) reading {
	seconds := func(name string, from int) time.Duration {
		return time.Duration(rapid.IntRange(from, 86_400).Draw(t, name)) * time.Second
	}
	r := reading{policy: noPolicy, refused: rapid.IntRange(0, 9).Draw(t, "refused") == 0}
	r.limit, r.remaining = rapid.IntRange(-1, most).Draw(t, "limit"), rapid.IntRange(-1, 12).Draw(t, "remaining")
	r.current = rapid.IntRange(-1, 40).Draw(t, "current")
	r.answered = !r.refused
	if rapid.Bool().Draw(t, "has reset") {
		r.reset = seconds("reset", 0)
	}
	if rapid.IntRange(0, 3).Draw(t, "has window") == 0 {
		r.window = seconds("window", 60)
	}
	if rapid.IntRange(0, 9).Draw(t, "has retry") == 0 {
		r.retry = seconds("retry", 0)
	}
	return r
}

// TestAnyAnswersKeepQuotaAndProgress: whatever the answers say, requests stay within the configured quota,
// unless their counts prove a higher one, and the next request may leave within 3 days.
func TestAnyAnswersKeepQuotaAndProgress(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		c := newCore(tenAMinute, 0)
		now := simulationStart
		var left []time.Time
		for range rapid.IntRange(1, 120).Draw(t, "requests") {
			c.dropExpired(now)
			next := c.nextSlot(now, 1)
			if wait := next.Sub(now); wait < 0 || wait > 3*24*time.Hour {
				t.Fatalf("the next request waits for %v, want 0 to 3 days", wait)
			}
			now = next
			c.recordGrant(now)
			left = append(left, now)
			sent := now
			now = now.Add(time.Duration(rapid.IntRange(0, 2000).Draw(t, "latency")) * time.Millisecond)
			r := anyReading(t, 10)
			if rapid.Bool().Draw(t, "claims more") {
				r.limit, r.remaining = 1000, 999 // whatever was used: this proves nothing
			}
			c.learnFrom(now, sent, r)
		}
		for i := tenAMinute.Requests; i < len(left); i++ {
			if span := left[i].Sub(left[i-tenAMinute.Requests]); span < tenAMinute.Window {
				t.Fatalf("11 requests within %v, want at most 10 within %v", span, tenAMinute.Window)
			}
		}
	})
}

// TestFileRestoresAnyState: after any sequence of calls the file has the number in flight, and a restart does
// not let a request leave earlier.
func TestFileRestoresAnyState(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		c := newCore(tenAMinute, 0)
		now := simulationStart
		for range rapid.IntRange(1, 60).Draw(t, "steps") {
			now = now.Add(time.Duration(rapid.IntRange(0, 100_000).Draw(t, "pause")) * time.Millisecond)
			c.dropExpired(now)
			switch free := !c.nextSlot(now, 1).After(now); {
			case free && rapid.Bool().Draw(t, "go"):
				c.recordGrant(now)
			case c.inFlight > 0 && rapid.Bool().Draw(t, "unsent"):
				c.inFlight--
			case c.inFlight > 0:
				ago := time.Duration(rapid.IntRange(0, 5000).Draw(t, "ago")) * time.Millisecond
				c.learnFrom(now, now.Add(-ago), anyReading(t, 40))
			}
		}
		c.prepaid = 0
		text, err := c.encodeFile("owner")
		if err != nil {
			t.Fatal(err)
		}
		n, ok := parseFile(text)
		if !ok || n.Out != c.inFlight {
			t.Fatalf("%s is parsed: %t, with %d in flight, want %d", text, ok, n.Out, c.inFlight)
		}
		again := newCore(tenAMinute, 0)
		again.resumeFrom(n, now)
		if want, got := c.nextSlot(now, 1), again.nextSlot(now, 1); got.Before(want) && c.inFlight == 0 {
			t.Fatalf("after a restart the next request leaves at %v, want no earlier than %v", got, want)
		}
	})
}
