package pace

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"outlierd/outlier"
)

// A link connects limiters with a service, and counts the calls.
type link struct {
	service service
	style   style
	begun   time.Time

	mu       sync.Mutex
	random   *rand.Rand
	admitted int
	refused  int
}

// pause waits for a random time up to most.
func (n *link) pause(most time.Duration) {
	n.mu.Lock()
	d := time.Duration(n.random.Int64N(int64(most)))
	n.mu.Unlock()
	time.Sleep(d)
}

// answer sends r to the service and returns its answer.
func (n *link) answer(r *outlier.Request) *outlier.Answer {
	sent := time.Now()
	n.pause(jitter)
	n.mu.Lock()
	counted := time.Now()
	v := n.service.ask(counted.Sub(n.begun))
	if v.ok {
		n.admitted++
	} else {
		n.refused++
	}
	n.mu.Unlock()
	n.pause(maxLatency)
	a := answer(n.style, v, counted, time.Now())
	a.Request, a.SentAt = r, sent
	return a
}

// call makes one call with l. If ctx is cancelled, which stands for a killed process, a call in flight
// reaches the service, but its answer is lost.
func (n *link) call(ctx context.Context, l *Limiter) error {
	if err := l.Wait(ctx, details); err != nil {
		return err
	}
	a := n.answer(details)
	if ctx.Err() != nil {
		return ctx.Err()
	}
	l.Observe(a)
	return nil
}

// refusal returns an answer with status 429.
func refusal(rate *outlier.Rate, header http.Header) *outlier.Answer {
	if header == nil {
		header = http.Header{}
	}
	err := &outlier.Error{Kind: outlier.Limited, Status: 429, Rate: rate}
	return &outlier.Answer{Status: 429, Header: header, Err: err}
}

// work makes calls with the given number of workers for d, and then kills the process.
func (n *link) work(l *Limiter, workers int, d time.Duration) {
	ctx, kill := context.WithTimeout(context.Background(), d)
	defer kill()
	var wg sync.WaitGroup
	for range workers {
		wg.Go(func() {
			for n.call(ctx, l) == nil {
			}
		})
	}
	wg.Wait()
}

// open opens a limiter whose calls wait for up to a day.
func open(t *testing.T, q Quota, path string) *Limiter {
	t.Helper()
	l, err := Open(q, Options{Path: path, MaxWait: day})
	if err != nil {
		t.Fatal(err)
	}
	return l
}

var tenAMinute = Quota{10, time.Minute}

// TestConcurrentCallsUseExactQuota: they use it up and never exceed it, with goroutines, locks and files,
// which the simulation of [TestTable] does without.
func TestConcurrentCallsUseExactQuota(t *testing.T) {
	for name, tt := range map[string]struct {
		quota    Quota
		workers  int
		killedAt time.Duration // restarted at this interval; 0 never
		span     time.Duration
		use      float64 // minimum utilisation
	}{
		"one worker":               {tenAMinute, 1, 0, 2 * time.Hour, 0.98},
		"two workers":              {tenAMinute, 2, 0, 2 * time.Hour, 0.98},
		"more workers than slots":  {Quota{3, 10 * time.Second}, 5, 0, time.Hour, 0.93},
		"killed every ten minutes": {tenAMinute, 2, 10 * time.Minute, time.Hour, 0.97},
		"killed in every window":   {tenAMinute, 2, 47 * time.Second, time.Hour, 0.93},
		"an hour's window":         {Quota{100, time.Hour}, 2, 0, 24 * time.Hour, 0.95},
	} {
		for kind, newService := range map[string]kind{
			"fixed window": clockOf(tt.quota), "sliding log": slidingOf(tt.quota),
		} {
			t.Run(name+" on a "+kind, func(t *testing.T) {
				path := ""
				if tt.killedAt > 0 {
					path = filepath.Join(t.TempDir(), "pace.json")
				}
				synctest.Test(t, func(t *testing.T) {
					random := rand.New(rand.NewPCG(1, 2))
					n := &link{service: newService(random, 1), style: styles[0], random: random, begun: time.Now()}
					for time.Since(n.begun) < tt.span {
						left := tt.span - time.Since(n.begun)
						if tt.killedAt > 0 {
							left = min(left, tt.killedAt)
						}
						n.work(open(t, tt.quota, path), tt.workers, left)
					}
					if use := float64(n.admitted) / n.service.most(tt.span); n.refused > 0 || use < tt.use {
						t.Errorf("%d refused, %.1f %% of the quota used; want none and at least %.1f %%",
							n.refused, 100*use, 100*tt.use)
					}
				})
			})
		}
	}
}

func TestFreshWindowIsUsedAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := open(t, tenAMinute, "")
		for range 2 {
			begun := time.Now()
			for range 10 {
				if err := l.Wait(t.Context(), details); err != nil {
					t.Fatal(err)
				}
				l.Observe(&outlier.Answer{Status: 200})
			}
			if took := time.Since(begun); took != 0 {
				t.Errorf("ten requests took %v, want no wait", took)
			}
			if s := l.Status(); s.Remaining != 0 || time.Until(s.Reset) != time.Minute+margin(time.Minute) {
				t.Errorf("then the status is %+v, want 0 remaining, reset in %v", s, time.Minute+margin(time.Minute))
			}
			time.Sleep(2 * time.Minute)
		}
		want := Status{Limit: 10, Window: time.Minute, Remaining: 10, Reset: wallClock()}
		if s := l.Status(); s != want {
			t.Errorf("after a pause the status is %+v, want %+v", s, want)
		}
	})
}

func TestUnsentRequestGivesItsSlotBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := open(t, Quota{1, time.Hour}, "")
		for range 3 {
			if err := l.Wait(t.Context(), details); err != nil {
				t.Fatal(err)
			}
			go func() {
				time.Sleep(time.Second)
				l.Unsent(nil)
			}()
			begun := time.Now()
			if err := l.Wait(t.Context(), details); err != nil || time.Since(begun) != time.Second {
				t.Errorf("the next call waited %v: %v, want 1s", time.Since(begun), err)
			}
			l.Unsent(nil)
		}
	})
}

func TestWaitEndsWithItsContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := open(t, Quota{1, time.Hour}, "")
		if err := l.Wait(t.Context(), details); err != nil {
			t.Fatal(err)
		}
		stop := errors.New("stopping")
		ctx, cancel := context.WithTimeoutCause(t.Context(), 5*time.Second, stop)
		defer cancel()
		begun := time.Now()
		if err := l.Wait(ctx, details); !errors.Is(err, stop) || time.Since(begun) != 5*time.Second {
			t.Errorf("Wait ended after %v with %v, want 5s with %v", time.Since(begun), err, stop)
		}
		if err := l.Wait(ctx, details); !errors.Is(err, stop) {
			t.Errorf("Wait with an ended context returned %v, want %v", err, stop)
		}
	})
}

// drain makes n calls that are answered at once.
func drain(t *testing.T, l *Limiter, n int) {
	t.Helper()
	for range n {
		if err := l.Wait(t.Context(), details); err != nil {
			t.Fatal(err)
		}
		l.Observe(&outlier.Answer{Status: 200})
	}
}

func TestRestartKeepsTheWindow(t *testing.T) {
	path := filepath.Join(t.TempDir(), "pace.json")
	synctest.Test(t, func(t *testing.T) {
		drain(t, open(t, tenAMinute, path), 7)
		time.Sleep(20 * time.Second)
		l := open(t, tenAMinute, path)
		if s := l.Status(); s.Remaining != 3 {
			t.Errorf("after 7 of 10 requests and a restart, %d remain, want 3", s.Remaining)
		}
		drain(t, l, 3)
		s := open(t, tenAMinute, path).Status()
		if s.Remaining != 0 || time.Until(s.Reset) != 40*time.Second+margin(time.Minute) {
			t.Errorf("after 10 of 10 requests and a restart, status is %+v, reset in %v; want 0 remaining, reset in %v",
				s, time.Until(s.Reset), 40*time.Second+margin(time.Minute))
		}
	})
}

func TestWindowOfAnotherOwnerIsIgnored(t *testing.T) {
	path := filepath.Join(t.TempDir(), "pace.json")
	synctest.Test(t, func(t *testing.T) {
		drain(t, open(t, tenAMinute, path), 7)
		l, err := Open(tenAMinute, Options{Path: path, Owner: "another key"})
		if err != nil || l.Status().Remaining != 10 {
			t.Errorf("%d remain, error %v; want 10", l.Status().Remaining, err)
		}
	})
}

// TestInvalidFileCountsAsNone: as if it was lost, a command begins at once.
func TestInvalidFileCountsAsNone(t *testing.T) {
	for name, text := range map[string]string{
		"empty":              "",
		"truncated":          `{"done":[{"at":"20`,
		"negative":           `{"Log":["yesterday"]}`,
		"out of order":       `{"Log":["2000-01-02T00:00:00Z","2000-01-01T00:00:00Z"]}`,
		"another kind":       `[1]`,
		"negative in flight": `{"Out":-1}`,
	} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "pace.json")
			if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
			synctest.Test(t, func(t *testing.T) {
				if s := open(t, tenAMinute, path).Status(); s.Remaining != 10 || s.Reset.After(time.Now()) {
					t.Errorf("status is %+v, want 10 requests at once", s)
				}
			})
		})
	}
}

func TestUnwritableFileFailsCall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := open(t, tenAMinute, filepath.Join(t.TempDir(), "missing", "pace.json"))
		if err := l.Wait(t.Context(), details); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("Wait returned %v, want %v", err, os.ErrNotExist)
		}
		if s := l.Status(); s.Remaining != 10 {
			t.Errorf("after a failed Wait, status is %+v, want 10 remaining", s)
		}
	})
}

func TestTimesInTheFutureAreLimited(t *testing.T) {
	path := filepath.Join(t.TempDir(), "pace.json")
	synctest.Test(t, func(t *testing.T) {
		future := time.Now().Add(1000 * time.Hour).UTC().Format(time.RFC3339)
		text := fmt.Sprintf(
			`{"Log":[%[1]q,%[1]q],"Last":%[1]q,"Blocked":%[1]q,"Pacing":{"NextTrial":%[1]q}}`,
			future,
		)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		begun := time.Now()
		drain(t, open(t, tenAMinute, path), 1)
		if took := time.Since(begun); took != maxBlock+clockSlack {
			t.Errorf("the next request left after %v, want %v", took, maxBlock+clockSlack)
		}
	})
}

// TestLargeQuotaIsSavedRarely: the file is not written for each of a thousand requests a second.
func TestLargeQuotaIsSavedRarely(t *testing.T) {
	path := filepath.Join(t.TempDir(), "pace.json")
	synctest.Test(t, func(t *testing.T) {
		q := Quota{100_000, time.Minute}
		l := open(t, q, path)
		saves := 0
		var last string
		for range 5000 {
			drain(t, l, 1)
			time.Sleep(time.Millisecond)
			if text, err := os.ReadFile(path); err != nil {
				t.Fatal(err)
			} else if string(text) != last {
				saves, last = saves+1, string(text)
			}
		}
		if saves != 5 {
			t.Errorf("5000 requests are saved %d times, want 5", saves)
		}
		extra := l.Status().Remaining - open(t, q, path).Status().Remaining
		if extra < 0 || extra > q.Requests/100 {
			t.Errorf("a restart counts %d requests more than were made, want 0 to %d", extra, q.Requests/100)
		}
	})
}
