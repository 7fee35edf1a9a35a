package ledger_test

import (
	"errors"
	"testing"
	"time"

	"outlierd/outlier"
	"outlierd/sync/ledger"
	"outlierd/sync/state/statetest"
)

// TestAssistantCapIsWithinManualCap: each call of an assistant counts for both caps, and a manual call only
// for the second.
func TestAssistantCapIsWithinManualCap(t *testing.T) {
	t.Parallel()
	const assistant, person = "once:mcp:search", "once:search"
	now := time.Now()
	day := ledger.Cap{Scope: ledger.ScopeJobDay, Period: ledger.JobCycle(assistant, ledger.Day(now, time.UTC)), Max: 5}
	byHand := func(job string) ledger.Cap {
		return ledger.Cap{Scope: ledger.ScopeJobMonth, Period: ledger.JobCycle(job, ledger.Cycle(now, time.UTC, 1)), Max: 7}
	}
	for _, c := range []struct {
		buyers []string
		cap    ledger.Cap // that refuses one more call of an assistant
		held   outlier.Credits
	}{
		{[]string{assistant, assistant}, day, 4},
		{[]string{person, person, assistant}, byHand(assistant), 6},
	} {
		t.Run(string(c.cap.Scope), func(t *testing.T) {
			s := statetest.Open(t, t.TempDir())
			request := statetest.SearchRequest("0")
			purchase := func(job string) ledger.Purchase {
				caps := []ledger.Cap{byHand(job)}
				if job == assistant {
					caps = append(caps, day)
				}
				return ledger.Purchase{Run: "run-" + job, Job: job, Caps: func(time.Time) []ledger.Cap { return caps }}
			}
			for _, job := range c.buyers {
				statetest.Buy(t, s, purchase(job), statetest.AnswerTo(request, `{}`), outlier.Charged)
			}
			_, err := s.Ledger.Meter(purchase(assistant)).Reserve(t.Context(), request)
			refusal, ok := errors.AsType[*ledger.Exceeded](err)
			if !ok || refusal.Cap != c.cap || refusal.Held != c.held {
				t.Fatalf("one more call got %v, want a refusal by %v with %d held", err, c.cap, c.held)
			}
			statetest.CheckHeld(t, s, c.cap, c.held)
			statetest.Reserve(t, s, ledger.Purchase{Run: "run-2", Job: "ideas"}, request) // no job is affected
		})
	}
}
