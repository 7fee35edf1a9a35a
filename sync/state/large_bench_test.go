package state_test

import (
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"outlierd/outlier"
	"outlierd/sync/journal"
	"outlierd/sync/ledger"
	"outlierd/sync/queue"
	"outlierd/sync/runs"
	"outlierd/sync/state"
	"outlierd/sync/state/statetest"
	"outlierd/sync/store"
)

// large is a folder with a large state; see [statetest.Large]. With killed set, the
// process that wrote it last did not close it.
func large(b *testing.B, killed bool) string {
	b.Helper()
	dir := filepath.Join(b.TempDir(), "state")
	statetest.Large(b, dir, func(dir string) error {
		s, err := state.Open(b.Context(), dir, statetest.Options())
		if err != nil {
			return err
		}
		return s.Close()
	})
	if killed {
		kill(b, dir)
	}
	return dir
}

// kill leaves a state folder as a kill during a paid call leaves it: with a log, and
// with an attempt that was sent and not settled.
func kill(b *testing.B, dir string) {
	b.Helper()
	s := statetest.Open(b, dir)
	statetest.BeginRun(b, s, fmt.Sprint("killed-", time.Now().UnixNano()))
	if err := statetest.Reserve(b, s, statetest.Capped(1<<40), statetest.SearchRequest("0")).Sending(); err != nil {
		b.Fatal(err)
	}
	wal, err := os.ReadFile(filepath.Join(dir, "state.db-wal"))
	if err == nil {
		err = s.Close()
	}
	if err == nil {
		err = os.WriteFile(filepath.Join(dir, "state.db-wal"), wal, 0o600)
	}
	if err != nil {
		b.Fatal(err)
	}
}

// BenchmarkStart opens and closes a state, beside an empty one.
func BenchmarkStart(b *testing.B) {
	for name, made := range map[string]func(*testing.B) string{
		"empty":        func(b *testing.B) string { return b.TempDir() },
		"large":        func(b *testing.B) string { return large(b, false) },
		"large-killed": func(b *testing.B) string { return large(b, true) },
	} {
		b.Run(name, func(b *testing.B) {
			dir := made(b)
			for b.Loop() {
				s, err := state.Open(b.Context(), dir, statetest.Options())
				if err == nil {
					err = s.Close()
				}
				if err != nil {
					b.Fatal(err)
				}
				if name == "large-killed" {
					b.StopTimer()
					kill(b, dir)
					b.StartTimer()
				}
			}
		})
	}
}

// BenchmarkBookkeeping goes through all that is written for one call, with a large state
// and with an empty one.
func BenchmarkBookkeeping(b *testing.B) {
	states := []struct {
		name string
		made func(*testing.B) string
	}{
		{"empty", func(b *testing.B) string { return b.TempDir() }},
		{"large", func(b *testing.B) string { return large(b, false) }},
	}
	for _, state := range states {
		b.Run("paid/"+state.name, func(b *testing.B) { settlePaid(b, statetest.Open(b, state.made(b))) })
		b.Run("free/"+state.name, func(b *testing.B) { settleFree(b, statetest.Open(b, state.made(b))) })
	}
}

func settlePaid(b *testing.B, s *state.Store) {
	step := statetest.BeginRun(b, s, "run-1")
	body := page(b)
	cpu := processorTime(b)
	defer func() { reportCPU(b, cpu) }()
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
}

func settleFree(b *testing.B, s *state.Store) {
	statetest.BeginRun(b, s, "run-1")
	body := page(b)
	cpu := processorTime(b)
	defer func() { reportCPU(b, cpu) }()
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
}

// BenchmarkPrune goes through one step of pruning and one of giving room back, with a large journal and with one
// a twentieth of it.
func BenchmarkPrune(b *testing.B) {
	for name, made := range map[string]func(*testing.B) string{
		"small": func(b *testing.B) string { return largeOf(b, 50_000) },
		"large": func(b *testing.B) string { return large(b, false) },
	} {
		b.Run(name, func(b *testing.B) {
			s := statetest.Hasty(b, statetest.Open(b, made(b)))
			end, err := s.Journal.End()
			if err != nil {
				b.Fatal(err)
			}
			keep := journal.Keep{Since: time.Now().AddDate(1, 0, 0), UpTo: end}
			cpu := processorTime(b)
			for b.Loop() {
				if more, err := s.Journal.Prune(keep); err != nil || !more {
					b.Fatalf("more to prune: %t (%v)", more, err)
				}
				if _, err := s.DB.GiveBack(); err != nil {
					b.Fatal(err)
				}
			}
			reportCPU(b, cpu)
		})
	}
}

func largeOf(b *testing.B, answers int) string {
	b.Helper()
	dir := filepath.Join(b.TempDir(), "state")
	statetest.LargeOf(b, dir, answers, 100, func(dir string) error {
		s, err := state.Open(b.Context(), dir, statetest.Options())
		if err != nil {
			return err
		}
		return s.Close()
	})
	return dir
}

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
	return outlier.Pack([]byte(b.String()))
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
