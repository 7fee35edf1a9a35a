package page

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// TestCreditsLeftFallByDay as the jobs spent, and end at what the ledger says, which knows of other spending, too.
func TestCreditsLeftFallByDay(t *testing.T) {
	at := func(day, hour int) time.Time { return time.Date(2026, 11, day, hour, 0, 0, 0, time.UTC) }
	m := &Money{Cycle: &Cycle{From: at(1, 0), To: at(30, 0), Now: at(5, 12), Max: 100, Left: 60}, Days: []Spending{
		{at(2, 0), []string{"coffee", "tea"}, []int64{10, 5}}, {at(4, 0), []string{"tea"}, []int64{10}}, {at(5, 0), []string{"tea"}, []int64{5}},
	}}
	want := [][]string{{"2026-11-05 12:00", "60"}, {"2026-11-05 00:00", "75"}, {"2026-11-04 00:00", "85"},
		{"2026-11-03 00:00", "85"}, {"2026-11-02 00:00", "100"}, {"2026-11-01 00:00", "100"}}
	if diff := cmp.Diff(want, m.Left().Rows); diff != "" {
		t.Errorf("credits left (-want +got):\n%s", diff)
	}
}
