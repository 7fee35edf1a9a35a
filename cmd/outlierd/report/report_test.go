package report

import (
	"flag"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"outlierd/cmd/outlierd/term"
	"outlierd/outlier"
	"outlierd/sync/facts"
	"outlierd/sync/forecast"
	"outlierd/sync/job"
	"outlierd/sync/ledger"
	"outlierd/sync/plan"
	"outlierd/sync/queue"
	"outlierd/sync/runs"
	"outlierd/sync/store"
)

var update = flag.Bool("update", false, "rewrite the golden files")

func day(d, hour int) time.Time { return time.Date(2026, time.November, d, hour, 0, 0, 0, time.UTC) }

func estimate(credits, lost outlier.Credits, requests int, minutes float64) forecast.Estimate {
	return forecast.Estimate{Cost: plan.Cost{Credits: credits, Lost: lost, Requests: requests}, Minutes: minutes}
}

// unfinished has one run for each kind of fate.
var unfinished = []facts.Unfinished{
	{Run: runs.Run{ID: "01a1fe45-0000", Status: runs.Interrupted}, Fate: facts.Resume, Why: "it was cut short"},
	{Run: runs.Run{ID: "01a1fe44-0000", Status: runs.Failed}, Fate: facts.Wait, Why: "its own command or its job's next run continues it"},
	{Run: runs.Run{ID: "01a1fe43-0000", Status: runs.PausedBudget}, Fate: facts.ByHand, Why: "only its own command continues it"},
	{Run: runs.Run{ID: "01a1fe42-0000", Status: runs.Failed}, Fate: facts.Supersede, Why: "it is too old, and a new run covers the rest"},
}

// everyPlan has everything that a plan can show.
var everyPlan = forecast.Forecast{
	At: day(21, 12), Pace: "10/min",
	Refused: []ledger.Block{{Kind: ledger.BlockCredits, Reason: "no credits left\x1b[2J", Since: day(20, 8), Until: day(21, 8)}},
	Cycle: forecast.Cycle{
		From: day(14, 0), To: day(44, 0), Cap: new(outlier.Credits(380)), Reserve: 20, Held: 42,
		Wanted: 500, Worst: 540, Projected: 380, LastsTo: day(36, 0),
	},
	Jobs: []forecast.Job{
		{
			Job: "coffee", Due: []time.Time{day(23, 6), day(26, 6), day(30, 6)}, Runs: 7, Basis: 3, Round: 2, Share: new(outlier.Credits(8)),
			Expected: estimate(6, 6, 68, 6.8), Worst: estimate(8, 24, 103, 10.3),
			Searches: []forecast.Search{
				{Op: outlier.OpSearch, Item: "home espresso", Queries: []string{"home espresso"}, Window: "2026-11-07..", Pages: 2, Credits: 4,
					Filters: []string{"exclude_keyword giveaway, livestream", "language en, de", "subscribers_count ..500000", "z_score 2.."}, Sort: "published_at desc"},
				{Op: outlier.OpSearch, Item: "a", Queries: []string{"a very long question about coffee that goes on"}, Window: "2026-10-22..2026-11-21", Pages: 1, Credits: 2},
				{Op: outlier.OpSearch, Item: "latte art", Queries: []string{"latte art"}, Pages: 1, Credits: 2},
			},
			Cuts:    []forecast.Cut{{Cap: "the cap for the day 2026-11-23 (budget.per_day)", Max: 260, Held: 258, Leaves: 2, Wants: 8}},
			Changes: []string{`search ["latte art"]: where.z_score: 2.. → 3..; 'cursor reset' searches earlier dates again`},
		},
		{
			Job: "lookalikes", After: "coffee", Runs: 7, Basis: 1, Continues: "01a1fe45-0000", Unfinished: unfinished,
			Expected: estimate(2, 4, 1, 0.1), Worst: estimate(2, 4, 1, 0.1),
			Searches: []forecast.Search{{Op: outlier.OpRelated, Seeds: []string{"dQw4w9WgXcQ"}, Skipped: "fresh"}},
		},
		{
			Job: "niche", Expected: estimate(60, 80, 150, 15), Worst: estimate(60, 80, 150, 15),
			Searches: []forecast.Search{{Op: outlier.OpStartScan, Queries: []string{"espresso"}, Pages: 5, Credits: 60, Filters: []string{"z_score 3..\x1b[2J"}}},
		},
		{Job: "rivals", Due: []time.Time{day(22, 0)}, Runs: 66, Basis: 10, Calls: 3, Fresh: 1, Expected: estimate(0, 0, 3, 0.3), Worst: estimate(0, 0, 4, 0.4)},
		{Job: "saved", Due: []time.Time{day(22, 0)}, Runs: 1, Share: new(outlier.Credits(0))},
		{Job: "kin", After: "coffee", Runs: 7, Assumed: true, Expected: estimate(2, 6, 1, 0.1), Worst: estimate(2, 6, 1, 0.1),
			Searches: []forecast.Search{{Op: outlier.OpRelated, Seeds: []string{job.Assumed}, Pages: 1, Credits: 2}}},
		{Job: "niches", Due: []time.Time{day(22, 6)}, Runs: 9, Expected: estimate(6, 18, 3, 0.3), Worst: estimate(6, 18, 3, 0.3),
			Searches: []forecast.Search{{Op: outlier.OpSearch, Queries: []string{"matcha"}, Pages: 1, Credits: 2, Sort: "published_at desc"}},
			Auto: &plan.Auto{Price: 9.04, Room: 2, Most: 63, Greet: 21, Left: 63, Days: 9, Until: day(44, 0), Topics: 11, Choices: []plan.Choice{
				{Name: "matcha", Rate: 3, Expected: 30, Wait: -1, Every: 4, Pages: 1, AtLeast: 14, Due: plan.DueNew},
				{Name: "sourdough", Rate: 0.1, Expected: 1.2, Wait: 14, Every: 14, Pages: 1, AtLeast: 14, Due: plan.DuePromise},
				{Name: "a very long topic \x1b[2J that does not fit into its column", Rate: 31.5, Expected: 39, Wait: 2, Every: 2, Pages: 1, AtLeast: 14, Due: plan.DueEvery},
				{Name: "latte art", Rate: 2.2, Expected: 4, Wait: 2, Every: 5, Pages: 1, AtLeast: 14},
			}}},
		{Job: "broken", Disabled: true, Problem: "its SQL fails:\nno table"},
	},
	Orphans: []string{"mocha", "tea"},
}

func TestPlanForPeople(t *testing.T) {
	t.Parallel()
	got := Plan(&everyPlan, time.UTC, true)
	golden(t, "plan.golden", got)
	for line := range strings.Lines(got) {
		if n := term.Width(strings.TrimSuffix(line, "\n")); n > 100 {
			t.Errorf("%d columns: %s", n, line)
		}
	}
	if of := Plan(&everyPlan, time.UTC, false); strings.Contains(of, "mocha") {
		t.Error("a plan of named jobs lists orphans")
	}
}

// A plan shows the calls of an unfinished run that has no pages left.
func TestPlanShowsCallsWithoutPages(t *testing.T) {
	t.Parallel()
	f := &forecast.Forecast{Jobs: []forecast.Job{{Job: "coffee", Continues: "01a1fe45-0000", Unfinished: unfinished, Worst: estimate(0, 0, 110, 11)}}}
	if got := Plan(f, time.UTC, true); strings.Contains(got, "nothing is there") {
		t.Errorf("a plan with 110 requests shows that nothing is requested:\n%s", got)
	}
}

func TestLongForEachIsSummedUp(t *testing.T) {
	t.Parallel()
	var all []forecast.Search
	for range 30 {
		all = append(all, forecast.Search{Op: outlier.OpSearch, Queries: []string{"x"}, Pages: 1, Credits: 2, Sort: "views"})
	}
	all[29].Skipped, all[29].Pages, all[29].Credits = "fresh", 0, 0
	lines := searchPlans(all)
	want := []string{"  each with sort views", "and 18 more: 17 pages, 34 credits, 1 skipped"}
	if len(lines) != 14 || !slices.Equal(lines[12:], want) {
		t.Errorf("%d lines, the last %q, want 14 and %q", len(lines), lines[12:], want)
	}
}

func TestBudgetForPeople(t *testing.T) {
	t.Parallel()
	b := &forecast.Budget{
		Cycle: everyPlan.Cycle,
		Caps: []facts.CapBalance{
			{Scope: ledger.ScopeMonth, Period: "2026-11-14", Max: new(outlier.Credits(400)), Left: new(outlier.Credits(338)), Kept: 20, Held: 42,
				Balance: ledger.Balance{Spent: 30, Unknown: 4, Reserved: 2, Scans: 10, Adjusted: -4, Refunded: 2}},
			{Scope: ledger.ScopeDay, Period: "2026-11-21", Balance: ledger.Balance{Spent: 6}, Held: 6},
			{Scope: ledger.ScopeJobMonth, Period: "coffee/2026-11-14", Job: "coffee", Max: new(outlier.Credits(100)), Left: new(outlier.Credits(94)), Held: 6, Balance: ledger.Balance{Spent: 6}},
			{Scope: ledger.ScopeJobMonth, Period: "once:/2026-11-14", Job: "once:", Held: 10, Balance: ledger.Balance{Spent: 10}},
		},
		Adjustments: []ledger.Adjustment{{At: day(20, 9), Credits: -4, Why: "top-up\x1b[2J"}},
		Refusals: []ledger.Block{everyPlan.Refused[0],
			{Kind: ledger.BlockKey, Reason: "Unauthorized", Since: day(20, 8)}},
	}
	got := Budget(b, term.Options{Screen: 100, Zone: time.UTC})
	golden(t, "budget.golden", got)
	for line := range strings.Lines(got) {
		if strings.ContainsRune(line, '\x1b') {
			t.Errorf("%q contains an escape sequence", line)
		}
	}
}

func TestOriginForPeople(t *testing.T) {
	t.Parallel()
	seconds := func(n int) store.Seconds { return store.Seconds{Duration: time.Duration(n) * time.Second} }
	why := &Origin{
		ID: "dQw4w9WgXcQ", Title: "The best \x1b[2Jmoka pot", Channel: "Coffee Lab",
		Sightings: []Sighting{
			{Sighting: runs.Sighting{Job: "coffee", Run: "01a1fe45", Trigger: "schedule", Started: day(3, 6), First: true, Queries: []string{"moka pot"}, Item: "moka pot",
				Window: "2026-10-20..", Rank: 17, Hits: 40, Calls: []ledger.Call{
					{Op: "search", Price: 2, SentAt: day(3, 6), Error: "lost", Outcome: "unknown"},
					{Op: "search", Price: 2, SentAt: day(3, 6), Status: 200, Outcome: "charged", Waited: seconds(3)},
				}}, Op: "search", Filters: "z_score 2..", Sort: "z_score desc", Credits: 4, Unknown: 2},
			{Sighting: runs.Sighting{Job: "tea", Run: "01a1fe46", Trigger: "manual", Started: day(4, 6), First: true, Queries: []string{"tea"}, Item: "green", Scan: "0c0ffee0",
				Page: 1, Rank: 41, Hits: 1}, Op: "search"},
		},
		Calls: []ledger.Call{
			{Op: "details", Entity: "dQw4w9WgXcQ", SentAt: day(3, 7), Status: 200, Outcome: "charged", Waited: seconds(6)},
			{Op: "transcript", Entity: "dQw4w9WgXcQ", SentAt: day(3, 7), Status: 404, Error: "not_found", Outcome: "refunded"},
			{Op: "transcript", Entity: "dQw4w9WgXcQ", SentAt: day(3, 7), Status: 200, Empty: true, Outcome: "charged", Waited: seconds(12)},
			{Op: "comments", Entity: "dQw4w9WgXcQ", AnsweredAt: day(3, 7), Error: "unsent: no route", Outcome: "refunded"},
		},
		Waiting: []queue.Waiting{{Task: queue.Task{Op: "comments", Entity: "dQw4w9WgXcQ", Job: "coffee", Attempts: 1}, Reason: "unsent"}},
	}
	golden(t, "why.golden", Why(why, time.UTC))
}

// golden compares a text with a golden file; -update writes it.
func golden(t *testing.T, name, got string) {
	t.Helper()
	path := filepath.Join("testdata", name)
	if *update {
		if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), got); diff != "" {
		t.Errorf("%s (-want +got):\n%s", name, diff)
	}
}
