package journal_test

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"outlierd/outlier"
	"outlierd/sync/journal"
	"outlierd/sync/ledger"
	"outlierd/sync/state"
	"outlierd/sync/state/statetest"
)

var began = time.Date(2026, time.January, 1, 0, 0, 0, 0, time.UTC)

func day(n int) time.Time { return began.AddDate(0, 0, n) }

// arrived journals an answer of a day, with a body of so many bytes.
func arrived(t testing.TB, s *state.Store, at time.Time, bytes int) {
	t.Helper()
	body := strings.Repeat("x", max(0, bytes-2))
	answer := statetest.AnswerTo(statetest.SearchRequest("0"), "")
	answer.Body, answer.Encoding = []byte(`"`+body+`"`), "unknown" // kept as it is
	answer.SentAt, answer.ReceivedAt = at, at
	statetest.Buy(t, s, ledger.Purchase{}, answer, outlier.Charged)
}

// prune prunes until there is no more to do, and returns up to where.
func prune(t testing.TB, s *state.Store, keep journal.Keep) int64 {
	t.Helper()
	for {
		more, err := s.Journal.Prune(keep)
		if err != nil {
			t.Fatal(err)
		}
		if !more {
			break
		}
	}
	return pruned(t, s)
}

func pruned(t testing.TB, s *state.Store) int64 {
	t.Helper()
	upTo, err := s.Journal.Pruned()
	if err != nil {
		t.Fatal(err)
	}
	return upTo
}

func TestArrivedCountsFromATime(t *testing.T) {
	t.Parallel()
	s := statetest.Open(t, t.TempDir())
	if all, recent, err := s.Journal.Arrived(day(0)); err != nil || all != 0 || recent != 0 {
		t.Errorf("of none: %d, %d, %v", all, recent, err)
	}
	for _, n := range []int{1, 2, 5, 6} {
		arrived(t, s, day(n), 10)
	}
	for since, want := range map[time.Time]string{day(0): "4 4", day(2): "4 3", day(5): "4 2", day(9): "4 0"} {
		if all, recent, err := s.Journal.Arrived(since); err != nil || fmt.Sprint(all, recent) != want {
			t.Errorf("since %s: %d, %d, %v, want %s", since, all, recent, err, want)
		}
	}
}

func TestWhatIsPruned(t *testing.T) {
	t.Parallel()
	const all = 1 << 40
	for name, c := range map[string]struct {
		days []int // of the answers, 1,000 bytes each
		keep journal.Keep
		want int64
	}{
		"nothing is old":               {[]int{5, 6, 7}, journal.Keep{Since: day(5), UpTo: all}, 0},
		"some are old":                 {[]int{1, 2, 3, 4}, journal.Keep{Since: day(3), UpTo: all}, 2},
		"all are old":                  {[]int{1, 2, 3}, journal.Keep{Since: day(9), UpTo: all}, 3},
		"not what a sink lacks":        {[]int{1, 2, 3}, journal.Keep{Since: day(9), UpTo: 2}, 2},
		"nothing before a sink has it": {[]int{1, 2, 3}, journal.Keep{Since: day(9)}, 0},
		"not behind one from tomorrow": {[]int{1, 90, 2, 3}, journal.Keep{Since: day(9), UpTo: all}, 1},
		"an empty journal":             {nil, journal.Keep{Since: day(9), UpTo: all}, 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := statetest.Open(t, t.TempDir())
			for _, d := range c.days {
				arrived(t, s, day(d), 1000)
			}
			for range 2 {
				if got := prune(t, s, c.keep); got != c.want {
					t.Fatalf("pruned up to %d, want %d", got, c.want)
				}
			}
			if left := statetest.Entries(t, s, c.want); len(left) != len(c.days)-int(c.want) {
				t.Errorf("%d whole answers are left of %d", len(left), len(c.days))
			}
			if _, err := s.Check(t.Context()); err != nil {
				t.Error(err)
			}
		})
	}
}

// TestPrunedAnswersAreNotReused or read: their rows stay, and nothing takes their empty bodies for answers.
func TestPrunedAnswersAreNotReused(t *testing.T) {
	t.Parallel()
	s := statetest.Open(t, t.TempDir())
	for d := range 3 {
		arrived(t, s, day(d), 100)
	}
	params := statetest.SearchRequest("0").Params().Encode()
	answered := func() *journal.Entry {
		t.Helper()
		e, err := s.Journal.Answered(outlier.OpSearch, params, day(-1), day(9))
		if err != nil {
			t.Fatal(err)
		}
		return e
	}
	prune(t, s, journal.Keep{Since: day(2), UpTo: 3})
	if e := answered(); e == nil || e.ID != 3 {
		t.Errorf("answered by %v, want answer 3", e)
	}
	prune(t, s, journal.Keep{Since: day(9), UpTo: 3})
	if e := answered(); e != nil {
		t.Errorf("answered by %v, which is pruned", e)
	}
	var last error
	for _, last = range s.Journal.After(1) {
	}
	statetest.WantText(t, last, "headers of answers 2 to 3")
	if rows := statetest.Ask(t, s.DB.Dir(), `SELECT count(*) FROM responses WHERE http_status = 200 AND params <> '' AND received_at > 0`); rows[0] != "3" {
		t.Errorf("%s rows keep their headers, want 3", rows[0])
	}
	// Beside that an answer is still never changed.
	for _, statement := range []string{
		`UPDATE responses SET body = x'00' WHERE id = 1`, `UPDATE responses SET params = '' WHERE id = 1`,
		`UPDATE responses SET received_at = 1 WHERE id = 1`,
	} {
		if err := statetest.Shell(t, s, statement); err == nil {
			t.Errorf("%s is not refused", statement)
		}
	}
	statetest.Free(t, s, 1)
	if err := statetest.Shell(t, s, `UPDATE responses SET body = x'', sum = x'' WHERE id = 4`); err == nil {
		t.Error("an answer that is not pruned loses its body")
	}
}

// TestPruningGoesInSteps: no step prunes more than a little, however much there is.
func TestPruningGoesInSteps(t *testing.T) {
	t.Parallel()
	s := statetest.Hasty(t, statetest.Open(t, t.TempDir()))
	for range 1100 {
		arrived(t, s, day(1), 10)
	}
	for range 4 {
		arrived(t, s, day(1), 5<<20)
	}
	var steps []int64
	for more := true; more; {
		var err error
		if more, err = s.Journal.Prune(journal.Keep{Since: day(2), UpTo: 1104}); err != nil {
			t.Fatal(err)
		}
		steps = append(steps, pruned(t, s))
	}
	if want := []int64{500, 1000, 1102, 1104, 1104}; !slices.Equal(steps, want) {
		t.Errorf("pruned up to %v, want %v", steps, want)
	}
}

// pruning is what a journal should be.
type pruning struct {
	received []time.Time
	size     []int
	pruned   int64
}

// TestPruningFollowsTheModel: whatever is kept, and wherever a kill comes, exactly a prefix is pruned, of answers
// that need not be kept, and nothing else is lost.
func TestPruningFollowsTheModel(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(r *rapid.T) {
		dir, err := os.MkdirTemp(t.TempDir(), "")
		if err != nil {
			r.Fatal(err)
		}
		s := statetest.Hasty(t, statetest.Open(t, dir))
		var m pruning
		for range rapid.IntRange(1, 8).Draw(r, "actions") {
			switch rapid.SampledFrom([]string{"arrive", "arrive", "prune", "prune all", "kill"}).Draw(r, "action") {
			case "arrive":
				for range rapid.SampledFrom([]int{1, 3, 12}).Draw(r, "answers") {
					at, size := day(rapid.IntRange(0, 20).Draw(r, "day")), rapid.SampledFrom([]int{2, 300, 9000}).Draw(r, "bytes")
					arrived(t, s, at, size)
					m.received, m.size = append(m.received, at), append(m.size, size)
				}
			case "prune":
				m.step(t, r, s, m.keep(r))
			case "prune all":
				keep := m.keep(r)
				for m.step(t, r, s, keep) {
				}
				m.finished(r, keep)
			case "kill":
				next := statetest.CopyFolder(t, dir)
				if err := s.Close(); err != nil {
					r.Fatal(err)
				}
				dir, s = next, statetest.Hasty(t, statetest.Open(t, next))
			}
			m.check(t, r, s)
		}
		if err := s.Close(); err != nil {
			r.Fatal(err)
		}
	})
}

func (m *pruning) keep(r *rapid.T) journal.Keep {
	return journal.Keep{
		Since: day(rapid.IntRange(0, 21).Draw(r, "since")), UpTo: int64(rapid.IntRange(0, len(m.received)).Draw(r, "up to")),
	}
}

// step performs one step, which prunes nothing that is to be kept.
func (m *pruning) step(t *testing.T, r *rapid.T, s *state.Store, keep journal.Keep) bool {
	t.Helper()
	more, err := s.Journal.Prune(keep)
	if err != nil {
		r.Fatal(err)
	}
	now := pruned(t, s)
	if now < m.pruned || now > m.pruned && now > keep.UpTo {
		r.Fatalf("pruned up to %d after %d, keeping those after %d", now, m.pruned, keep.UpTo)
	}
	for id := m.pruned; id < now; id++ {
		if !m.received[id].Before(keep.Since) {
			r.Fatalf("answer %d of %s is pruned, since %s is kept", id+1, m.received[id], keep.Since)
		}
	}
	m.pruned = now
	return more
}

// finished checks that nothing more was to be pruned.
func (m *pruning) finished(r *rapid.T, keep journal.Keep) {
	if m.pruned < keep.UpTo && m.received[m.pruned].Before(keep.Since) {
		r.Fatalf("answer %d is not pruned", m.pruned+1)
	}
}

func (m *pruning) check(t *testing.T, r *rapid.T, s *state.Store) {
	t.Helper()
	if now := pruned(t, s); now != m.pruned {
		r.Fatalf("pruned up to %d, want %d", now, m.pruned)
	}
	left := statetest.Entries(t, s, m.pruned)
	if len(left) != len(m.received)-int(m.pruned) {
		r.Fatalf("%d whole answers, want %d", len(left), len(m.received)-int(m.pruned))
	}
	sizes := statetest.Ask(t, s.DB.Dir(), fmt.Sprintf(`SELECT length(body) FROM responses WHERE id > %d ORDER BY id`, m.pruned))
	if want := m.size[m.pruned:]; !slices.EqualFunc(sizes, want, func(a string, b int) bool { return a == fmt.Sprint(b) }) {
		r.Fatalf("the whole answers have %v bytes, want %v", sizes, want)
	}
	rows := statetest.Ask(t, s.DB.Dir(), fmt.Sprintf(`SELECT count(*) FROM responses WHERE id <= %d AND length(body) = 0`, m.pruned))
	if rows[0] != fmt.Sprint(m.pruned) {
		r.Fatalf("%s answers without a body, want %d", rows[0], m.pruned)
	}
}
