package state_test

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"syscall"
	"testing"
	"time"

	"outlierd/outlier"
	"outlierd/sync/ledger"
	"outlierd/sync/queue"
	"outlierd/sync/runs"
	"outlierd/sync/state"
	"outlierd/sync/state/statetest"
	"outlierd/sync/store"
)

// page is a body of the size of a search answer: some 12 KB in gzip.
func page(t testing.TB) []byte {
	words := strings.Fields("how i built a tiny house in one week and why it works no one told you this about money chess openings")
	random := rand.New(rand.NewPCG(1, 2))
	var b strings.Builder
	for range 40 {
		fmt.Fprintf(&b, `{"id":"%011x","snippet":{"channelId":"UC%022x","title":"`, random.Uint64(), random.Uint64())
		for range 150 {
			b.WriteString(words[random.IntN(len(words))] + " ")
		}
		fmt.Fprintf(&b, `"},"statistics":{"viewCount":%d,"likeCount":%d,"zScore":%f,"averageViewsRatio":%f}}`,
			random.IntN(1e8), random.IntN(1e6), random.NormFloat64(), random.ExpFloat64())
	}
	return statetest.Gzipped(t, b.String())
}

// BenchmarkOpen opens and closes a new state, as most tests do, and one that has bought a page.
func BenchmarkOpen(b *testing.B) {
	for name, used := range map[string]bool{"new": false, "used": true} {
		b.Run(name, func(b *testing.B) {
			dir := b.TempDir()
			s := statetest.Open(b, dir)
			if used {
				statetest.BeginRun(b, s, "run-1")
				request := statetest.SearchRequest("0")
				statetest.Buy(b, s, statetest.Capped(100), statetest.AnswerTo(request, `{}`), outlier.Charged)
			}
			if err := s.Close(); err != nil {
				b.Fatal(err)
			}
			cpu := processorTime(b)
			for b.Loop() {
				s, err := state.Open(b.Context(), dir, statetest.Options())
				if err == nil {
					err = s.Close()
				}
				if err != nil {
					b.Fatal(err)
				}
			}
			reportCPU(b, cpu)
		})
	}
}

func BenchmarkSettleFree(b *testing.B) {
	s := statetest.Open(b, b.TempDir())
	statetest.BeginRun(b, s, "run-1")
	body := page(b)
	cpu := processorTime(b)
	n := 0
	for b.Loop() {
		n++
		request := statetest.DetailsRequest(fmt.Sprintf("%011d", n))
		task := queue.Task{Op: outlier.OpDetails, Entity: request.Entity(), Run: "run-1", Job: "ideas"}
		answer := statetest.AnswerTo(request, "")
		answer.Body, answer.Encoding = body, "gzip"
		statetest.Buy(b, s, ledger.Purchase{Run: "run-1", Job: "ideas", Attempt: 1, Commit: func(tx *store.Tx, k ledger.Kept) error {
			return queue.Done(tx, task, k.Response, false, time.Time{})
		}}, answer, outlier.Charged)
	}
	reportCPU(b, cpu)
	b.ReportMetric(float64(len(body)), "bytes/answer")
}

// BenchmarkDataCalls measures what the database costs of a data call, from its place in the queue to the
// kept answer.
func BenchmarkDataCalls(b *testing.B) {
	s := statetest.Open(b, b.TempDir())
	statetest.BeginRun(b, s, "run-1")
	random := rand.NewChaCha8([32]byte{})
	body := make([]byte, 4400)
	if _, err := random.Read(body); err != nil {
		b.Fatal(err)
	}
	const calls = 2000
	cpu := processorTime(b)
	for b.Loop() {
		var tasks []queue.Task
		for range calls {
			id := fmt.Sprintf("%011x", random.Uint64()>>20)
			tasks = append(tasks, queue.Task{Op: outlier.OpDetails, Entity: id, Run: "run-1", Job: "ideas"})
		}
		statetest.Enqueue(b, s, tasks...)
		for {
			task, err := s.Queue.NextTask(time.Now(), queue.Filter{Job: "ideas"})
			if err != nil {
				b.Fatal(err)
			}
			if task == nil {
				break
			}
			answer := statetest.AnswerTo(statetest.DetailsRequest(task.Entity), "")
			answer.Body, answer.Encoding = body, "gzip"
			p := ledger.Purchase{Run: "run-1", Job: "ideas", Attempt: 1, Commit: func(tx *store.Tx, k ledger.Kept) error {
				return queue.Done(tx, *task, k.Response, false, time.Time{})
			}}
			statetest.Buy(b, s, p, answer, outlier.Charged)
		}
	}
	b.ReportMetric(float64((processorTime(b)-cpu).Microseconds())/float64(b.N)/calls, "cpu-µs/call")
}

func BenchmarkSettlePaid(b *testing.B) {
	s := statetest.Open(b, b.TempDir())
	step := statetest.BeginRun(b, s, "run-1")
	body := page(b)
	cpu := processorTime(b)
	n := 0
	for b.Loop() {
		hits := make([]runs.Hit, 40)
		for i := range hits {
			hits[i] = runs.Hit{VideoID: fmt.Sprintf("%011d", n*40+i), ChannelID: "UC"}
		}
		answer := statetest.AnswerTo(statetest.SearchRequest(fmt.Sprint(n)), "")
		answer.Body, answer.Encoding = body, "gzip"
		p := statetest.Capped(1 << 40)
		p.Commit = func(tx *store.Tx, _ ledger.Kept) error {
			if _, err := runs.AddHits(tx, "run-1", step.ID, n, n*40, hits); err != nil {
				return err
			}
			step.Next++
			return runs.SaveStep(tx, step)
		}
		statetest.Buy(b, s, p, answer, outlier.Charged)
		n++
	}
	reportCPU(b, cpu)
}

func BenchmarkJournalRead(b *testing.B) {
	s := statetest.Open(b, b.TempDir())
	body := page(b)
	const answers = 512
	for i := range answers {
		answer := statetest.AnswerTo(statetest.DetailsRequest(fmt.Sprintf("%011d", i)), "")
		answer.Body, answer.Encoding = body, "gzip"
		statetest.Buy(b, s, ledger.Purchase{Attempt: 1}, answer, outlier.Charged)
	}
	var plain int
	for b.Loop() {
		plain = 0
		for e, err := range s.Journal.After(0) {
			if err != nil {
				b.Fatal(err)
			}
			plain += len(e.Body)
		}
	}
	b.SetBytes(int64(plain))
	b.ReportMetric(float64(b.Elapsed().Microseconds())/float64(b.N)/answers, "µs/answer")
}

func processorTime(b *testing.B) time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		b.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

func reportCPU(b *testing.B, since time.Duration) {
	b.ReportMetric(float64((processorTime(b)-since).Microseconds())/float64(b.N), "cpu-µs/op")
}

// BenchmarkNextTask looks for the next call of the second of two jobs that want the same
// ten thousand.
func BenchmarkNextTask(b *testing.B) {
	s := statetest.Open(b, b.TempDir())
	for _, job := range []string{"a", "b"} {
		var tasks []queue.Task
		for n := range 10_000 {
			tasks = append(tasks, queue.Task{Op: outlier.OpDetails, Entity: fmt.Sprintf("%011d", n), Run: "run-of-" + job, Job: job, Value: float64(n % 5)})
		}
		statetest.Enqueue(b, s, tasks...)
	}
	for b.Loop() {
		if task, err := s.Queue.NextTask(time.Now(), queue.Filter{Job: "b"}); err != nil || task == nil {
			b.Fatal(task, err)
		}
	}
}
