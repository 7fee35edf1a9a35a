package state_test

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"outlierd/outlier"
	"outlierd/sync/queue"
	"outlierd/sync/state/statetest"
	"outlierd/sync/store"
)

// BenchmarkLook is what a worker asks of the queue before each call and while it has nothing
// to do, with 100,800 queued calls, as many as can be served before they expire.
func BenchmarkLook(b *testing.B) {
	s := statetest.Open(b, large(b, false))
	for name, f := range map[string]queue.Filter{"all": {}, "job": {Job: "job-07"}} {
		for what, look := range map[string]func() error{
			"next":    func() error { _, err := s.Queue.NextTask(time.Now(), f); return err },
			"pending": func() error { _, err := s.Queue.Pending(time.Now(), f); return err },
			"retry":   func() error { _, err := s.Queue.NextRetry(time.Now(), f); return err },
			"queued":  func() error { _, err := s.Queue.Queued(f); return err },
			"list":    func() error { _, err := s.Queue.List(time.Now(), f, 0); return err },
			"first":   func() error { _, err := s.Queue.List(time.Now(), f, 40); return err },
			"counts":  func() error { _, err := s.Queue.Counts(); return err },
		} {
			b.Run(what+"/"+name, func(b *testing.B) {
				for b.Loop() {
					if err := look(); err != nil {
						b.Fatal(err)
					}
				}
			})
		}
	}
}

// BenchmarkQueue queues 10,000 calls beside 100,800 others.
func BenchmarkQueue(b *testing.B) {
	s := statetest.Open(b, large(b, false))
	const calls = 10_000
	b.ReportAllocs()
	round := 0
	for b.Loop() {
		round++
		tasks := make([]queue.Task, calls)
		for n := range tasks {
			tasks[n] = queue.Task{Op: outlier.OpDetails, Entity: fmt.Sprintf("n%04d%06d", round, n), Run: "run", Job: "new", Value: 1 - float64(n)/1e6}
		}
		statetest.Enqueue(b, s, tasks...)
	}
	b.ReportMetric(float64(b.Elapsed().Microseconds())/float64(b.N*calls), "µs/call")
}

// BenchmarkClearQueue gives up the 27,500 calls of a job while a goroutine writes, and tells for how long that one
// had to wait at most.
func BenchmarkClearQueue(b *testing.B) {
	dir := large(b, false)
	s := statetest.Open(b, dir)
	ctx, stop := context.WithCancel(b.Context())
	var worst time.Duration
	var writing sync.WaitGroup
	writing.Go(func() {
		for ctx.Err() == nil {
			began := time.Now()
			if err := s.DB.Update(func(tx *store.Tx) error { return store.Cell[string]{Key: "beside"}.Set(tx, "a writer") }); err != nil {
				b.Error(err)
			}
			worst = max(worst, time.Since(began))
			time.Sleep(time.Millisecond)
		}
	})
	calls := 0
	for job := 0; b.Loop(); job++ {
		gone, kept, err := s.Queue.Cancel(fmt.Sprintf("job-%02d", job))
		if err != nil {
			b.Fatal(err)
		}
		calls += gone + kept
	}
	stop()
	writing.Wait()
	b.ReportMetric(float64(b.Elapsed().Microseconds())/float64(max(calls, 1)), "µs/call")
	b.ReportMetric(float64(worst.Milliseconds()), "worst-wait-ms")
}
