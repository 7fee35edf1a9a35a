package engine

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"net/http"
	"os"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"outlierd/outlier/simulator"
	"outlierd/sinks/duckdb/query"
	"outlierd/sync/runs"
)

var soak = flag.Duration("soak", 0, "how long TestDaemonLeftAlone serves, of virtual time; 0 serves a sample")

const soakFile = `
version: 1
service: {url: "sim://", limit: 30/min}
defaults: {reuse_for: 1m}
jobs:
  coffee:
    every: 1h
    search: {query: [home espresso], pages: 2}
    enrich:
      channel_videos: {top: 20, refresh_after: 30m}
      details: {top: 30, refresh_after: 30m}
      comments: {top: 20, refresh_after: 30m}
      transcript: {top: 5}
  kin: {after: coffee, search: {query: [moka pot]}}
  topics:
    every: 2h
    for_each: {topic: [minecraft, latte art, sourdough, cycling, espresso machine repair, home espresso]}
    search: {query: "${topic}"}
  picked:
    every: 3h
    videos: {id: {sql: "select video_id from outliers order by video_id limit 5"}, fetch: [details]}
`

// sometimes makes about one call in twenty fail, in any way that needs no user.
func sometimes(s *simulator.Service, random *rand.Rand) http.RoundTripper {
	faults := []simulator.Fault{
		simulator.Unreachable, simulator.DropRequest, simulator.RateLimited, simulator.ServerError, simulator.GatewayPage,
		simulator.GatewayJSON, simulator.HTMLPage, simulator.Garbage, simulator.DropAnswer, simulator.CutBody, simulator.Stall,
		simulator.Slow,
	}
	var mu sync.Mutex
	wire := s.Transport()
	return roundTripper(func(r *http.Request) (*http.Response, error) {
		mu.Lock()
		if random.IntN(20) == 0 {
			s.FailNext("", faults[random.IntN(len(faults))])
		}
		mu.Unlock()
		return wire.RoundTrip(r)
	})
}

// usage is the resources of a process, and the size of its state.
type usage struct {
	heap, resident, goroutines, files float64

	bytes, answers int64 // size of the state, without the sinks' files; answers in the journal
}

func (w *workshop) usage(e *Engine) (u usage, err error) {
	runtime.GC()
	runtime.GC() // the first one runs finalizers, which free more
	var memory runtime.MemStats
	runtime.ReadMemStats(&memory)
	u.heap, u.goroutines = float64(memory.HeapAlloc), float64(runtime.NumGoroutine())
	if u.resident, err = resident(); err != nil {
		return u, err
	}
	if open, err := os.ReadDir("/proc/self/fd"); err == nil { // only on Linux
		u.files = float64(len(open))
	}
	if u.answers, err = e.Store.Journal.End(); err != nil {
		return u, err
	}
	err = filepath.WalkDir(filepath.Join(w.data(), "state"), func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() || strings.HasPrefix(entry.Name(), "warehouse") {
			return err
		}
		info, err := entry.Info()
		if err == nil {
			u.bytes += info.Size()
		}
		return err
	})
	return u, err
}

// resident returns the memory of the process in bytes, including DuckDB and SQLite, after the heap has
// returned unused memory; 0 if the system does not report it.
func resident() (float64, error) {
	debug.FreeOSMemory()
	text, err := os.ReadFile("/proc/self/statm")
	if errors.Is(err, fs.ErrNotExist) {
		return 0, nil
	}
	var size, pages float64
	if err == nil {
		_, err = fmt.Sscan(string(text), &size, &pages)
	}
	return pages * float64(os.Getpagesize()), err
}

// need summarizes consecutive samples: means, and the bytes by which the state has grown per answer.
type need struct{ heap, resident, goroutines, files, perAnswer float64 }

func needOf(samples []usage) (n need) {
	count := float64(len(samples))
	for _, u := range samples {
		n.heap, n.resident = n.heap+u.heap/count, n.resident+u.resident/count
		n.goroutines, n.files = n.goroutines+u.goroutines/count, n.files+u.files/count
	}
	first, last := samples[0], samples[len(samples)-1]
	n.perAnswer = float64(last.bytes-first.bytes) / float64(max(last.answers-first.answers, 1))
	return n
}

func (n need) String() string {
	return fmt.Sprintf("%.1f MB of heap, %.1f MB resident, %.1f goroutines, %.1f open files, %.0f bytes of state for each new answer",
		n.heap/1e6, n.resident/1e6, n.goroutines, n.files, n.perAnswer)
}

// TestDaemonLeftAlone: while one call in twenty fails, a daemon needs no more resources in the last
// quarter of its time than in the second, and no reader of the published file fails. By default it runs
// for a few hours, in which memory and state do not settle yet: `-soak 72h` tests them. It is not
// parallel, because it measures the whole process.
func TestDaemonLeftAlone(t *testing.T) {
	lasts, whole := *soak, *soak >= 2*day
	if lasts == 0 {
		if lasts = 90 * time.Minute; testing.Short() {
			t.Skip("serves for hours")
		}
	}
	synctest.Test(t, func(t *testing.T) {
		w := newWorkshop(t, soakFile)
		w.wire, w.single = sometimes(w.service, rand.New(rand.NewPCG(1, 5))), !whole
		e, stop := w.open()
		defer stop()
		if _, err := e.Agenda(time.Now()); err != nil {
			t.Fatal(err)
		}
		if err := e.Publish(w.ctx); err != nil { // for the first reader
			t.Fatal(err)
		}
		ctx, cancel := contextFor(w, lasts)
		defer cancel()
		var beside sync.WaitGroup
		samples, step := []usage(nil), max(lasts/64, 15*time.Minute)
		beside.Go(func() {
			for at := range every(ctx, step, step/2) {
				u, err := w.usage(e)
				if err != nil {
					t.Errorf("after %s: %v", at, err)
				}
				samples = append(samples, u)
			}
		})
		reads, most := 0, int64(0)
		beside.Go(func() {
			for at := range every(ctx, 31*time.Minute, 0) {
				err := query.RunUnsafe(w.ctx, w.duckdb(), "select count(*) from outliers", nil, func(values []any) error {
					most = max(most, values[0].(int64))
					return nil
				})
				if err != nil {
					t.Errorf("a reader after %s: %v", at, err)
				}
				reads++
			}
		})
		e.Serve(ctx)
		beside.Wait()
		ended := map[runs.Status]int{}
		rows, err := e.Store.Runs.List(runs.Filter{}, 0)
		if err != nil {
			t.Fatal(err)
		}
		for _, row := range rows {
			ended[row.Status]++
		}
		quarter, end := len(samples)/4, samples[len(samples)-1]
		second, last := needOf(samples[quarter:2*quarter]), needOf(samples[3*quarter:])
		t.Logf("%s: %d calls, %d answers, runs %v, %d reads, up to %d rows\nsecond quarter: %s\nlast quarter:   %s",
			lasts, w.service.Books().Total.Calls, end.answers, ended, reads, most, second, last)
		if most == 0 || ended[runs.OK]+ended[runs.Partial] < int(lasts/time.Hour) {
			t.Errorf("too little was done for this to show anything")
		}
		for _, q := range []struct {
			what         string
			second, last float64
			asked        bool
		}{
			{"heap", second.heap, last.heap, whole},
			{"resident memory", second.resident, last.resident, whole},
			{"goroutines", second.goroutines, last.goroutines, true},
			{"open files", second.files, last.files, true},
			{"bytes of state for each new answer", second.perAnswer, last.perAnswer, whole},
		} {
			if q.asked && q.last > 1.1*q.second {
				t.Errorf("%s: %.1f in the last quarter, %.1f in the second", q.what, q.last, q.second)
			}
		}
	})
}

// every calls a function with the elapsed time at each step until ctx ends; the first step is after a
// delay.
func every(ctx context.Context, step, delay time.Duration) func(func(time.Duration) bool) {
	return func(yield func(time.Duration) bool) {
		begin := time.Now()
		for wait := delay; ; wait = step {
			select {
			case <-ctx.Done():
				return
			case <-time.After(wait):
			}
			if !yield(time.Since(begin)) {
				return
			}
		}
	}
}
