package pace

import (
	"testing"
	"time"

	"pgregory.net/rapid"
)

// anything draws a reading such as no sane service would give, with limits up to most.
func anything(t *rapid.T, most int) reading {
	seconds := func(name string, from int) time.Duration {
		return time.Duration(rapid.IntRange(from, 86_400).Draw(t, name)) * time.Second
	}
	r := reading{
		refused: rapid.IntRange(0, 9).Draw(t, "refused") == 0,
		limit:   rapid.IntRange(-1, most).Draw(t, "limit"), remaining: rapid.IntRange(-1, 12).Draw(t, "remaining"),
		current: rapid.IntRange(-1, 40).Draw(t, "current"), reset: -1,
	}
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

// Whatever the answers say: no more requests leave than configured, unless answers that count
// have proved more; and the next request may always leave within days.
func TestNoAnswersMakeItExceedTheBeliefOrSleepForEver(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		c := &core{quota: tenAMinute}
		now := simulationStart
		var left []time.Time
		for range rapid.IntRange(1, 120).Draw(t, "requests") {
			c.forget(now)
			next := c.slot(now, 1)
			if wait := next.Sub(now); wait < 0 || wait > 3*24*time.Hour {
				t.Fatalf("the next request waits for %v", wait)
			}
			now = next
			c.grant(now)
			left = append(left, now)
			sent := now
			now = now.Add(time.Duration(rapid.IntRange(0, 2000).Draw(t, "latency")) * time.Millisecond)
			r := anything(t, 10)
			if rapid.Bool().Draw(t, "boasts") {
				r.limit, r.remaining = 1000, 999 // and never counts what is used
			}
			c.observe(now, sent, r)
		}
		for i := tenAMinute.Requests; i < len(left); i++ {
			if span := left[i].Sub(left[i-tenAMinute.Requests]); span < tenAMinute.Window {
				t.Fatalf("eleven requests within %v", span)
			}
		}
	})
}

// After calls in any order the number in flight is right, and the file that was written can
// be read.
func TestMemoryOutlivesAnything(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		c := &core{quota: tenAMinute}
		now := simulationStart
		for range rapid.IntRange(1, 60).Draw(t, "steps") {
			now = now.Add(time.Duration(rapid.IntRange(0, 100_000).Draw(t, "pause")) * time.Millisecond)
			c.notAfter(now)
			c.forget(now)
			switch free := !c.slot(now, 1).After(now); {
			case free && rapid.Bool().Draw(t, "go"):
				c.grant(now)
			case c.inFlight > 0 && rapid.Bool().Draw(t, "unsent"):
				c.unsent()
			case c.inFlight > 0:
				ago := time.Duration(rapid.IntRange(0, 5000).Draw(t, "ago")) * time.Millisecond
				c.observe(now, now.Add(-ago), anything(t, 40))
			}
		}
		c.prepaid = 0
		text, err := c.text("owner")
		if err != nil {
			t.Fatal(err)
		}
		n, ok := parse(text)
		if !ok || n.Out != c.inFlight {
			t.Fatalf("%s is not understood", text)
		}
		again := &core{quota: tenAMinute}
		again.resume(n, now)
		if was, is := c.slot(now, 1), again.slot(now, 1); is.Before(was) && c.inFlight == 0 {
			t.Fatalf("a restart makes the next request leave at %v instead of %v", is, was)
		}
	})
}
