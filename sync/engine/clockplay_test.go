package engine

import (
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"maps"
	"math/rand/v2"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"outlierd/internal/testenv"
	"outlierd/outlier"
	"outlierd/outlier/simulator"
	"outlierd/schema"
	"outlierd/sync/ops"
	"outlierd/sync/runs"
	"outlierd/sync/state/statetest"
)

// A bubble's clock cannot be set, but each bubble begins in the year 2000: a process in the next one
// finds records that may be in its future or its distant past. So the local clock jumps between
// processes, while the service's clock continues. The test does not cover a clock that is set while a
// process runs.

const jumpingFile = `
version: 1
service: {url: "sim://", limit: 60/min}
budget: {per_month: 1200, per_day: 90}
defaults: {reuse_for: 1h}
jobs:
  news:
    every: 6h
    search: {query: [home espresso], where: {published_at: since last success}, pages: 2}
    enrich: {details: {top: 3}}
  kin: {after: news, search: {query: [moka pot]}}
  topics:
    every: 16h
    catch_up: all
    for_each: {topic: [minecraft, latte art]}
    search: {query: "${topic}", pages: 2}
  deep: {every: 24h, scan: {query: [espresso machine repair], mode: fast, read: {pages: 2}}}
`

var jumpSeeds = flag.Int("jumps", 0, "how many seeds TestMachineClockJumpsBetweenProcesses plays; 0 plays one by chance")

// jumps is a data folder used by one process after another, each on a machine with a different clock.
type jumps struct {
	*testing.T
	dir    string
	random *rand.Rand
	truth  time.Time // the service's time at which the next process starts
	did    []string

	dues    map[string]string          // of runs, as first seen
	charged map[string]outlier.Credits // by the service's day
	scans   map[string]int             // number started, by the service's day
	started map[string]string          // the service's day of each scan
}

// process is the time from a start to a stop or a kill. Its clock is ahead of the service's by a fixed
// time.
type process struct {
	*workshop
	j            *jumps
	began, ended time.Time // by the machine's clock
	ahead        time.Duration
	calls        int
	end          int // the call at which it is killed
	when         moment
}

func TestMachineClockJumpsBetweenProcesses(t *testing.T) {
	t.Parallel()
	testenv.RacesLittle(t)
	const lives = 5
	for _, seed := range seedsToPlay(t, *jumpSeeds, 1, 20) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			j := &jumps{
				T: t, dir: t.TempDir(), random: rand.New(rand.NewPCG(seed, 7)), truth: time.Date(2000, 3, 1, 5, 17, 0, 0, time.UTC),
				dues: map[string]string{}, charged: map[string]outlier.Credits{}, scans: map[string]int{},
				started: map[string]string{},
			}
			offsets := []time.Duration{0, 0, 3 * time.Hour, -3 * time.Hour, 2 * day, -2 * day, 31 * day, -31 * day}
			t.Cleanup(func() {
				if t.Failed() {
					t.Log(strings.Join(j.did, "\n"))
				}
			})
			for range lives {
				j.live(offsets[j.random.IntN(len(offsets))])
			}
		})
	}
}

// live runs one process, from its start to a stop or a kill.
func (j *jumps) live(ahead time.Duration) {
	synctest.Test(j.T, func(t *testing.T) {
		w := newWorkshop(t, jumpingFile)
		w.dir, w.bare, w.asks = j.dir, true, true
		w.renew(simulator.Options{
			Limit: 60, CachePeriod: time.Nanosecond,
			Scans: func(string) []simulator.Phase { return []simulator.Phase{{Status: "Completed"}} },
		})
		start := j.truth.Add(ahead)
		time.Sleep(time.Until(start))
		p := &process{workshop: w, j: j, began: start, ahead: ahead, end: -1}
		lasts := time.Duration(6+j.random.IntN(16)) * time.Hour
		if j.random.IntN(2) == 0 {
			p.end, p.when = j.random.IntN(60), []moment{beforeDial, beforeSend, beforeAnswer}[j.random.IntN(3)]
		}
		j.did = append(j.did, fmt.Sprintf("at %s by the service's clock the machine's is %v ahead; %v, kill at call %d %s", stamp(j.truth), ahead, lasts, p.end, p.when))
		p.serve(lasts)
		p.judge()
		j.truth = j.truth.Add(time.Since(start) + time.Duration(j.random.IntN(600))*time.Minute)
	})
}

func stamp(t time.Time) string { return t.UTC().Format("01-02 15:04") }

// served returns the service's time.
func (p *process) served() time.Time { return time.Now().Add(-p.ahead) }

// serve runs the schedule for a while, or until the process is killed.
func (p *process) serve(lasts time.Duration) {
	until, cancel := contextFor(p.workshop, lasts)
	defer cancel()
	ctx, kill := context.WithCancelCause(until)
	defer kill(nil)
	image := &snapshot{process: p, leave: kill}
	p.wire = roundTripper(func(r *http.Request) (*http.Response, error) {
		defer func() { p.calls++ }()
		if image.take(beforeDial) {
			return nil, errKilled
		}
		if p.calls == p.end && p.when == beforeSend {
			connect(r)
			image.take(beforeSend)
			return nil, errKilled
		}
		before := p.spent()
		answer, err := p.service.Transport().RoundTrip(r)
		today := p.served().Format(time.DateOnly)
		counts := cmp.Or(p.j.started[r.URL.Query().Get("referenceId")], today) // a scan is read from what it holds
		p.j.charged[counts] += p.spent() - before
		if r.URL.Path == "/scan" && p.spent() > before {
			p.j.scans[today]++
			calls := p.service.Books().Calls
			p.j.started[calls[len(calls)-1].Scan] = today
		}
		if image.take(beforeAnswer) {
			return nil, errKilled
		}
		if err == nil {
			answer.Header.Set("Date", p.served().UTC().Format(http.TimeFormat))
		}
		return answer, err
	})
	e, stop := p.open()
	if _, err := e.Agenda(time.Now()); err != nil {
		p.Fatal(err)
	}
	e.Serve(ctx)
	stop()
	p.ended = time.Now()
	image.restore()
	p.settle()
}

// snapshot is the content of the disk at a kill.
type snapshot struct {
	*process
	dir   string // "" before the kill
	leave context.CancelCauseFunc
}

// take ends the process if this is the point of the kill.
func (s *snapshot) take(now moment) bool {
	if s.dir != "" || s.calls != s.end || s.when != now {
		return s.dir != ""
	}
	s.dir = filepath.Join(s.workshop.dir, "image")
	if err := os.CopyFS(s.dir, os.DirFS(s.data())); err != nil {
		s.Fatal(err)
	}
	s.leave(errKilled)
	return true
}

// restore discards what was written after the kill.
func (s *snapshot) restore() {
	if s.dir == "" {
		return
	}
	if err := errors.Join(os.RemoveAll(s.data()), os.Rename(s.dir, s.data())); err != nil {
		s.Fatal(err)
	}
}

// settle resolves a scan whose start was lost, by what the service knows about it.
func (p *process) settle() {
	p.wire = p.service.Transport()
	p.inspect(func(e *Engine) {
		scans, err := e.Store.Scans.List()
		if err != nil {
			p.Fatal(err)
		}
		known := map[string]bool{}
		for _, s := range scans {
			known[s.ScanID] = true
		}
		lost := slices.DeleteFunc(p.started(), func(id string) bool { return known[id] })
		for _, s := range scans {
			switch {
			case s.State != runs.ScanUnknown:
			case len(lost) > 0:
				_, err = e.AdoptScan(p.ctx, lost[0], 0)
			default:
				_, err = e.Store.Scans.Settle(s.Intent, runs.Scan{State: runs.ScanNotCreated})
			}
			if err != nil {
				p.Errorf("settle scan %+v: %v", s, err)
			}
		}
	})
}

// judge compares the records with what the service knows.
func (p *process) judge() {
	p.inspect(func(e *Engine) {
		rows, err := e.Store.Runs.List(runs.Filter{}, 0)
		if err != nil {
			p.Fatal(err)
		}
		p.instants(rows)
		p.bought(e, rows)
		p.books(e)
	})
}

// instants checks that each due time that passed has one run, which does not change, and so has each run
// that comes after another one.
func (p *process) instants(rows []runs.Run) {
	has := map[string]int{}
	var fired []time.Time
	for _, run := range rows {
		due := run.Job + " " + stamp(run.Due)
		if was := p.j.dues[run.ID]; was != "" && was != due {
			p.Errorf("run %s was due as %s and is as %s", run.ID, was, due)
		}
		if p.j.dues[run.ID] = due; !run.Due.IsZero() {
			has[due]++
		}
		if run.Job == "news" && run.Status.EndedWell() {
			fired = append(fired, run.Due)
		}
	}
	for _, due := range fired {
		if n := has["kin "+stamp(due)]; n != 1 && due.After(p.began) && due.Before(p.ended.Add(-time.Hour)) {
			p.Errorf("%d runs of kin are due at %s", n, stamp(due))
		}
	}
	for due, n := range has {
		if n > 1 {
			p.Errorf("%d runs of %s", n, due)
		}
	}
	for job, every := range map[string]time.Duration{"news": 6 * time.Hour, "topics": 16 * time.Hour, "deep": 24 * time.Hour} {
		for due := p.began.Truncate(every).Add(every); due.Before(p.ended.Add(-time.Hour)); due = due.Add(every) {
			if has[job+" "+stamp(due)] == 0 {
				p.Errorf("no run of %s was due at %s, between %s and %s",
					job, stamp(due), stamp(p.began), stamp(p.ended))
			}
		}
	}
}

// bought checks that pages bought by an earlier process under another clock do not count as new. A run
// takes pages from the journal that another run has bought within the hour.
func (p *process) bought(e *Engine, rows []runs.Run) {
	for _, run := range rows {
		if run.Job != "news" || run.Started.Before(p.began.Add(time.Hour)) || run.Started.After(p.ended) || run.Due.IsZero() {
			continue
		}
		if slices.ContainsFunc(rows, func(other runs.Run) bool {
			return other.Job == run.Job && other.ID != run.ID && other.Ended.After(run.Started.Add(-time.Hour)) && !other.Ended.After(run.Started)
		}) {
			continue
		}
		steps, err := e.Store.Steps.OfRun(run.ID)
		if err != nil {
			p.Fatal(err)
		}
		for _, s := range steps {
			if s.Reused > 0 {
				p.Errorf("run %s of %s took %d pages from the journal", stamp(run.Due), run.Job, s.Reused)
			}
		}
	}
}

// books checks that each purchase is booked on the service's day, or on the day of the scan from whose hold it is paid,
// that no day exceeds its cap, and that the ledger has what was charged, and beyond that only unknown credits.
func (p *process) books(e *Engine) {
	table := statetest.OpsTable("ops.credits")
	at := func(name string) int {
		return slices.IndexFunc(table.Columns, func(c schema.Column) bool { return c.Name == name })
	}
	spent, held := map[string]outlier.Credits{}, map[string]outlier.Credits{}
	for rows, err := range table.Rows(e.Store.DB, ops.Changes{All: true}, 1000) {
		if err != nil {
			p.Fatal(err)
		}
		for _, row := range rows {
			day, price := row[at("day")].(string), outlier.Credits(row[at("price")].(int64))
			switch row[at("outcome")] {
			case "spent":
				spent[day] += price
				held[day] += price
			case "unknown":
				held[day] += price
			case "reserved":
				p.Errorf("%d credits are still reserved on %s", price, day)
			}
		}
	}
	days := maps.Clone(held)
	maps.Copy(days, p.j.charged)
	for day := range days {
		if charged := p.j.charged[day]; charged < spent[day] || charged > held[day] {
			p.Errorf("%s: the service charged %d credits, the ledger has %d, and %d with what is unknown",
				day, charged, spent[day], held[day])
		}
		if held[day] > 90 {
			p.Errorf("%s: %d credits are held, and the cap is 90", day, held[day])
		}
	}
	for _, mark := range p.marks(e) {
		if mark.At.After(p.served()) {
			p.Errorf("the watermark of %s is %s, and the service's clock shows %s",
				mark.Job, stamp(mark.At), stamp(p.served()))
		}
	}
}

// marks returns all watermarks.
func (p *process) marks(e *Engine) (all []runs.Watermark) {
	for _, name := range []string{"news", "kin", "topics"} {
		marks, err := e.Store.Watermarks.List(name)
		if err != nil {
			p.Fatal(err)
		}
		all = append(all, marks...)
	}
	return all
}
