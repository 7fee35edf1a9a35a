package notify

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"outlierd/internal/testenv"
	"outlierd/sync/job"
	"outlierd/sync/state"
	"outlierd/sync/store"
)

// handler serves requests without a network, so that synctest's virtual time works. A handler that
// waits for the end of its request simulates a server that never answers.
type handler func(w http.ResponseWriter, r *http.Request)

func (h handler) RoundTrip(r *http.Request) (*http.Response, error) {
	answer := httptest.NewRecorder()
	h(answer, r)
	if err := r.Context().Err(); err != nil {
		return nil, err
	}
	return answer.Result(), nil
}

// parse returns a job file with the targets hook, other and check.
func parse(t *testing.T, rest string) *job.Config {
	t.Helper()
	src := `version: 1
service: {url: "sim://"}
notify:
  hook: {webhook: "https://hook.example/CANARY-4711", events: [published, failed, recovered, partial, budget_paused, schema_drift, disk_low]}
  other: {webhook: "https://other.example/CANARY-4711"}
  check: {healthchecks: "https://check.example/CANARY-4711"}
jobs:
  coffee: {search: {query: x}, notify: [hook, check]}
` + rest
	config, err := job.Parse("jobs.yaml", []byte(src), func(string) (string, bool) { return "", false })
	if err != nil {
		t.Fatal(err)
	}
	return config
}

// world is a state folder with a watcher and a log.
type world struct {
	*testing.T
	config  *job.Config
	dir     string
	state   *state.Store
	watcher *Watcher
	log     bytes.Buffer
	logs    *slog.Logger // see logger
	unsure  bool         // the service has not confirmed the clock
}

func newWorld(t *testing.T, rest string) *world {
	w := &world{T: t, config: parse(t, rest), dir: t.TempDir()}
	w.open()
	return w
}

// logger returns the logger of the watcher and of all deliverers. It is a single one, because a handler locks only
// its own writes.
func (w *world) logger() *slog.Logger {
	if w.logs == nil {
		w.logs = slog.New(slog.NewTextHandler(&w.log, nil))
	}
	return w.logs
}

func (w *world) open() {
	w.Helper()
	w.watcher = NewWatcher(w.config, w.logger())
	var err error
	w.state, err = state.Open(w.Context(), w.dir, state.Options{
		Began: w.watcher.RunBegan, Ended: w.watcher.RunEnded,
		Options: store.Options{FreeSpace: func(string) (uint64, error) { return 1 << 40, nil }, MinFree: 1 << 10},
	})
	if err != nil {
		w.Fatal(err)
	}
	if !w.unsure {
		w.state.Clock.Confirm()
	}
}

func (w *world) close() {
	w.Helper()
	if err := w.state.Close(); err != nil {
		w.Fatal(err)
	}
}

// update performs a unit of work.
func (w *world) update(f func(*store.Tx) error) {
	w.Helper()
	if err := w.state.DB.Update(f); err != nil {
		w.Fatal(err)
	}
}

// put puts events into the outbox for hook and other.
func (w *world) put(ids ...string) {
	w.Helper()
	w.update(func(tx *store.Tx) error {
		for _, id := range ids {
			if err := w.watcher.putEvents(tx, []string{"hook", "other"}, Event{ID: id, Kind: Failed, Title: id}); err != nil {
				return err
			}
		}
		return nil
	})
}

func (w *world) deliverer(network handler) *Deliverer {
	return &Deliverer{
		Store: w.state.DB, Ledger: w.state.Ledger, Targets: w.config.Targets, Log: w.logger(),
		Sender: &Sender{Transport: network, Redact: keepText},
	}
}

// start delivers until stop is called.
func (w *world) start(network handler) (stop func()) {
	ctx, cancel := context.WithCancel(w.Context())
	d, done := w.deliverer(network), make(chan struct{})
	go func() {
		d.Run(ctx)
		close(done)
	}()
	return func() {
		cancel()
		<-done
	}
}

// idIn returns the id of the event in a request.
func idIn(t *testing.T, r *http.Request) string {
	t.Helper()
	var e Event
	if err := json.NewDecoder(r.Body).Decode(&e); err != nil {
		t.Error(err)
	}
	return e.ID
}

// Each event fails three times, and the process restarts in between.
func TestFailedEventsAreRetriedAfterRestarts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, "")
		var mu sync.Mutex
		tries, arrived := map[string]int{}, map[string]int{}
		network := handler(func(a http.ResponseWriter, r *http.Request) {
			mu.Lock()
			defer mu.Unlock()
			id := idIn(t, r) + " at " + r.URL.Hostname()
			if tries[id]++; tries[id] <= 3 {
				a.WriteHeader(http.StatusServiceUnavailable)
				return
			}
			arrived[id]++
		})
		w.put("a", "b", "c")
		w.put("a", "b", "c") // has no effect
		for range 40 {
			stop := w.start(network)
			time.Sleep(time.Minute)
			stop()
			w.close()
			w.open()
		}
		for _, id := range []string{"a", "b", "c"} {
			for _, host := range []string{"hook.example", "other.example"} {
				if n := arrived[id+" at "+host]; n != 1 {
					t.Errorf("%s arrived %d times at %s after %d attempts, want once",
						id, n, host, tries[id+" at "+host])
				}
			}
		}
		w.close()
	})
}

// A target that is down for a day gets all events in order when it is back. Its outage costs few
// attempts and a log line an hour, and delays no other target.
// TestTargetIsAwayForDay is about one kind of failure, at random; the others last for four hours.
func TestTargetIsAwayForDay(t *testing.T) {
	whole, kind := testenv.Random(t).IntN(3), 0
	for name, down := range map[string]handler{
		"500": func(a http.ResponseWriter, _ *http.Request) { a.WriteHeader(http.StatusInternalServerError) },
		"redirect": func(a http.ResponseWriter, _ *http.Request) {
			http.Redirect(a, new(http.Request), "https://evil.example", http.StatusFound)
		},
		"never answering": func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() },
	} {
		hours := 4
		if kind == whole {
			hours = 24
		}
		kind++
		t.Run(fmt.Sprintf("%s for %d h", name, hours), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t, "")
				begin := time.Now()
				var mu sync.Mutex
				var hook, other []string
				attempts := 0
				stop := w.start(func(a http.ResponseWriter, r *http.Request) {
					if r.URL.Hostname() == "other.example" {
						mu.Lock()
						other = append(other, idIn(t, r))
						mu.Unlock()
						return
					}
					if r.URL.Hostname() != "hook.example" {
						t.Errorf("request to %s, want only hook.example and other.example", r.URL.Hostname())
					}
					attempts++
					if time.Since(begin) < time.Duration(hours)*time.Hour {
						down(a, r)
						return
					}
					hook = append(hook, idIn(t, r))
				})
				want := ""
				for i := range hours {
					w.put(fmt.Sprint(i))
					want += fmt.Sprint(i, " ")
					time.Sleep(time.Second)
					synctest.Wait()
					mu.Lock()
					if len(other) != i+1 {
						t.Errorf("a second after event %d other has %v, want all %d events", i, other, i+1)
					}
					mu.Unlock()
					time.Sleep(time.Hour - time.Second)
				}
				time.Sleep(7 * time.Hour)
				stop()
				if got := strings.Join(hook, " ") + " "; got != want {
					t.Errorf("hook got %s, want %s", got, want)
				}
				if most := hours + 18; attempts > most {
					t.Errorf("%d attempts for %d events, want at most %d", attempts, hours, most)
				}
				log := w.log.String()
				if lines := strings.Count(log, "\n"); lines == 0 || lines > hours || strings.Count(log, "notification failed") != lines || strings.Contains(log, secret) {
					t.Errorf("log, want at most a failure an hour, without the secret:\n%s", log)
				}
				w.close()
			})
		})
	}
}

func TestRefusedEventDoesNotDelayOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, "")
		var got []string
		w.put("bad", "good")
		stop := w.start(func(a http.ResponseWriter, r *http.Request) {
			if r.URL.Hostname() != "hook.example" {
				return
			}
			id := idIn(t, r)
			if id == "bad" {
				a.WriteHeader(http.StatusBadRequest)
				return
			}
			got = append(got, id)
		})
		time.Sleep(10 * time.Second)
		stop()
		if len(got) != 1 || got[0] != "good" {
			t.Errorf("hook accepted %v, want only good", got)
		}
		w.close()
	})
}

// TestFailuresAreLoggedOnceAnHour of a target that fails now and then.
func TestFailuresAreLoggedOnceAnHour(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, "")
		asked := 0
		flaps := handler(func(a http.ResponseWriter, r *http.Request) {
			if r.URL.Hostname() != "hook.example" {
				return
			}
			if asked++; asked%2 == 1 {
				a.WriteHeader(http.StatusServiceUnavailable)
			}
		})
		for hour := range 5 {
			stop := w.start(flaps)
			for i := range 30 {
				w.put(fmt.Sprint(hour, "-", i))
				time.Sleep(2 * time.Minute)
			}
			stop()
		}
		failed := strings.Count(w.log.String(), "notification failed")
		if failed < 4 || failed > 6 || asked < 290 {
			t.Errorf("%d attempts in 5 hours logged %d failures, want 4 to 6:\n%s", asked, failed, w.log.String())
		}
		w.close()
	})
}

// The clock was more than a year ahead, and is right when the next process begins: an event that was
// tried and one that was not arrive at once, and one that no target accepts is dropped after 7 days.
func TestEventsFromFutureArrive(t *testing.T) {
	dir := t.TempDir()
	down := handler(func(a http.ResponseWriter, _ *http.Request) { a.WriteHeader(http.StatusBadGateway) })
	synctest.Test(t, func(t *testing.T) {
		time.Sleep(400 * 24 * time.Hour)
		w := &world{T: t, config: parse(t, ""), dir: dir}
		w.open()
		w.put("tried")
		w.deliverer(down).Flush(t.Context())
		w.put("new")
		w.close()
	})
	synctest.Test(t, func(t *testing.T) {
		w := &world{T: t, config: parse(t, ""), dir: dir}
		w.open()
		var got []string
		other := handler(func(a http.ResponseWriter, r *http.Request) {
			if r.URL.Hostname() == "hook.example" {
				got = append(got, idIn(t, r))
				return
			}
			down(a, r)
		})
		stop := w.start(other)
		time.Sleep(10 * time.Second)
		synctest.Wait()
		if strings.Join(got, " ") != "tried new" {
			t.Errorf("after 10 s hook has %v, want tried and new", got)
		}
		stop()
		time.Sleep(8 * 24 * time.Hour)
		stop = w.start(other)
		time.Sleep(10 * time.Second)
		synctest.Wait()
		stop()
		if n := w.waiting(); n != 0 {
			t.Errorf("%d events wait after 8 days, want 0", n)
		}
		w.close()
	})
}

// A daemon that starts with a clock nine days ahead drops no event: it arrives once the clock is right.
func TestClockAheadDropsNoEvent(t *testing.T) {
	dir := t.TempDir()
	down := handler(func(a http.ResponseWriter, _ *http.Request) { a.WriteHeader(http.StatusBadGateway) })
	synctest.Test(t, func(t *testing.T) {
		w := &world{T: t, config: parse(t, ""), dir: dir}
		w.open()
		w.put("a")
		w.close()
	})
	synctest.Test(t, func(t *testing.T) {
		time.Sleep(9 * 24 * time.Hour)
		w := &world{T: t, config: parse(t, ""), dir: dir, unsure: true}
		w.open()
		stop := w.start(down)
		time.Sleep(3 * time.Hour)
		stop()
		if log := w.log.String(); strings.Contains(log, "dropped") {
			t.Errorf("log %s", log)
		}
		w.close()
	})
	synctest.Test(t, func(t *testing.T) {
		time.Sleep(time.Hour)
		w := &world{T: t, config: parse(t, ""), dir: dir}
		w.open()
		var mu sync.Mutex // targets are served side by side
		var got []string
		stop := w.start(func(_ http.ResponseWriter, r *http.Request) {
			mu.Lock()
			defer mu.Unlock()
			got = append(got, idIn(t, r))
		})
		time.Sleep(10 * time.Second)
		synctest.Wait()
		stop()
		if len(got) != 2 {
			t.Errorf("targets got %v, want the event at hook and at other", got)
		}
		w.close()
	})
}

func TestOutboxIsBounded(t *testing.T) {
	testenv.RacesLittle(t)
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, "")
		down := handler(func(a http.ResponseWriter, _ *http.Request) { a.WriteHeader(http.StatusBadGateway) })
		stop := w.start(down)
		w.put("a", "b")
		time.Sleep(8 * 24 * time.Hour)
		stop()
		if n := w.waiting(); n != 0 {
			t.Errorf("%d events wait after 8 days, want 0", n)
		}
		if log := w.log.String(); !strings.Contains(log, `msg="notifications dropped" events=4`) {
			t.Errorf("log, want 4 events dropped:\n%s", log)
		}
		var ids []string
		for i := range maxWaiting + 5 {
			ids = append(ids, fmt.Sprint(i))
		}
		w.put(ids...)
		if n := w.waiting(); n != 2*maxWaiting {
			t.Errorf("%d events wait, want %d for each of two targets", n, maxWaiting)
		}
		w.close()
	})
}

// waiting counts the events that wait.
func (w *world) waiting() (n int) {
	w.Helper()
	err := w.state.DB.View(func(tx *store.Tx) error {
		_, err := store.Scan(tx, []any{&n}, `SELECT count(*) FROM notify_outbox WHERE delivered = 0`)
		return err
	})
	if err != nil {
		w.Fatal(err)
	}
	return n
}

func TestBackoffGrowsToSixHours(t *testing.T) {
	for tries, want := range map[int]time.Duration{
		0: time.Minute, 3: 8 * time.Minute, 9: 6 * time.Hour, 1 << 40: 6 * time.Hour,
	} {
		if got := backoffAfter(tries); got != want {
			t.Errorf("backoffAfter(%d) = %v, want %v", tries, got, want)
		}
	}
}

// A target that fails on the content of one event, and does not refuse it, gets the others.
func TestFailingEventDelaysNoOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, "")
		var got []string
		asked := 0
		w.put("bad", "good", "better")
		stop := w.start(func(a http.ResponseWriter, r *http.Request) {
			if r.URL.Hostname() != "hook.example" {
				return
			}
			id := idIn(t, r)
			if asked++; id == "bad" {
				a.WriteHeader(http.StatusInternalServerError)
				return
			}
			got = append(got, id)
		})
		time.Sleep(90 * time.Minute)
		w.put("late")
		time.Sleep(8 * time.Hour)
		stop()
		if strings.Join(got, " ") != "good better late" {
			t.Errorf("got %v", got)
		}
		if asked > 15 {
			t.Errorf("%d attempts in 10 hours", asked)
		}
		w.close()
	})
}
