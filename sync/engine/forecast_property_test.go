package engine

import (
	"context"
	"crypto/sha256"
	"database/sql"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"outlierd/internal/testenv"
	"outlierd/outlier"
	"outlierd/outlier/simulator"
	"outlierd/sync/forecast"
	"outlierd/sync/job"
	"outlierd/sync/ledger"
	"outlierd/sync/runs"
	"outlierd/sync/yamltree"
)

// enough seeds meet every kind of run.
const enough = 200

var seeds = flag.Int("seeds", 0, "how many seeds TestRunsStayWithinWhatPlanSaid plays; 0 plays a sample")

// TestRunsStayWithinWhatPlanSaid generates job files and histories, computes the forecast, and runs a job with
// random faults. The run must not cost more than the forecast's worst case, and the forecast must not change
// or send anything. To repeat a failed seed alone: -seeds 1000 -run 'PlanSaid/^seed$'.
func TestRunsStayWithinWhatPlanSaid(t *testing.T) {
	t.Parallel()
	few := 6
	if testing.Short() {
		few = 3
	}
	kinds, played := map[string]int{}, 0
	for _, seed := range testenv.Seeds(t, *seeds, few, 1000) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			played++
			synctest.Test(t, func(t *testing.T) {
				w := &generated{
					workshop: &workshop{T: t, dir: t.TempDir(), ctx: t.Context(), bare: true}, dice: rand.New(rand.NewPCG(seed, 7)), kinds: kinds,
				}
				w.play()
			})
		})
	}
	// The seeds must include every kind of run.
	for _, kind := range []string{"fresh", "continued", "shared", "cut", "lost", "scan", "watch", "bought", "resumed"} {
		if kinds[kind] == 0 && played >= enough {
			t.Errorf("runs of the kinds %v, want also %s", kinds, kind)
		}
	}
}

// generated is a workshop with a generated job file and history.
type generated struct {
	*workshop
	dice  *rand.Rand
	kinds map[string]int // what was met
	harms bool           // something may go wrong, or went wrong
}

// one picks one of several.
func one[T any](w *generated, of ...T) T { return of[w.dice.IntN(len(of))] }

// maybe is true with this probability.
func (w *generated) maybe(percent int) bool { return w.dice.IntN(100) < percent }

func (w *generated) play() {
	w.renew(simulator.Options{Limit: 600, PagingItems: w.maybe(50)})
	w.draw()
	for range w.dice.IntN(4) {
		w.live()
	}
	f := w.forecast()
	if len(f.Jobs) == 0 {
		return
	}
	w.consistent(f)
	next := f.Jobs[w.dice.IntN(len(f.Jobs))]
	if next.Problem == "" {
		w.hold(&next)
	}
}

// draw replaces the job file by a generated one that is valid, as most are.
func (w *generated) draw() {
	for range 200 {
		text := w.file()
		config, err := job.Parse(filepath.Join(w.dir, "jobs.yaml"), []byte(text), func(string) (string, bool) { return "", false })
		if err == nil {
			w.config = config
			return
		}
		if _, mistaken := errors.AsType[yamltree.Mistakes](err); !mistaken {
			w.Fatal(err)
		}
	}
	w.Fatal("no generated file was valid")
}

func (w *generated) file() string {
	var b strings.Builder
	fmt.Fprintf(&b, "version: 1\nservice: {url: \"sim://\", limit: 600/min, prices: {search: %d}}\n", one(w, 2, 2, 3))
	fmt.Fprintf(&b, "budget: {per_month: %d, per_day: %d, reserve: %d%s}\njobs:\n", one(w, 20, 70, 150, 400), one(w, 8, 70, 200), one(w, 0, 5), one(w, "", ", pace: even"))
	names := []string{"ada", "bob", "cid", "dot"}
	for i, name := range names[:1+w.dice.IntN(4)] {
		fmt.Fprintf(&b, "  %s:\n%s", name, w.job())
		switch {
		case i > 0 && w.maybe(20):
			fmt.Fprintf(&b, "    after: %s\n", names[i-1])
		case w.maybe(70):
			fmt.Fprintf(&b, "    every: %s\n", one(w, "3h", "12h", "5d"))
		}
		if w.maybe(50) {
			fmt.Fprintf(&b, "    budget: {per_run: %d, max_requests: %d}\n", one(w, 2, 6, 15, 80), one(w, 3, 10, 400))
		}
	}
	return b.String()
}

// job generates the keys of a job, indented by four columns.
func (w *generated) job() string {
	var b strings.Builder
	query := "home espresso"
	if w.maybe(40) {
		query = "${x}"
		fmt.Fprintf(&b, "    for_each: {x: [chess, tea%s]}\n", one(w, "", ", pizza, yoga, running"))
	}
	pages := one(w, "1", "2", "4", "all")
	switch w.dice.IntN(8) {
	case 0:
		fmt.Fprintf(&b, "    related: {title: [%q], pages: %s, refresh_after: %s}\n", query, pages, one(w, "1d", "7d"))
	case 1:
		fmt.Fprintf(&b, "    find_channels: {query: [%q], pages: %s}\n", query, pages)
	case 2:
		return "    trending_formats: {type: video}\n"
	case 3:
		return "    channels: {id: [UC1234567890abcdefghijkl, UCabcdefghijkl1234567890], fetch: [channel_videos, channel_shorts]}\n"
	case 4:
		fmt.Fprintf(&b, "    scan: {query: [%q], deadline: %s, read: {pages: %d}}\n", query, one(w, "1h", "24h"), one(w, 1, 3))
		return b.String()
	default:
		stop := one(w, "", ", stop_when: {new_below: 50%}")
		fmt.Fprintf(&b, "    search: {query: [%q], pages: %s%s}\n", query, pages, stop)
	}
	if w.maybe(30) {
		fmt.Fprintf(&b, "    reuse_for: %s\n", one(w, "1m", "2d"))
	}
	if w.maybe(50) {
		fmt.Fprintf(&b, "    enrich: {details: {top: %d}, channel_videos: {top: 2}}\n", one(w, 1, 5))
	}
	return b.String()
}

// live adds something to the history.
func (w *generated) live() {
	e, stop := w.open()
	defer stop()
	switch w.dice.IntN(10) {
	case 0:
		w.draw()
	case 1:
		if err := e.Store.Ledger.Adjust(one[outlier.Credits](w, -5, 12), "elsewhere"); err != nil {
			w.Fatal(err)
		}
	default:
		spec := &e.Config.Jobs[w.dice.IntN(len(e.Config.Jobs))]
		ctx, cancel := context.WithCancel(w.ctx)
		defer cancel()
		if w.maybe(30) {
			e.Client.Transport = stopAfter(w.wire, w.dice.IntN(6), cancel)
		}
		w.harm(append(losses, simulator.NoCredits, simulator.Garbage))
		_, _ = e.Run(ctx, spec, one(w, Manual, Scheduled), time.Time{}) // however it ends, it leaves its mark
	}
	time.Sleep(time.Duration(w.dice.Int64N(int64(one(w, time.Minute, 5*time.Hour, 70*time.Hour)))))
}

// losses are faults after which a call is made again.
var losses = []simulator.Fault{
	simulator.DropAnswer, simulator.GatewayPage, simulator.GatewayJSON, simulator.CutBody,
	simulator.ServerError, simulator.DropRequest, simulator.Unreachable,
}

// harm makes some of the next calls fail. Faults that no call has met yet remain.
func (w *generated) harm(faults []simulator.Fault) {
	if w.maybe(50) {
		return
	}
	w.harms = true
	for range 1 + w.dice.IntN(4) {
		op := one(w, outlier.OpSearch, outlier.OpSearch, outlier.OpRelated, outlier.OpStartScan, outlier.OpFindChannels)
		w.service.FailNext(op, one(w, faults...))
	}
}

// forecast returns the forecast, and checks that it changed and sent nothing.
func (w *generated) forecast() *forecast.Forecast {
	e, stop := w.open()
	defer stop()
	before, calls := w.dump(), w.service.Books().Total.Calls
	f, err := forecasts(e).Forecast(w.ctx)
	if err != nil {
		w.Fatalf("forecast: %v", err)
	}
	if _, err := forecasts(e).Budget(w.ctx); err != nil {
		w.Fatalf("budget: %v", err)
	}
	if diff := cmp.Diff(before, w.dump()); diff != "" {
		w.Fatalf("the forecast has changed the state:\n%s", diff)
	}
	if now := w.service.Books().Total.Calls; now != calls {
		w.Fatalf("the forecast has made %d calls", now-calls)
	}
	return f
}

// dump returns a hash of every table, and the limiter's file.
func (w *generated) dump() map[string]string {
	folder := filepath.Join(w.data(), "state")
	db, err := sql.Open("sqlite", filepath.Join(folder, "state.db"))
	if err != nil {
		w.Fatal(err)
	}
	defer db.Close()
	all := map[string]string{}
	for _, table := range w.rows(db, `SELECT name FROM sqlite_schema WHERE type = 'table'`) {
		rows := w.rows(db, `SELECT * FROM `+table)
		all[table] = fmt.Sprintf("%d rows, %x", len(rows), sha256.Sum256([]byte(strings.Join(rows, "\n"))))
	}
	text, err := os.ReadFile(filepath.Join(folder, "pace.json"))
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		w.Fatal(err)
	}
	all["pace.json"] = string(text)
	return all
}

func (w *generated) rows(db *sql.DB, query string) (all []string) {
	rows, err := db.QueryContext(w.ctx, query)
	if err != nil {
		w.Fatal(err)
	}
	defer rows.Close()
	columns, err := rows.Columns()
	if err != nil {
		w.Fatal(err)
	}
	for rows.Next() {
		values, into := make([]any, len(columns)), make([]any, len(columns))
		for i := range into {
			into[i] = &values[i]
		}
		if err := rows.Scan(into...); err != nil {
			w.Fatal(err)
		}
		all = append(all, strings.Trim(fmt.Sprint(values), "[]"))
	}
	if err := rows.Err(); err != nil {
		w.Fatal(err)
	}
	return all
}

// pagePrice returns the price of a page of the searches of a run, or 0 if it makes no search.
func pagePrice(next *forecast.Job) outlier.Credits {
	for _, search := range next.Searches {
		if search.Pages > 0 {
			return search.Credits / outlier.Credits(search.Pages)
		}
	}
	return 0
}

// consistent checks that the numbers of a forecast do not contradict each other.
func (w *generated) consistent(f *forecast.Forecast) {
	for i := range f.Jobs {
		next := &f.Jobs[i]
		worst, expected := next.Worst, next.Expected
		if expected.Credits < 0 || worst.Credits < expected.Credits || worst.Lost < worst.Credits {
			w.Errorf("%s: expected %d credits, %d at worst, %d with lost answers; want them in ascending order",
				next.Job, expected.Credits, worst.Credits, worst.Lost)
		}
		if expected.Requests < 0 || worst.Requests < expected.Requests {
			w.Errorf("%s: expected %d requests, want 0 to the %d of the worst case",
				next.Job, expected.Requests, worst.Requests)
		}
		spec, least := w.config.Job(next.Job), pagePrice(next)
		if spec.Scan == nil && least > 0 && (worst.Credits%least > 0 || expected.Credits%least > 0) {
			w.Errorf("%s: expected %d credits, and %d at worst; want multiples of %d, the price of a page",
				next.Job, expected.Credits, worst.Credits, least)
		}
		if calls := next.Calls; spec.MaxRequests == 0 && worst.Requests < calls {
			w.Errorf("%s: %d requests at worst, want at least one for each of %d calls",
				next.Job, worst.Requests, calls)
		}
	}
	if f.Cycle.Worst < f.Cycle.Wanted {
		w.Errorf("the cycle's runs are expected to want %d credits, more than the worst case of %d",
			f.Cycle.Wanted, f.Cycle.Worst)
	}
}

// resumed checks that the forecast of an interrupted run's rest is not above that of the whole run.
func (w *generated) resumed(next *forecast.Job, row *runs.Run) {
	f := w.forecast()
	for i := range f.Jobs {
		now := &f.Jobs[i]
		if now.Job != next.Job || now.Continues != row.ID || now.Problem != "" {
			continue
		}
		w.kinds["resumed"]++
		if now.Worst.Credits > next.Worst.Credits || now.Worst.Lost > next.Worst.Lost || now.Worst.Requests > next.Worst.Requests {
			w.Errorf("run %s of %s: the worst case of its rest is %+v, want no more than that of the whole, %+v",
				row.ID, next.Job, now.Worst.Cost, next.Worst.Cost)
		}
	}
}

// hold runs a job, and checks that it stays within its forecast. Some runs are interrupted.
func (w *generated) hold(next *forecast.Job) {
	var row *runs.Run
	defer func() {
		if row != nil {
			w.resumed(next, row)
		}
	}()
	e, stop := w.open()
	defer stop()
	spec := e.Config.Job(next.Job)
	trigger, due := Manual, time.Time{}
	if next.Continues == "" {
		if next := e.Config.ScheduledBy(spec).Next(time.Now(), e.Config.Timezone); !next.IsZero() {
			time.Sleep(time.Until(next))
			trigger, due = Scheduled, next
		}
	}
	var before ledger.Spend
	if next.Continues != "" {
		before = w.spent(e, next.Continues)
	}
	charged := w.service.Books().Total.Spent()
	w.harm(losses)
	ctx, cancel := context.WithCancel(w.ctx)
	defer cancel()
	if w.maybe(40) {
		e.Client.Transport = stopAfter(w.wire, w.dice.IntN(8), cancel)
	}
	var err error
	row, err = e.Run(ctx, spec, trigger, due)
	if row == nil && ctx.Err() != nil {
		return
	}
	if row == nil {
		w.Fatalf("job %s did not run: %v", next.Job, err)
	}
	after := w.spent(e, row.ID)
	unknown := after.Unknown - before.Unknown
	credits := after.Charged - before.Charged + unknown
	w.meet(next, credits, unknown)
	if next.Continues != "" && row.ID != next.Continues {
		w.Errorf("run %s started, want run %s continued", row.ID, next.Continues)
	}
	if credits > next.Worst.Lost {
		w.Errorf("the run of %s spent %d credits, want at most %d, the worst case with lost answers",
			next.Job, credits, next.Worst.Lost)
	}
	if unknown == 0 && credits > next.Worst.Credits {
		w.Errorf("the run of %s spent %d credits without losing an answer, want at most the worst case, %d",
			next.Job, credits, next.Worst.Credits)
	}
	if now := w.service.Books().Total.Spent() - charged; now > credits {
		w.Errorf("the service charged %d credits, and the ledger has only %d", now, credits)
	}
	if made := int(after.Requests - before.Requests); !w.harms && made > next.Worst.Requests {
		w.Errorf("the run of %s made %d requests, want at most the worst case, %d", next.Job, made, next.Worst.Requests)
	}
	if most := int64(spec.MaxRequests); most > 0 && spec.Scan == nil && after.Requests > most {
		w.Errorf("the run of %s made %d requests with repeated ones, want at most its cap, %d",
			next.Job, after.Requests, most)
	}
}

func (w *generated) spent(e *Engine, run string) ledger.Spend {
	spent, err := e.Store.Ledger.Spent(run)
	if err != nil {
		w.Fatal(err)
	}
	return spent
}

// meet counts the kinds of a run.
func (w *generated) meet(next *forecast.Job, credits, unknown outlier.Credits) {
	spec := w.config.Job(next.Job)
	for kind, met := range map[string]bool{
		"fresh": next.Continues == "", "continued": next.Continues != "", "shared": next.Share != nil, "cut": len(next.Cuts) > 0,
		"lost": unknown > 0, "scan": spec.Scan != nil, "watch": len(spec.Fetch) > 0, "bought": credits > 0,
	} {
		if met {
			w.kinds[kind]++
		}
	}
}
