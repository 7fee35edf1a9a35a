package pace

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"path/filepath"
	"strconv"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"outlierd/outlier"
)

var (
	aSearch = must(outlier.NewRequest(outlier.OpSearch, nil, nil))
	aPoll   = must(outlier.DataRequest(outlier.OpScan, "3f2b8c1e-9d4a-4c6b-8e7f-0a1b2c3d4e5f"))
	details = must(outlier.DataRequest(outlier.OpDetails, "dQw4w9WgXcQ"))
)

func must(r *outlier.Request, err error) *outlier.Request {
	if err != nil {
		panic(err)
	}
	return r
}

func TestPollsTakeATwentiethAtMost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := open(t, tenAMinute, "")
		ctx, stop := context.WithTimeout(t.Context(), 10*time.Hour)
		defer stop()
		var polled, rest int
		call := func(r *outlier.Request, n *int) {
			for l.Wait(ctx, r) == nil {
				*n++
				time.Sleep(300 * time.Millisecond)
				l.Observe(&outlier.Answer{Status: 200})
			}
		}
		var wg sync.WaitGroup
		wg.Go(func() { call(aPoll, &polled) })
		wg.Go(func() { call(details, &rest) })
		wg.Wait()
		if polled < 290 || polled > 301 || polled+rest < 5950 {
			t.Errorf("%d polls and %d other calls in ten hours, want 290 to 301, and at least 5950 in total", polled, rest)
		}
	})
}

// TestRestartKeepsTheShareOfPolls: otherwise a process that restarts often would exceed it.
func TestRestartKeepsTheShareOfPolls(t *testing.T) {
	path := filepath.Join(t.TempDir(), "pace.json")
	synctest.Test(t, func(t *testing.T) {
		l := open(t, tenAMinute, path)
		if err := l.Wait(t.Context(), aPoll); err != nil {
			t.Fatal(err)
		}
		l.Observe(&outlier.Answer{Status: 200})
		time.Sleep(time.Minute)
		again := open(t, tenAMinute, path)
		if pause := time.Until(again.Poll()); pause != time.Minute {
			t.Errorf("a minute after a poll, and after a restart, the next poll may leave in %v, want 1m", pause)
		}
	})
}

// TestWaitingCallsUseEverySlot computes from the times alone when each call could have left: as soon as the
// last window has fewer requests than the quota.
func TestWaitingCallsUseEverySlot(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := open(t, tenAMinute, "")
		ctx, stop := context.WithTimeout(t.Context(), 12*time.Hour)
		defer stop()
		var mu sync.Mutex
		var left []time.Time
		random := rand.New(rand.NewPCG(3, 1))
		var wg sync.WaitGroup
		for i := range 14 { // more than the quota, so that one always waits
			r := []*outlier.Request{details, aSearch, details, details}[i%4]
			wg.Go(func() {
				for l.Wait(ctx, r) == nil {
					mu.Lock()
					left = append(left, time.Now())
					latency := time.Duration(200+random.IntN(1800)) * time.Millisecond
					mu.Unlock()
					sent := time.Now()
					time.Sleep(latency)
					l.Observe(&outlier.Answer{Status: 200, SentAt: sent})
				}
			})
		}
		wg.Wait()
		idle := 0
		for i := tenAMinute.Requests; i < len(left); i++ {
			if free := left[i-tenAMinute.Requests].Add(time.Minute + margin(time.Minute)); left[i].After(free) {
				idle++
			}
		}
		if idle > 0 || len(left) < 7160 {
			t.Errorf("%d of %d calls left late, want none of at least 7160", idle, len(left))
		}
	})
}

// A wait that would be longer than the maximum fails at once and takes no slot.
func TestTooLongWaitTakesNoSlot(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, err := Open(tenAMinute, Options{MaxWait: 30 * time.Second})
		if err != nil {
			t.Fatal(err)
		}
		drain(t, l, 10)
		begun := time.Now()
		long, ok := errors.AsType[*LongWaitError](l.Wait(t.Context(), details))
		if !ok || time.Since(begun) != 0 || !long.Until.Equal(begun.Add(time.Minute+margin(time.Minute))) {
			t.Errorf("Wait failed after %v with %v, want at once, with the time when it could leave", time.Since(begun), long)
		}
		time.Sleep(time.Until(long.Until) - 20*time.Second)
		drain(t, l, 10) // 20 s are not too long, and all slots are free
		if took := time.Since(begun); took != time.Minute+margin(time.Minute) {
			t.Errorf("the next ten calls had left after %v, want %v", took, time.Minute+margin(time.Minute))
		}
	})
}

// TestDefaultWaitCoversOneWindow: without a configured maximum, a client waits for the window of its quota,
// however long that is, or for ten minutes.
func TestDefaultWaitCoversOneWindow(t *testing.T) {
	for _, tt := range []struct {
		quota Quota
		share float64
		block time.Duration
		ok    bool
	}{
		{Quota{20, time.Hour}, 0, 0, true},
		{Quota{20, 24 * time.Hour}, 0, 0, true},
		{Quota{20, time.Hour}, 0.01, 0, true}, // one in five hours
		{tenAMinute, 0, 9 * time.Minute, true},
		{tenAMinute, 0, 11 * time.Minute, false},
		{Quota{20, time.Hour}, 0, 11 * time.Minute, true},
	} {
		t.Run(fmt.Sprint(tt), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				l, err := Open(tt.quota, Options{Share: tt.share})
				if err != nil {
					t.Fatal(err)
				}
				drain(t, l, l.Status().Limit-1)
				retry := strconv.Itoa(int(tt.block.Seconds()))
				ask(t, l, &outlier.Answer{
					Status: 503, Header: http.Header{"Retry-After": {retry}},
					Err: &outlier.Error{Kind: outlier.Foreign},
				})
				if err := l.Wait(t.Context(), details); (err == nil) != tt.ok {
					t.Errorf("the next call returned %v, want success: %t", err, tt.ok)
				}
			})
		})
	}
}

func TestTooLongBlockEndsWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, err := Open(Quota{2, time.Minute}, Options{MaxWait: 2 * time.Minute})
		if err != nil {
			t.Fatal(err)
		}
		drain(t, l, 1)
		if err := l.Wait(t.Context(), details); err != nil {
			t.Fatal(err)
		}
		failed := make(chan error, 1)
		go func() { failed <- l.Wait(t.Context(), details) }()
		synctest.Wait()
		begun := time.Now()
		l.Observe(&outlier.Answer{
			Status: 503, Header: http.Header{"Retry-After": {"600"}},
			Err: &outlier.Error{Kind: outlier.Foreign},
		})
		if _, ok := errors.AsType[*LongWaitError](<-failed); !ok || time.Since(begun) > time.Second {
			t.Errorf("Wait ended after %v, too long wait: %t; want at once", time.Since(begun), ok)
		}
	})
}

func TestShareLeavesTheRestToOthers(t *testing.T) {
	for _, tt := range []struct {
		share  float64
		limit  int
		window time.Duration
	}{
		{0, 10, time.Minute}, {1, 10, time.Minute}, {0.5, 5, time.Minute}, {0.39, 3, time.Minute},
		{0.05, 1, 2 * time.Minute},
	} {
		synctest.Test(t, func(t *testing.T) {
			l, err := Open(tenAMinute, Options{Share: tt.share})
			if err != nil {
				t.Fatal(err)
			}
			begun := time.Now()
			drain(t, l, 10*tt.limit)
			if s := l.Status(); s.Limit != tt.limit || s.Window != tt.window {
				t.Errorf("a share of %v is %d in %v, want %d in %v", tt.share, s.Limit, s.Window, tt.limit, tt.window)
			}
			if took := time.Since(begun); took != 9*(tt.window+margin(tt.window)) {
				t.Errorf("ten windows with a share of %v take %v, want %v", tt.share, took, 9*(tt.window+margin(tt.window)))
			}
		})
	}
	for _, share := range []float64{-0.1, 1.1} {
		if _, err := Open(tenAMinute, Options{Share: share}); err == nil {
			t.Errorf("Open accepts a share of %v, want an error", share)
		}
	}
}

// A queuedRun is a number of queued calls, and the forecasts made while they were sent.
type queuedRun struct {
	n     *link
	calls int

	mu       sync.Mutex
	left     []time.Time
	forecast map[int]time.Time // when the last call was to leave, by the number of calls taken
}

// begin takes the next call. It returns false if all were taken.
func (q *queuedRun) begin(l *Limiter) (i int, ok bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	i = len(q.left)
	if i == q.calls {
		return 0, false
	}
	if i == q.calls/10 || i == q.calls/2 || i == q.calls*9/10 {
		q.forecast[i] = time.Now().Add(l.ETA(q.calls - i))
	}
	q.left = append(q.left, time.Time{})
	return i, true
}

func (q *queuedRun) work(t *testing.T, l *Limiter) {
	for {
		i, ok := q.begin(l)
		if !ok {
			return
		}
		if err := l.Wait(t.Context(), details); err != nil {
			t.Error(err)
		}
		q.mu.Lock()
		q.left[i] = time.Now()
		q.mu.Unlock()
		l.Observe(q.n.answer(details))
	}
}

// TestETAIsAccurate as long as the quota limits a run, and not the latency of its calls: one worker alone
// cannot make 30 calls a minute that take up to two seconds.
func TestETAIsAccurate(t *testing.T) {
	for name, kind := range map[string]kind{
		"fixed window": clockOf(tenAMinute), "window from the first hit": hitOf(tenAMinute),
		"sliding log": slidingOf(tenAMinute), "bucket": bucketOf(10), "GCRA": bucketOf(1),
		"twice the window": clockOf(tenIn2Minutes), "three times the limit": clockOf(thirtyAMinute),
	} {
		for workers := 1; workers <= 3; workers += 2 {
			if workers == 1 && name == "three times the limit" {
				continue
			}
			t.Run(fmt.Sprintf("%s with %d workers", name, workers), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					l := open(t, tenAMinute, "")
					random := rand.New(rand.NewPCG(9, 9))
					n := &link{service: kind(random, 0), style: styles[5], random: random, begun: time.Now()}
					q := &queuedRun{n: n, calls: 300, forecast: map[int]time.Time{}}
					var wg sync.WaitGroup
					for range workers {
						wg.Go(func() { q.work(t, l) })
					}
					wg.Wait()
					for i, at := range q.forecast {
						from, end := q.left[i-1], q.left[q.calls-1]
						if off, took := at.Sub(end).Abs(), end.Sub(from); off > took/10 {
							t.Errorf("after %d of %d calls, the forecast of the end is off by %v, want at most a tenth of %v",
								i, q.calls, off, took)
						}
					}
				})
			})
		}
	}
}
