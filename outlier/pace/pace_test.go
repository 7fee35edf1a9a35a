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

// A server is one kind of rate limit, asked as each request arrives.
type server interface{ admit(now time.Time) bool }

// fixed has windows that follow each other from its epoch.
type fixed struct {
	Quota
	epoch time.Time
	began time.Time
	used  int
}

func (s *fixed) admit(now time.Time) bool {
	if began := s.epoch.Add(now.Sub(s.epoch).Truncate(s.Window)); !began.Equal(s.began) {
		s.began, s.used = began, 0
	}
	s.used++
	return s.used <= s.Requests
}

// firstHit has a window that begins with the first request after the last one.
type firstHit struct {
	Quota
	ends time.Time
	used int
}

func (s *firstHit) admit(now time.Time) bool {
	if !now.Before(s.ends) {
		s.ends, s.used = now.Add(s.Window), 0
	}
	s.used++
	return s.used <= s.Requests
}

// sliding counts what arrived in the window before each request.
type sliding struct {
	Quota
	seen []time.Time
}

func (s *sliding) admit(now time.Time) bool {
	for len(s.seen) > 0 && now.Sub(s.seen[0]) >= s.Window {
		s.seen = s.seen[1:]
	}
	s.seen = append(s.seen, now)
	return len(s.seen) <= s.Requests
}

// bucket refills evenly up to its burst.
type bucket struct {
	Quota
	burst  float64
	tokens float64
	last   time.Time
}

func (s *bucket) admit(now time.Time) bool {
	if s.last.IsZero() {
		s.tokens = s.burst
	} else {
		s.tokens = min(s.burst, s.tokens+float64(now.Sub(s.last))/float64(s.spacing()))
	}
	s.last = now
	if s.tokens < 1 {
		return false
	}
	s.tokens--
	return true
}

// A line leads from limiters to a server, and counts.
type line struct {
	server server
	delay  func() time.Duration // each way

	mu       sync.Mutex
	admitted int
	refused  int
}

// call makes one call over l. The end of ctx is a kill of the process: a call that
// is out then reaches the server, but its answer nobody.
func (n *line) call(ctx context.Context, l *Limiter) error {
	r := &outlier.Request{Op: outlier.OpDetails}
	if err := l.Wait(ctx, r); err != nil {
		return err
	}
	time.Sleep(n.delay())
	n.mu.Lock()
	ok := n.server.admit(time.Now())
	if ok {
		n.admitted++
	} else {
		n.refused++
	}
	n.mu.Unlock()
	time.Sleep(n.delay())
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if ok {
		l.Observe(&outlier.Answer{Request: r, Status: 200})
	} else {
		l.Observe(refusal(nil, nil))
	}
	return nil
}

// refusal is a 429 answered now.
func refusal(rate *outlier.Rate, header http.Header) *outlier.Answer {
	if header == nil {
		header = http.Header{}
	}
	return &outlier.Answer{Status: 429, Header: header, Err: &outlier.Error{Kind: outlier.Limited, Status: 429, Rate: rate}}
}

// work calls with so many workers until d has passed or the process is killed.
func (n *line) work(l *Limiter, workers int, d time.Duration) {
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

func open(t *testing.T, q Quota, path string) *Limiter {
	t.Helper()
	l, err := Open(q, Options{Path: path})
	if err != nil {
		t.Fatal(err)
	}
	return l
}

var tenAMinute = Quota{10, time.Minute}

// servers are the kinds of limit that 10 a minute may mean.
func servers(q Quota) map[string]server {
	epoch := time.Date(1999, 12, 31, 23, 59, 17, 0, time.UTC) // not where the test's clock begins
	return map[string]server{
		"fixed window":                     &fixed{Quota: q, epoch: epoch},
		"window from the first hit":        &firstHit{Quota: q},
		"sliding window":                   &sliding{Quota: q},
		"token bucket with a whole window": &bucket{Quota: q, burst: float64(q.Requests)},
	}
}

func TestQuotaIsUsedUpAndNeverExceeded(t *testing.T) {
	for name, tt := range map[string]struct {
		quota    Quota
		workers  int
		killedAt time.Duration // restarted at this interval; 0 never
		span     time.Duration
		use      float64 // of what the quota allows
	}{
		"one worker":               {tenAMinute, 1, 0, 2 * time.Hour, 0.98},
		"two workers":              {tenAMinute, 2, 0, 2 * time.Hour, 0.98},
		"more workers than slots":  {Quota{3, 10 * time.Second}, 5, 0, time.Hour, 0.95},
		"killed every ten minutes": {tenAMinute, 2, 10 * time.Minute, time.Hour, 0.97},
		"killed in every window":   {tenAMinute, 2, 47 * time.Second, time.Hour, 0.95},
		"an hour's window":         {Quota{100, time.Hour}, 2, 0, 24 * time.Hour, 0.99},
	} {
		for kind := range servers(tt.quota) {
			t.Run(name+" on a "+kind, func(t *testing.T) {
				path := ""
				if tt.killedAt > 0 {
					path = filepath.Join(t.TempDir(), "pace.json")
				}
				synctest.Test(t, func(t *testing.T) {
					random := rand.New(rand.NewPCG(1, 2))
					var mu sync.Mutex
					n := &line{server: servers(tt.quota)[kind], delay: func() time.Duration {
						mu.Lock()
						defer mu.Unlock()
						return time.Duration(random.IntN(240)) * time.Millisecond
					}}
					for begun := time.Now(); time.Since(begun) < tt.span; {
						left := tt.span - time.Since(begun)
						if tt.killedAt > 0 {
							left = min(left, tt.killedAt)
						}
						n.work(open(t, tt.quota, path), tt.workers, left)
					}
					allowed := float64(tt.quota.Requests) * float64(tt.span) / float64(tt.quota.Window)
					if use := float64(n.admitted) / allowed; n.refused > 0 || use < tt.use {
						t.Errorf("%d refused, %.1f %% of the quota used", n.refused, 100*use)
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
				if err := l.Wait(t.Context(), nil); err != nil {
					t.Fatal(err)
				}
				l.Observe(&outlier.Answer{Status: 200})
			}
			if took := time.Since(begun); took != 0 {
				t.Errorf("ten requests took %v", took)
			}
			if s := l.Status(); s.Remaining != 0 || time.Until(s.Reset) != time.Minute+margin(time.Minute) {
				t.Errorf("then the status is %+v", s)
			}
			time.Sleep(2 * time.Minute)
		}
		if s, want := l.Status(), (Status{Limit: 10, Window: time.Minute, Remaining: 10, Reset: wallClock()}); s != want {
			t.Errorf("after a pause the status is %+v, want %+v", s, want)
		}
	})
}

func TestUnsentRequestGivesItsSlotBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := open(t, Quota{1, time.Hour}, "")
		for range 3 {
			if err := l.Wait(t.Context(), nil); err != nil {
				t.Fatal(err)
			}
			go func() {
				time.Sleep(time.Second)
				l.Unsent(nil)
			}()
			begun := time.Now()
			if err := l.Wait(t.Context(), nil); err != nil || time.Since(begun) != time.Second {
				t.Errorf("the next one waited %v: %v", time.Since(begun), err)
			}
			l.Unsent(nil)
		}
	})
}

func TestWaitEndsWithItsContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := open(t, Quota{1, time.Hour}, "")
		if err := l.Wait(t.Context(), nil); err != nil {
			t.Fatal(err)
		}
		stop := errors.New("stopping")
		ctx, cancel := context.WithTimeoutCause(t.Context(), 5*time.Second, stop)
		defer cancel()
		begun := time.Now()
		if err := l.Wait(ctx, nil); !errors.Is(err, stop) || time.Since(begun) != 5*time.Second {
			t.Errorf("ended after %v with %v", time.Since(begun), err)
		}
		if err := l.Wait(ctx, nil); !errors.Is(err, stop) {
			t.Errorf("an ended context may leave: %v", err)
		}
	})
}

// drain uses up a window at one moment.
func drain(t *testing.T, l *Limiter, n int) {
	t.Helper()
	for range n {
		if err := l.Wait(t.Context(), nil); err != nil {
			t.Fatal(err)
		}
		l.Observe(&outlier.Answer{Status: 200})
	}
}

func TestWindowOutlivesTheProcess(t *testing.T) {
	path := filepath.Join(t.TempDir(), "pace.json")
	synctest.Test(t, func(t *testing.T) {
		drain(t, open(t, tenAMinute, path), 7)
		time.Sleep(20 * time.Second)
		l := open(t, tenAMinute, path)
		if s := l.Status(); s.Remaining != 3 {
			t.Errorf("after 7 of 10 a restart finds %d", s.Remaining)
		}
		drain(t, l, 3)
		if s := open(t, tenAMinute, path).Status(); s.Remaining != 0 || time.Until(s.Reset) != 40*time.Second+margin(time.Minute) {
			t.Errorf("after 10 of 10 a restart finds %+v, free in %v", s, time.Until(s.Reset))
		}
	})
}

func TestWindowOfAnotherOwnerIsNotBelieved(t *testing.T) {
	path := filepath.Join(t.TempDir(), "pace.json")
	synctest.Test(t, func(t *testing.T) {
		drain(t, open(t, tenAMinute, path), 7)
		l, err := Open(tenAMinute, Options{Path: path, Owner: "another key"})
		if err != nil || l.Status().Remaining != 10 {
			t.Errorf("remaining %d, error %v", l.Status().Remaining, err)
		}
	})
}

func TestFileThatMakesNoSenseIsAFullWindow(t *testing.T) {
	for name, text := range map[string]string{
		"empty":              "",
		"cut":                `{"done":[{"at":"20`,
		"negative":           `{"Log":{"Cells":[{"at":"2000-01-01T00:00:00Z","n":-5}]}}`,
		"out of order":       `{"Log":{"Cells":[{"at":"2000-01-02T00:00:00Z","n":1},{"at":"2000-01-01T00:00:00Z","n":1}]}}`,
		"another kind":       `[1]`,
		"negative in flight": `{"Out":-1}`,
	} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "pace.json")
			if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
			synctest.Test(t, func(t *testing.T) {
				if s := open(t, tenAMinute, path).Status(); s.Remaining != 0 || time.Until(s.Reset) != time.Minute+margin(time.Minute) {
					t.Errorf("status is %+v", s)
				}
			})
		})
	}
}

func TestNothingLeavesThatCannotBeRemembered(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := open(t, tenAMinute, filepath.Join(t.TempDir(), "missing", "pace.json"))
		if err := l.Wait(t.Context(), nil); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("error is %v", err)
		}
		if s := l.Status(); s.Remaining != 10 {
			t.Errorf("the failed wait took a slot: %+v", s)
		}
	})
}

func TestClockSetBackCostsAWindowAtMost(t *testing.T) {
	path := filepath.Join(t.TempDir(), "pace.json")
	synctest.Test(t, func(t *testing.T) {
		future := time.Now().Add(1000 * time.Hour).UTC().Format(time.RFC3339)
		text := fmt.Sprintf(`{"Log":{"Cells":[{"at":%[1]q,"n":10}]},"Last":%[1]q,"Blocked":%[1]q,"Lesson":{"At":%[1]q}}`, future)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		begun := time.Now()
		drain(t, open(t, tenAMinute, path), 1)
		if took := time.Since(begun); took != longBlock+guard {
			t.Errorf("the next request left after %v", took)
		}
	})
}

// A quota of thousands must not cost thousands for each request.
func TestLargeQuotaIsRememberedCoarsely(t *testing.T) {
	path := filepath.Join(t.TempDir(), "pace.json")
	synctest.Test(t, func(t *testing.T) {
		q := Quota{100_000, time.Minute}
		l := open(t, q, path)
		saves := 0
		var last string
		for range 50_000 {
			drain(t, l, 1)
			time.Sleep(time.Millisecond)
			if saves < 2000 && l.core.prepaid == 999 { // the first that a save covers
				text, err := os.ReadFile(path)
				if err != nil {
					t.Fatal(err)
				}
				if string(text) != last {
					saves++
				}
				last = string(text)
			}
		}
		if len(l.core.Log.Cells) > 1001 || saves != 50 || len(last) > 100_000 {
			t.Errorf("%d cells, %d saves, %d bytes", len(l.core.Log.Cells), saves, len(last))
		}
		forgot := l.Status().Remaining - open(t, q, path).Status().Remaining
		if forgot < 0 || forgot > q.Requests/100 {
			t.Errorf("a restart finds %d requests fewer", forgot)
		}
	})
}

func BenchmarkLargeQuota(b *testing.B) {
	l, err := Open(Quota{100_000_000, time.Minute}, Options{Path: filepath.Join(b.TempDir(), "pace.json")})
	if err != nil {
		b.Fatal(err)
	}
	a := &outlier.Answer{Status: 200}
	for b.Loop() {
		if err := l.Wait(b.Context(), nil); err != nil {
			b.Fatal(err)
		}
		l.Observe(a)
	}
}
