package state_test

import (
	"cmp"
	"errors"
	"flag"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	gocmp "github.com/google/go-cmp/cmp"

	"outlierd/outlier"
	"outlierd/outlier/simulator"
	"outlierd/sync/credit"
	"outlierd/sync/state"
)

// # Schedules
//
// A schedule is a course of events that follows from a seed. Two jobs buy pages and
// scans from the simulated service through the real client and the real store, by the
// protocol of package engine. They stop at every point at which a process can die, and
// in each turn the dice say what happens next: one of the two goes on, the process is
// killed, time passes, something goes wrong at the service, an operator has a word.
// After each turn the service's books are held against the ledger.
//
// A process that is killed leaves the files as they are at that moment. The next one
// opens a copy of them, in a bubble of its own, because its local clock may say
// something else. The service's clock goes on whatever the local ones say. A clock that
// is set while a process lives is not among what happens: between two answers time is
// measured without it.
//
// This file draws what happens. In schedule_job_test.go and schedule_scan_test.go is what
// a job does, in schedule_meter_test.go how its calls stop on their way, in
// schedule_service_test.go the world beyond the wire, in schedule_rules_test.go what must
// hold, and in schedule_sabotage_test.go what is done wrong on purpose.

var schedules = flag.Int("schedules", 0, "how many schedules are played; 0 means 1,000, or 30 with -short")

// TestServiceNeverChargesMoreThanIsHeldAndNeverPastACap plays schedules.
func TestServiceNeverChargesMoreThanIsHeldAndNeverPastACap(t *testing.T) {
	n := *schedules
	if testing.Short() {
		n = cmp.Or(n, 30)
	}
	n = cmp.Or(n, 1000)
	defer debug.SetGCPercent(debug.SetGCPercent(400)) // each process leaves much behind
	fresh := newFolder(t)
	var mu sync.Mutex
	seen := map[string]int{}
	begun := time.Now()
	t.Run("seeds", func(t *testing.T) {
		for part := range runtime.GOMAXPROCS(0) {
			t.Run(strconv.Itoa(part), func(t *testing.T) {
				t.Parallel()
				for seed := part; seed < n && !t.Failed(); seed += runtime.GOMAXPROCS(0) {
					s := play(t, fresh, uint64(seed), sabotage{})
					if s.wrong != nil {
						t.Errorf("%v\n%s", s.wrong, s.story())
					}
					mu.Lock()
					for what, times := range s.seen {
						seen[what] += times
					}
					mu.Unlock()
				}
			})
		}
	})
	took := time.Since(begun)
	t.Logf("%d schedules in %v, %.0f in a second", n, took.Round(time.Millisecond), float64(n)/took.Seconds())
	for _, what := range slices.Sorted(maps.Keys(seen)) {
		t.Logf("%7d × %s", seen[what], what)
	}
	if n >= 1000 && !t.Failed() {
		wantAllOf(t, seen)
	}
}

// TestScheduleFollowsFromItsSeed makes sure that a schedule can be told again.
func TestScheduleFollowsFromItsSeed(t *testing.T) {
	fresh := newFolder(t)
	for seed := range uint64(5) {
		once, again := play(t, fresh, seed, sabotage{}), play(t, fresh, seed, sabotage{})
		if diff := gocmp.Diff(once.trace, again.trace); diff != "" || once.wrong != nil || again.wrong != nil {
			t.Fatalf("seed %d (%v, %v) goes another way the second time:\n%s", seed, once.wrong, again.wrong, diff)
		}
	}
}

// wantAllOf makes sure that what schedules are for does happen in them.
func wantAllOf(t *testing.T, seen map[string]int) {
	t.Helper()
	for _, what := range hoped {
		if seen[what] == 0 {
			t.Errorf("in all schedules there was not once: %s", what)
		}
	}
}

// schedule is one course of events, and the world in which it takes place.
type schedule struct {
	seed  uint64
	dice  *rand.Rand
	bug   sabotage
	turns int // still to come

	home, dir string // where all folders are, and the state folder of the moment
	lives     int    // of the process so far
	runs      int    // begun so far, over all lives
	options   state.Options
	caps      caps
	dearer    outlier.Credits   // what the price list has on top of the service's prices
	names     map[string]string // of the jobs, by those with which they began
	zones     []*time.Location
	before    []state.Options // the calendars that were in force before

	service *simulator.Service
	end     string    // how scans stand that were begun, "" while they run
	key     int       // the one of the keys that is valid
	silent  bool      // it does not tell the time
	clock   time.Time // of the service, when the last process ended

	books
	trace []string
	seen  map[string]int // what happened, and how often
	wrong error          // the end of the schedule
}

// play goes through the schedule of a seed.
func play(t *testing.T, fresh folder, seed uint64, bug sabotage) *schedule {
	s := newSchedule(fresh, seed, bug)
	s.home, s.wrong = os.MkdirTemp(fresh.home, "")
	s.dir = filepath.Join(s.home, "0")
	if s.wrong == nil {
		s.wrong = fresh.write(s.dir)
	}
	for s.turns > 0 && s.wrong == nil {
		synctest.Test(t, s.live)
	}
	s.wrong = errors.Join(s.wrong, os.RemoveAll(s.home))
	return s
}

func newSchedule(fresh folder, seed uint64, bug sabotage) *schedule {
	s := &schedule{seed: seed, dice: rand.New(rand.NewPCG(seed, 0)), bug: bug, seen: map[string]int{}, zones: fresh.zones}
	s.names = map[string]string{"ideas": "ideas", "rivals": "rivals"}
	s.turns = 30 + s.dice.IntN(50)
	s.options = state.Options{
		Location: one(s.dice, s.zones...), Renews: one(s.dice, renewals...),
		MinFree: 8, FreeSpace: func(string) (uint64, error) { return 1 << 40, nil },
	}
	// A bubble begins with the year, and a local clock may go late by weeks.
	s.clock = time.Date(2000, time.April, 1, 0, 0, s.dice.IntN(60*24*3600), 0, time.UTC)
	s.service = simulator.New(simulator.Options{
		Seed: 1, Key: "demo", Freeze: true, Limit: one(s.dice, 4, 1000), Credits: one[int64](s.dice, 0, 0, 0, 150),
		Scans: func(string) []simulator.Phase { return []simulator.Phase{{Status: cmp.Or(s.end, "Running")}} },
	})
	s.silent = s.dice.IntN(10) == 0
	s.recap()
	s.recount()
	return s
}

// process is one life of the program.
type process struct {
	*schedule
	t     *testing.T
	store *state.Store
	jobs  []*job
	lead  time.Duration // of the service's clock over the local one
	told  int           // answers that have told the service's time
	dead  bool
}

// live is the next life, in a bubble of its own.
func (s *schedule) live(t *testing.T) {
	p, err := s.boot(t)
	if err != nil {
		s.wrong = fmt.Errorf("open the state again: %w", err)
		return
	}
	for s.turns > 0 && s.wrong == nil && !p.dead {
		s.turns--
		p.turn()
		if !p.dead && s.wrong == nil {
			s.wrong = p.check()
		}
	}
	if !p.dead && s.wrong == nil {
		s.wrong = p.audit()
	}
	s.wrong = errors.Join(s.wrong, p.close())
}

// boot starts a process at a time that its local clock may be wrong about.
func (s *schedule) boot(t *testing.T) (*process, error) {
	if s.lives++; s.lives > 1 {
		s.clock = s.clock.Add(one(s.dice, time.Second, time.Second, 12*time.Minute, 9*time.Hour))
	}
	late := one(s.dice, 0, 0, 0, 2*time.Minute, 20*time.Hour, 40*24*time.Hour)
	if s.dice.IntN(2) == 0 {
		late = -late
	}
	if s.newest.IsZero() {
		late = 0 // who has bought nothing yet has only the local clock to go by
	}
	time.Sleep(time.Until(s.clock.Add(-late)))
	p := &process{schedule: s, t: t, lead: late}
	p.note("", "a process starts, whose local clock is late by %v", late)
	p.edit()
	store, err := state.Open(t.Context(), s.dir, s.options)
	if err != nil {
		return nil, err
	}
	p.store = store
	for _, account := range slices.Sorted(maps.Keys(s.names)) {
		if err := p.rename(account); err != nil {
			return nil, errors.Join(err, p.close())
		}
		p.jobs = append(p.jobs, hire(p, account))
	}
	if s.held, err = p.ledger(); err != nil {
		return nil, errors.Join(err, p.close())
	}
	return p, nil
}

// renewals are the days on which billing cycles may begin.
var renewals = []int{1, 14, 15, 31}

// edit is what somebody does to the job file while no process runs: days and cycles turn
// at other times, or everything has another price.
func (p *process) edit() {
	if p.lives > 1 && p.dice.IntN(8) == 0 {
		p.dearer = one[outlier.Credits](p.dice, 0, 1, 3)
		p.saw("a restart changed prices")
		p.note("", "all is dearer by %d", p.dearer)
	}
	if p.lives == 1 || p.dice.IntN(3) > 0 {
		return
	}
	old := p.options
	switch roll := p.dice.IntN(4); {
	case roll == 0 && len(p.before) > 0:
		p.options = p.before[len(p.before)-1]
		p.saw("the calendar was changed back")
	case roll < 2:
		p.options.Renews = one(p.dice, renewals...)
	default:
		p.options.Location = one(p.dice, p.zones...)
	}
	if p.options.Renews == old.Renews && p.options.Location == old.Location {
		return
	}
	p.before = append(p.before, old)
	p.recount()
	p.saw("the calendar changed")
	p.note("", "cycles begin on day %d, in %s", p.options.Renews, p.options.Location)
}

// rename gives a job another name now and then, or one that it had before.
func (p *process) rename(account string) error {
	if p.lives == 1 || p.dice.IntN(8) > 0 {
		return nil
	}
	was, name := p.names[account], account
	if was == account || p.dice.IntN(2) == 0 {
		name = fmt.Sprint(account, "-", p.lives)
	}
	p.names[account] = name
	p.saw("a job got another name")
	p.note("", "job %s is %s now", was, name)
	return p.store.Rename(was, name)
}

// now is the service's time.
func (p *process) now() time.Time { return time.Now().Add(p.lead) }

// close lets go of all that the process had. What it writes on its way reaches nobody:
// after a kill the files were copied before.
func (p *process) close() error {
	p.clock, p.dead = p.now(), true
	for _, j := range p.jobs {
		j.stop()
	}
	return p.store.Close()
}

// happenings are what the dice choose from in a turn.
var happenings = []struct {
	weight int
	what   func(*process)
}{
	{800, (*process).proceed},
	{25, (*process).kill},
	{40, (*process).wait},
	{70, (*process).spoil},
	{30, (*process).operate},
	{25, (*process).endScans},
	{12, (*process).adjust},
	{20, (*process).change},
	{6, (*process).rekey},
}

func (p *process) turn() {
	total := 0
	for _, h := range happenings {
		total += h.weight
	}
	roll := p.dice.IntN(total)
	for _, h := range happenings {
		if roll -= h.weight; roll < 0 {
			h.what(p)
			return
		}
	}
}

// proceed lets one of the jobs go on to its next point.
func (p *process) proceed() { one(p.dice, p.jobs...).next() }

// kill ends the process without a word. The kernel keeps what was written, so the
// files stay as they are.
func (p *process) kill() {
	for _, j := range p.jobs {
		p.saw("killed " + j.at)
	}
	p.note("", "killed")
	next := filepath.Join(p.home, strconv.Itoa(p.lives))
	if err := copyState(p.dir, next); err != nil {
		p.wrong = err
	}
	p.dir, p.dead = next, true
}

// wait lets time pass, with calls as far on their way as they are.
func (p *process) wait() {
	day, cycle := p.periods()
	d := one(p.dice, 10*time.Second, 61*time.Second, 61*time.Second, 11*time.Minute, 7*time.Hour, 25*time.Hour, 32*24*time.Hour)
	p.note("", "%v pass", d)
	time.Sleep(d)
	newDay, newCycle := p.periods()
	if newDay != day {
		p.saw("a day turned")
	}
	if newCycle != cycle {
		p.saw("a cycle turned")
	}
}

// periods are those of the moment, by the service's clock.
func (p *process) periods() (day, cycle string) {
	now := p.now()
	return credit.Day(now, p.options.Location), credit.Cycle(now, p.options.Location, p.options.Renews)
}

// adjust books credits that were spent or bought elsewhere.
func (p *process) adjust() {
	n := one[outlier.Credits](p.dice, -10, -2, 1, 7)
	now := p.store.ServiceTime()
	p.spend(spending{at: now, credits: n})
	p.held[p.periodsAt("", "", now)[1]] += n // it meets no cap
	p.saw("the books were adjusted")
	p.note("", "the books are adjusted by %d", n)
	if err := p.store.Adjust(n, "elsewhere"); err != nil {
		p.wrong = err
	}
}

// change sets other caps, or another price list.
func (p *process) change() {
	if p.dice.IntN(2) == 0 {
		p.recap()
		p.note("", "caps are now %v", p.caps)
		return
	}
	p.dearer = one[outlier.Credits](p.dice, 0, 0, 1, 3)
	p.saw("prices changed")
	p.note("", "all is dearer by %d", p.dearer)
}

// one draws one of several.
func one[T any](dice *rand.Rand, of ...T) T { return of[dice.IntN(len(of))] }

// saw counts what happened.
func (s *schedule) saw(what string) { s.seen[what]++ }

// note adds to the trace what happens, and to whom.
func (p *process) note(who, format string, args ...any) {
	if !p.dead {
		p.trace = append(p.trace, fmt.Sprintf("%4d  %s  %-7s %s", p.turns, p.now().Format("01-02 15:04:05"), who, fmt.Sprintf(format, args...)))
	}
}

// story is the course of events as far as it came.
func (s *schedule) story() string {
	return fmt.Sprintf("seed %d, with the turns that were left, the service's time, and what happened:\n%s", s.seed, strings.Join(s.trace, "\n"))
}
