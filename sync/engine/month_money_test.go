package engine

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"outlierd/outlier"
	"outlierd/outlier/simulator"
	"outlierd/sync/forecast"
	"outlierd/sync/ledger"
	"outlierd/sync/runs"
	"outlierd/sync/store"
)

// moneyFile has six jobs that need about three times the available credits.
const moneyFile = `
version: 1
service: {url: "sim://", limit: 60/min}
budget: {per_month: 400, per_day: 100, reserve: 20, pace: even}
jobs:
  topics:
    schedule: "30 6 * * *"
    for_each: {topic: [home espresso, moka pot, latte art, sourdough, chess, cold brew, tea, pizza, cycling, running, yoga, knitting]}
    search:
      query: ["${topic}"]
      where: {published_at: "since last success, overlap 3d, first 10d"}
      pages: 2
    enrich: {details: {top: 2}}
  deep:
    schedule: "0 9 * * mon"
    for_each: {genre: [minecraft, cooking, gardening, astronomy]}
    search: {query: ["${genre}"], pages: 4}
  often: {every: 8h, search: {query: [news], pages: 1}}
  alike: {schedule: "0 12 */3 * *", related: {title: [espresso at home], refresh_after: 1d}}
  channels: {schedule: "0 5 * * mon,thu", find_channels: {query: [espresso], sort: recency desc}}
  formats: {schedule: "15 4 * * *", trending_formats: {type: video}}
`

// TestMonthOfMoney: six jobs need more, or less, than the available credits, a price rises, and a user
// lifts the block for lack of credits a day later. Every job runs, none uses the reserve, and from the
// tenth day on the projected spending is right. If it is chosen by [isPlayed],
// the credits are too few, and with -long also more than enough.
func TestMonthOfMoney(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("plays a month")
	}
	budgets := []outlier.Credits{400 - 20, 4000 - 20}
	if !isPlayed(t) {
		t.Skip("another long test was chosen at random")
	}
	if !*long {
		budgets = budgets[:1]
	}
	for _, most := range budgets {
		t.Run(fmt.Sprint(most), func(t *testing.T) { monthOf(t, most) })
	}
}

func monthOf(t *testing.T, most outlier.Credits) {
	file := strings.Replace(moneyFile, "per_month: 400", fmt.Sprintf("per_month: %d", most+20), 1)
	bubble(t, file, func(w *workshop) {
		w.bare = true // until the month is over
		var raised time.Time
		projected := map[int]outlier.Credits{} // by day of the month
		w.serve(23 * time.Hour)
		for day := 2; day <= 31; day++ {
			switch day {
			case 6:
				raised = time.Now()
				w.use(strings.Replace(file, "limit: 60/min", "limit: 60/min, prices: {search: 3}", 1))
			case 8:
				w.service.FailNext(outlier.OpSearch, simulator.NoCredits)
			case 9:
				w.resumed()
			}
			w.serve(24 * time.Hour)
			f, held := w.foreseen()
			if held > most || w.service.Books().Total.Spent() > held {
				t.Fatalf("on day %d %d credits are held and the service has charged %d, with %d to spend",
					day, held, w.service.Books().Total.Spent(), most)
			}
			if day >= 10 {
				projected[day] = f.Cycle.Projected
			}
		}
		_, end := w.foreseen()
		for day, p := range projected {
			if d := p - end; max(d, -d)*20 > end {
				t.Errorf("on day %d the end was foreseen to be %d, and it is %d", day, p, end)
			}
		}
		if most < 1000 && end < most*9/10 {
			t.Errorf("only %d of %d credits were spent although more were wanted", end, most)
		}
		w.cameRound(2)
		w.pricesFollow(raised, end)
	})
}

// pricesFollow checks that every row of the published ledger has the price of its time: 2 credits for a
// search, and 3 after the price was raised. The sum is what the cycle holds.
func (w *workshop) pricesFollow(raised time.Time, held outlier.Credits) {
	w.Helper()
	w.toReaders()
	for _, test := range []struct {
		op, when string
		price    int
	}{
		{"search", "<", 2}, {"search", ">=", 3}, {"related", ">=", 2}, {"find_channels", ">=", 5}, {"trending_formats", ">=", 1},
	} {
		rows := fmt.Sprintf("select count(*) from ops.credits where operation = '%s' and reserved_at %s '%s'::timestamptz",
			test.op, test.when, raised.UTC().Format(time.RFC3339))
		if all, priced := w.count(rows), w.count(fmt.Sprintf("%s and price = %d", rows, test.price)); all == 0 || priced != all {
			w.Errorf("%d of %d rows of %s %s the change cost %d", priced, all, test.op, test.when, test.price)
		}
	}
	if kept := w.count("select sum(price)::bigint from ops.credits where outcome <> 'refunded'"); outlier.Credits(kept) != held {
		w.Errorf("ops.credits keeps %d credits, the cycle holds %d", kept, held)
	}
}

// resumed lifts the block for lack of credits, which must exist.
func (w *workshop) resumed() {
	w.Helper()
	w.inspect(func(e *Engine) {
		b, err := forecasts(e).Budget(w.ctx)
		if err != nil || len(b.Refusals) != 1 {
			w.Fatalf("refusals %+v, error %v; want that for lack of credits", b.Refusals, err)
		}
		if err := e.Store.DB.Update(func(tx *store.Tx) error { return ledger.Lift(tx, e.Client.Key.Fingerprint()) }); err != nil {
			w.Fatal(err)
		}
	})
}

// foreseen returns the current forecast, and what the cycle of January holds.
func (w *workshop) foreseen() (f *forecast.Forecast, held outlier.Credits) {
	w.Helper()
	w.inspect(func(e *Engine) {
		var err error
		if f, err = forecasts(e).Forecast(w.ctx); err != nil {
			w.Fatal(err)
		}
		if held, err = e.Store.Ledger.Held(ledger.Cap{Scope: ledger.ScopeMonth, Period: "2000-01-01"}); err != nil {
			w.Fatal(err)
		}
	})
	return f, held
}

// cameRound checks that every search of every job took pages in at least the given number of runs.
func (w *workshop) cameRound(times int) {
	w.Helper()
	taken := map[string]int{}
	w.inspect(func(e *Engine) {
		rows, err := e.Store.Runs.List(runs.Filter{}, 0)
		if err != nil {
			w.Fatal(err)
		}
		for _, run := range rows {
			steps, err := e.Store.Steps.OfRun(run.ID)
			if err != nil {
				w.Fatal(err)
			}
			for _, step := range steps {
				taken[run.Job+" "+step.Item] += min(step.Pages, 1)
			}
		}
	})
	if len(taken) != 12+4+4 {
		w.Errorf("there were %d different searches, want 20", len(taken))
	}
	for name, n := range taken {
		if n < times {
			w.Errorf("%s was searched %d times in the month, want %d at least", name, n, times)
		}
	}
}
