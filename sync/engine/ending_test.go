package engine

import (
	"bytes"
	"encoding/json"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"outlierd/outlier"
	"outlierd/sync/facts"
	"outlierd/sync/job"
	"outlierd/sync/plan"
	"outlierd/sync/runs"
)

// logText returns an ending as it is logged, and whether the search was cut off.
func logText(e Ending) string {
	var words []string
	attrs := e.Attrs()
	for i := 2; i < len(attrs); i += 2 { // the name of the search is known
		words = append(words, fmt.Sprintf("%v=%v", attrs[i], attrs[i+1]))
	}
	said := strings.Join(words, " ")
	for word, holds := range map[string]bool{", cut": e.Cut, ", limited": e.Limited, ", short": e.Short} {
		if holds {
			said += word
		}
	}
	return said
}

// ended returns how the searches of a run ended, given the pages per search and the room in credits,
// without pages in the journal.
func ended(pages int, room outlier.Credits, steps ...runs.Step) []Ending {
	known := &facts.Reader{Config: &job.Config{Service: job.Service{Prices: outlier.Prices{}}}}
	stored := &plan.Stored{Terms: job.Terms{Pages: pages, Scan: &job.Scan{Mode: outlier.ModeFast}}}
	all, err := (&endedRun{known, &runs.Run{Plan: stored}, steps}).endings(room)
	if err != nil {
		panic(err)
	}
	return all
}

func TestEndingsShowSavedAndRemainingPages(t *testing.T) {
	t.Parallel()
	const all = job.AllPages
	for name, test := range map[string]struct {
		step  runs.Step
		pages int
		room  outlier.Credits
		want  string
	}{
		"an ordinary end":       {runs.Step{Pages: 3, Next: 3, Hits: 120, Seen: 120, Total: 480, Stop: "pages"}, 3, 99, "pages=3 hits=120 of=120 seen=120 total=480 pages_left=9 credits_left=18, limited"},
		"no total is known":     {runs.Step{Pages: 1, Next: 1, Hits: 40, Seen: 40, Total: -1, Stop: "pages"}, 1, 99, "pages=1 hits=40 seen=40, limited"},
		"all of the last page":  {runs.Step{Pages: 2, Next: 2, Hits: 80, Seen: 80, Total: 80, Stop: "pages"}, 2, 99, "pages=2 hits=80 of=80"},
		"moved by a newcomer":   {runs.Step{Pages: 2, Next: 2, Hits: 80, Seen: 79, Total: 80, Stop: "pages"}, 2, 99, "pages=2 hits=80 of=80 seen=79 total=80, short"},
		"less than was counted": {runs.Step{Pages: 2, Next: 2, Hits: 40, Seen: 40, Total: 85, Stop: "empty"}, 5, 99, "pages=2 hits=40 of=85 early=there were no more hits seen=40 total=85, short"},
		"on its last page":      {runs.Step{Pages: 2, Next: 2, Hits: 80, Seen: 40, Total: 85, Stop: "repeated"}, 2, 99, "pages=2 hits=80 of=80 seen=40 total=85, short"},
		"hardly anything new":   {runs.Step{Pages: 2, Next: 2, Hits: 80, Seen: 80, Total: 480, Stop: "known"}, 5, 99, "pages=2 hits=80 of=200 early=hardly anything was new credits_saved=6"},
		"on the last page":      {runs.Step{Pages: 5, Next: 5, Hits: 200, Seen: 200, Total: 480, Stop: "known"}, 5, 99, "pages=5 hits=200 of=200"},
		"an empty page":         {runs.Step{Pages: 1, Next: 1, Stop: "empty"}, 2, 99, "pages=1 hits=0 of=0 early=there were no more hits"},
		"a short page":          {runs.Step{Pages: 1, Next: 1, Hits: 12, Seen: 12, Total: 12, Stop: "short"}, 3, 99, "pages=1 hits=12 of=12 early=there were no more hits"},
		"repetition":            {runs.Step{Pages: 2, Next: 2, Hits: 80, Seen: 80, Total: -1, Stop: "repeated"}, 3, 99, "pages=2 hits=80 early=a page repeated earlier hits"},
		"all there is":          {runs.Step{Pages: 2, Next: 2, Hits: 52, Seen: 52, Total: 52, Stop: "short"}, all, 99, "pages=2 hits=52 of=52 early=there were no more hits"},
		"known, without an end": {runs.Step{Pages: 2, Next: 2, Hits: 80, Seen: 80, Total: 161, Stop: "known"}, all, 99, "pages=2 hits=80 of=161 early=hardly anything was new credits_saved=6"},
		"with room for a page":  {runs.Step{Pages: 2, Next: 2, Hits: 80, Seen: 80, Total: 480, Stop: "known"}, 9, 3, "pages=2 hits=80 of=360 early=hardly anything was new credits_saved=2"},
		"without any room":      {runs.Step{Pages: 2, Next: 2, Hits: 80, Seen: 80, Total: 480, Stop: "known"}, 9, 1, "pages=2 hits=80 of=360 early=hardly anything was new"},
		"fewer than are wanted": {runs.Step{Pages: 2, Next: 2, Hits: 80, Seen: 80, Total: 85, Stop: "known"}, 500, 999, "pages=2 hits=80 of=85 early=hardly anything was new credits_saved=2"},
		"85 hits on 500 pages":  {runs.Step{Pages: 3, Next: 3, Hits: 85, Seen: 85, Total: 85, Stop: "short"}, 500, 999, "pages=3 hits=85 of=85 early=there were no more hits"},
		"from the journal":      {runs.Step{Pages: 3, Next: 3, Reused: 2, Hits: 120, Seen: 120, Total: 120, Stop: "pages"}, 3, 99, "pages=3 hits=120 of=120 pages_reused=2 credits_saved=4"},
		"and without any room":  {runs.Step{Pages: 3, Next: 3, Reused: 3, Hits: 120, Seen: 120, Total: 120, Stop: "pages"}, 3, 2, "pages=3 hits=120 of=120 pages_reused=3 credits_saved=6"},
		"both":                  {runs.Step{Pages: 3, Next: 3, Reused: 2, Hits: 120, Seen: 120, Total: 480, Stop: "known"}, 9, 4, "pages=3 hits=120 of=360 early=hardly anything was new pages_reused=2 credits_saved=8"},
		"a cap":                 {runs.Step{Pages: 3, Next: 3, Hits: 120, Seen: 120, Total: 480}, 12, 0, "pages=3 hits=120 of=480 pages_left=9 credits_left=18, cut"},
		"a cap, no end known":   {runs.Step{Pages: 1, Next: 1, Hits: 40, Seen: 40, Total: 10_000}, all, 0, "pages=1 hits=40 of=10000 pages_left=249 credits_left=498, cut"},
		"a cap, no total known": {runs.Step{Pages: 1, Next: 1, Hits: 40, Seen: 40, Total: -1}, 4, 0, "pages=1 hits=40 pages_left=3 credits_left=6, cut"},
		"unknown total":         {runs.Step{Pages: 1, Next: 1, Hits: 40, Seen: 40, Total: -1}, all, 0, "pages=1 hits=40, cut"},
		"a cap after the end":   {runs.Step{Pages: 1, Next: 1, Hits: 40, Seen: 40, Total: 40}, 4, 0, "pages=1 hits=40 of=40"},
		"out of time":           {runs.Step{Pages: 1, Next: 1, Hits: 40, Seen: 40, Total: 60, Stop: "time", Left: 1}, 4, 99, "pages=1 hits=40 of=60 pages_left=1 credits_left=2, cut"},
		"no share of the month": {runs.Step{Total: -1, Stop: "share", Left: -1}, 4, 0, "pages=0 hits=0 pages_left=4 credits_left=8, cut"},
		"a part of it":          {runs.Step{Pages: 1, Next: 1, Hits: 40, Seen: 40, Total: 480, Stop: "share", Left: -1}, 4, 0, "pages=1 hits=40 of=160 pages_left=3 credits_left=6, cut"},
		"bought lately":         {runs.Step{Query: outlier.UncheckedQuery(outlier.OpRelated, ""), Total: -1, Stop: "fresh", Left: -1}, 4, 99, "pages=0 hits=0 fresh=true"},
		"refused":               {runs.Step{Total: -1, Stop: "refused", Left: -1}, 4, 99, "pages=0 hits=0"},
		"channels cost five":    {runs.Step{Query: outlier.UncheckedQuery(outlier.OpFindChannels, ""), Pages: 1, Next: 1, Hits: 40, Seen: 40, Total: 100}, 3, 0, "pages=1 hits=40 of=100 pages_left=2 credits_left=10, cut"},
		"formats have one page": {runs.Step{Query: outlier.UncheckedQuery(outlier.OpTrendingFormats, ""), Total: -1, Stop: "share"}, 1, 0, "pages=0 hits=0 pages_left=1 credits_left=1, cut"},
		"a scan, put off":       {runs.Step{Query: outlier.UncheckedQuery(outlier.OpStartScan, "mode=fast"), Total: -1, Stop: "share"}, 5, 0, "pages=0 hits=0 credits_left=60, cut"},
	} {
		if test.step.Query.Op() == "" {
			test.step.Query = outlier.UncheckedQuery(outlier.OpSearch, "")
		}
		if got := ended(test.pages, test.room, test.step); len(got) != 1 || logText(got[0]) != test.want {
			t.Errorf("%s: %q, want %q", name, logText(got[0]), test.want)
		}
	}
	for _, stop := range []string{"", "scanned", "scan failed", "deadline"} { // a refusal by a cap has its own message
		if got := ended(5, 0, runs.Step{Query: outlier.UncheckedQuery(outlier.OpStartScan, ""), Stop: stop, Left: -1}); got != nil {
			t.Errorf("the start of a scan is reported as a search: %+v", got)
		}
	}
}

// TestJournaledPagesAreNotSavings when a search ends early: they would have cost nothing.
func TestJournaledPagesAreNotSavings(t *testing.T) {
	t.Parallel()
	bare(t, `
version: 1
service: {url: "sim://", limit: 600/min, paging: page}
budget: {per_month: 400}
jobs:
  one: {search: {query: home espresso, pages: 5, stop_when: {new_below: 50%}}}
`, func(w *workshop) {
		e, stop := w.open()
		defer stop()
		w.succeeds(e)
		for _, then := range []struct {
			later       time.Duration
			kept, saved outlier.Credits
		}{{time.Hour, 4, 0}, {7 * time.Hour, 0, 6}} {
			time.Sleep(then.later)
			ends, err := Endings(e.Facts(), w.succeeds(e))
			if err != nil || ends[0].Early != "hardly anything was new" || ends[0].Kept != then.kept || ends[0].Saved != then.saved {
				t.Errorf("%s later: %+v (%v), want %d credits saved by the journal and %d by ending early",
					then.later, ends, err, then.kept, then.saved)
			}
		}
	})
}

// TestSavingsUseConfiguredPrices of the pages that the service has and the job would have bought.
func TestSavingsUseConfiguredPrices(t *testing.T) {
	t.Parallel()
	known := runs.Step{Query: outlier.UncheckedQuery(outlier.OpSearch, ""), Pages: 1, Next: 1, Hits: 40, Seen: 40, Total: 480, Stop: "known"}
	answers := known
	answers.Reused = 1
	r := endedRun{&facts.Reader{Config: &job.Config{}}, &runs.Run{Plan: &plan.Stored{Terms: job.Terms{Pages: 3}}}, []runs.Step{known, answers}}
	got, err := r.endings(6)
	want := []any{"pages_reused", 1, "credits_saved", outlier.Credits(8)}
	if diff := cmp.Diff(want, sumOf(got)); diff != "" || err != nil {
		t.Error(diff, err)
	}
	if got[0].Saved != 4 || got[1].Kept != 2 || got[1].Saved != 2 {
		t.Errorf("the ending that saved 8 credits is %+v", got)
	}
	r.Config.Service.Prices = outlier.Prices{"search": 7}
	if got, err := r.endings(99); err != nil || got[0].Saved != 14 {
		t.Errorf("at the configured price of 7, %d credits are saved", got[0].Saved)
	}
}

// TestSavingsAreLimitedByCaps of the run and of the cycle.
func TestSavingsAreLimitedByCaps(t *testing.T) {
	t.Parallel()
	const file = `
version: 1
service: {url: "sim://", limit: 60/min, paging: page}
budget: {per_month: MONTH}
jobs:
  one: {reuse_for: 1m, search: {query: home espresso, pages: 500, stop_when: {new_below: 50%}}, budget: {per_run: RUN}}
`
	for _, test := range []struct {
		month, run string
		want       outlier.Credits
	}{
		{"9000", "2000", 18}, // for nine pages of 432 hits
		{"9000", "8", 4},
		{"16", "16", 2}, // after 10 and 4
	} {
		bare(t, strings.NewReplacer("MONTH", test.month, "RUN", test.run).Replace(file), func(w *workshop) {
			e, stop := w.open()
			defer stop()
			spec := &w.config.Jobs[0]
			asked := *spec
			spec.Pages, spec.NewBelow, spec.Budget.PerRun = 5, 0, nil
			if row, err := e.Run(w.ctx, spec, Manual, time.Time{}); err != nil || row.Credits != 10 {
				t.Fatalf("%+v: %v", row, err)
			}
			*spec = asked
			time.Sleep(2 * time.Minute)
			row, err := e.Run(w.ctx, &w.config.Jobs[0], Manual, time.Time{})
			if err != nil || row.Credits != 4 {
				t.Fatalf("%+v: %v", row, err)
			}
			ends, err := Endings(e.Facts(), row)
			if err != nil || len(ends) != 1 || ends[0].Early == "" || ends[0].Saved != test.want {
				t.Errorf("%+v: %+v (%v), want %d saved", test, ends, err, test.want)
			}
		})
	}
}

const endingsFile = `
version: 1
service: {url: "sim://", limit: 60/min}
budget: {per_month: 2300}
jobs:
  none: {every: 1h, search: {query: [tea], where: {z_score: 1000..}, pages: 3}}
  much: {every: 1h, search: {query: [home espresso], pages: 5}, budget: {per_run: 4}}
`

// TestScheduleLogsEarlyStopsAndCuts, and their sum at the end.
func TestScheduleLogsEarlyStopsAndCuts(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		file string
		want []string
	}{
		"caps": {endingsFile, []string{
			`level=INFO msg="search found nothing" job=none search=tea pages=1 hits=0 of=0 early="there were no more hits" filters="[z_score 1000..]"`,
			`msg="run finished" job=none status=ok_empty pages=1 hits=0 credits=2`,
			`level=INFO msg="search cut" job=much search="home espresso" pages=2 hits=80 of=200 pages_left=3 credits_left=6`,
			`msg="run finished" job=much status=paused_budget pages=2 hits=80 credits=4 searches_cut=1 credits_left=6`,
		}},
		"share": {strings.Replace(endingsFile, "2300", "2300, pace: even", 1), []string{
			`level=INFO msg="run finished" job=none status=ok_empty pages=1 hits=0 credits=2`, // the budget share was one page
			`level=INFO msg="search cut" job=much search="home espresso" pages=1 hits=40 of=200 pages_left=4 credits_left=8`,
			`level=INFO msg="run finished" job=much status=ok pages=1 hits=40 credits=2 searches_cut=1 credits_left=8`,
		}},
		"no share": {strings.Replace(endingsFile, "2300", "1000, pace: even", 1), []string{
			`level=INFO msg="search cut" job=none search=tea pages=0 hits=0 pages_left=3 credits_left=6`,
		}},
	} {
		t.Run(name, func(t *testing.T) {
			bare(t, test.file, func(w *workshop) {
				e, stop := w.open()
				defer stop()
				var log bytes.Buffer
				e.Log = slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{ReplaceAttr: steady}))
				if _, err := e.Agenda(time.Now()); err != nil {
					t.Fatal(err)
				}
				ctx, cancel := contextFor(w, time.Hour+time.Minute)
				defer cancel()
				e.Serve(ctx)
				for _, line := range test.want {
					if !strings.Contains(log.String(), line+"\n") {
						t.Errorf("no line\n%s\nin\n%s", line, &log)
					}
				}
			})
		})
	}
}

// steady removes from a log what differs between runs, and what is not tested here.
func steady(_ []string, a slog.Attr) slog.Attr {
	switch a.Key {
	case "time", "run", "requests", "took", "new", "err":
		return slog.Attr{}
	}
	return a
}

func TestEndingIsTheSameInJSON(t *testing.T) {
	t.Parallel()
	cut := ended(4, 0, runs.Step{Query: outlier.UncheckedQuery(outlier.OpSearch, ""), Queries: []string{"moka pot"}, Pages: 1, Next: 1, Hits: 40, Seen: 40, Total: -1})
	got, err := json.Marshal(cut)
	const want = `[{"credits_left":6,"cut":true,"hits":40,"pages":1,"pages_left":3,"search":"moka pot","seen":40}]`
	if err != nil || string(got) != want {
		t.Errorf("%s (%v), want %s", got, err, want)
	}
}
