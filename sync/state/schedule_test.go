package state_test

import (
	"cmp"
	"errors"
	"flag"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	gocmp "github.com/google/go-cmp/cmp"

	"outlierd/internal/testenv"
	"outlierd/outlier"
	"outlierd/outlier/simulator"
	"outlierd/sync/state"
	"outlierd/sync/store"
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

var schedules = flag.Int("schedules", 0, "how many schedules are played; 0 plays 30 by chance, or 10 with -short")

// seedsToPlay are the seeds of the schedules: as many as -schedules says, or by chance some of those
// that the command of CONTRIBUTING.md plays, so that ordinary runs play all in time.
func seedsToPlay(t *testing.T) []uint64 {
	t.Helper()
	return testenv.Seeds(t, *schedules, 12, 10_000)
}

// TestChargesStayWithinHoldsAndCaps plays schedules, in which the service never charges more than is held and
// never past a cap.
func TestChargesStayWithinHoldsAndCaps(t *testing.T) {
	t.Parallel()
	seeds := seedsToPlay(t)
	fresh := newFolder(t)
	var mu sync.Mutex
	seen := map[string]int{}
	begun := time.Now()
	t.Run("seeds", func(t *testing.T) {
		for part := range runtime.GOMAXPROCS(0) {
			t.Run(strconv.Itoa(part), func(t *testing.T) {
				t.Parallel()
				for i := part; i < len(seeds) && !t.Failed(); i += runtime.GOMAXPROCS(0) {
					s := play(t, fresh, uint64(seeds[i]), sabotage{})
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
	t.Logf("%d schedules in %v, %.0f in a second",
		len(seeds), took.Round(time.Millisecond), float64(len(seeds))/took.Seconds())
	for _, what := range slices.Sorted(maps.Keys(seen)) {
		t.Logf("%7d × %s", seen[what], what)
	}
	if len(seeds) >= 1000 && !t.Failed() {
		wantAllOf(t, seen)
	}
}

// TestScheduleFollowsFromItsSeed makes sure that a schedule can be told again.
func TestScheduleFollowsFromItsSeed(t *testing.T) {
	t.Parallel()
	fresh := newFolder(t)
	for seed := range uint64(2) {
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
	surcharge outlier.Credits   // of the price list on top of the service's prices
	names     map[string]string // of the jobs, by those with which they began
	zones     []*time.Location
	before    []state.Options // the calendars that were in force before

	service *simulator.Service
	end     string    // how scans stand that were begun, "" while they run
	key     int       // the one of the keys that is valid
	silent  bool      // it does not tell the time
	clock   time.Time // of the service, when the last process ended

	books
	mirror mirror

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
		Options: store.Options{MinFree: 8, FreeSpace: func(string) (uint64, error) { return 1 << 40, nil }},
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
