package command

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"

	"outlierd/cmd/outlierd/term"
	"outlierd/outlier/pace"
	"outlierd/sync/engine"
	"outlierd/sync/job"
	"outlierd/sync/ledger"
)

var noon = time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)

// underWay is a run in its second search.
func underWay() engine.Progress {
	return engine.Progress{
		Job: "coffee", Run: "01a1fe43", Started: noon.Add(-83 * time.Second), Pages: 3,
		Searches: engine.Searches{All: 3, Ended: 1, Pages: 4, Left: 5, Hits: 105, New: 61},
		Spend:    ledger.Spend{Charged: 8}, Pace: pace.Status{Limit: 10, Window: time.Minute, Reset: noon},
		Left: 30 * time.Second,
	}
}

func TestProgressOfASearch(t *testing.T) {
	t.Parallel()
	want := `
coffee                                   1:23 · ETA ≥ 0:30
  search   ██████░░░░░░░░░ 4/9 pages  105 hits  61 new · 1 of 3 searches done
  credits  8 spent
  pace     10/min
`
	compareLines(t, want, progressLines(underWay(), noon))
}

func TestProgressOfEnrichment(t *testing.T) {
	t.Parallel()
	p := underWay()
	p.Searches.Ended, p.Searches.Left = 3, 0
	p.Done, p.Queued = 96, 4
	p.Spend.Unknown, p.Cap = 2, 20
	p.Pace.Reset, p.Left = noon.Add(59*time.Second), 24*time.Second
	want := `
coffee                                   1:23 · ETA 0:59
  search   done            4 pages  105 hits  61 new
  enrich   ██████████████░ 96/100 calls
  credits  8 spent · 2 unknown · at most 20
  pace     10/min · next call in 59 s
`
	compareLines(t, want, progressLines(p, noon))
}

func TestProgressShowsWaitForScan(t *testing.T) {
	t.Parallel()
	p := underWay()
	p.Searches = engine.Searches{All: 1, Scan: true}
	p.Until = noon.Add(10 * time.Minute)
	want := `
coffee                                   1:23 · ETA ≥ 10:00
  scan     under way
  credits  8 spent
  pace     10/min · waits for a scan, polled again in 10 min
`
	compareLines(t, want, progressLines(p, noon))
	if attrs := fmt.Sprint(progressAttrs(p)); !strings.Contains(attrs, "waits_until 2026-11-21 12:10:00 +0000 UTC") {
		t.Errorf("the logged attributes are %s", attrs)
	}
}

// Progress has no ETA if the number of pages is unknown.
func TestUnboundedProgressHasNoEstimate(t *testing.T) {
	t.Parallel()
	p := underWay()
	p.Pages, p.Searches.Left = job.AllPages, 0
	lines := progressLines(p, noon)
	if !strings.HasSuffix(lines[0], "ETA ?") || !strings.Contains(lines[1], "4/? pages") {
		t.Errorf("got %q, %q", lines[0], lines[1])
	}
}

func compareLines(t *testing.T, want string, lines []string) {
	t.Helper()
	if diff := cmp.Diff(strings.TrimPrefix(want, "\n"), strings.Join(lines, "\n")+"\n"); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

// screen is a terminal with the three control sequences that the block uses: carriage return, cursor up, and clear to
// the end of the screen. Long lines wrap.
type screen struct {
	*testing.T
	columns, column int
	rows            []string // the cursor is in the last one
}

func (s *screen) Write(text []byte) (int, error) {
	up := regexp.MustCompile(`^\x1b\[(\d+)A`)
	for rest := string(text); rest != ""; {
		if m := up.FindStringSubmatch(rest); m != nil {
			n, _ := strconv.Atoi(m[1]) // digits
			if n >= len(s.rows) {
				s.Fatal("the block leaves the screen at the top")
			}
			s.rows, rest = s.rows[:len(s.rows)-n], rest[len(m[0]):]
			continue
		}
		last := len(s.rows) - 1
		switch after, cleared := strings.CutPrefix(rest, "\x1b[J"); {
		case cleared:
			s.rows[last], rest = s.rows[last][:s.column], after
		case rest[0] == '\r':
			s.column, rest = 0, rest[1:]
		case rest[0] == '\n':
			s.rows, s.column, rest = append(s.rows, ""), 0, rest[1:]
		case rest[0] == '\x1b':
			s.Fatalf("unexpected escape sequence %q", rest)
		default:
			r, size := utf8.DecodeRuneInString(rest)
			if term.Width(s.rows[last])+term.Width(string(r)) > s.columns {
				s.rows = append(s.rows, "")
				last++
			}
			s.rows[last], rest = s.rows[last]+string(r), rest[size:]
			s.column = len(s.rows[last])
		}
	}
	return len(text), nil
}

// resize wraps the lines again, as terminals do.
func (s *screen) resize(columns int) {
	rows := s.rows
	s.columns, s.rows, s.column = columns, []string{""}, 0
	_, _ = s.Write([]byte(strings.Join(rows, "\n"))) // it never fails
}

func TestProgressBlockIsRedrawnAndRemoved(t *testing.T) {
	t.Parallel()
	for _, columns := range []int{40, 80, 200} {
		s := &screen{T: t, columns: columns, rows: []string{""}}
		b := term.NewBlock(s, func() int { return s.columns })
		fmt.Fprintln(s, "before")
		p := underWay()
		p.Job, p.Done = "\x1b[2J hostile "+strings.Repeat("長い", 50), 3
		b.Draw(progressLines(p, noon)...)
		p.Done = 0 // a shorter block must remove the lines of the longer one
		b.Draw(progressLines(p, noon)...)
		if len(s.rows) != 1+4+1 || strings.Count(strings.Join(s.rows, "\n"), "pace") != 1 {
			t.Errorf("at %d columns the screen is %q", columns, s.rows)
		}
		s.resize(columns/2 + 5)
		b.Draw(progressLines(p, noon)...)
		fmt.Fprint(s, "^C")
		b.Erase()
		b.Erase() // the second call must change nothing
		fmt.Fprintln(s, "after")
		if diff := cmp.Diff([]string{"before", "after", ""}, s.rows); diff != "" {
			t.Errorf("at %d columns, at the end (-want +got):\n%s", columns, diff)
		}
	}
}

func TestLogsArePrintedAboveTheBlock(t *testing.T) {
	t.Parallel()
	s := &screen{T: t, columns: 80, rows: []string{""}}
	b := term.NewBlock(s, func() int { return s.columns })
	log := b.Above(s)
	fmt.Fprintln(log, "first")
	b.Draw(progressLines(underWay(), noon)...)
	fmt.Fprintln(log, "second")
	b.Draw(progressLines(underWay(), noon)...)
	if len(s.rows) != 2+4+1 || s.rows[1] != "second" {
		t.Errorf("the screen is %q", s.rows)
	}
	fmt.Fprintln(log, "third")
	b.Erase()
	if diff := cmp.Diff([]string{"first", "second", "third", ""}, s.rows); diff != "" {
		t.Errorf("at the end (-want +got):\n%s", diff)
	}
}

func TestClockAndBar(t *testing.T) {
	t.Parallel()
	for d, want := range map[time.Duration]string{
		0: "0:00", 59600 * time.Millisecond: "1:00", 61 * time.Minute: "1:01:00", 26*time.Hour + time.Second: "26:00:01",
	} {
		if got := formatClock(d); got != want {
			t.Errorf("clock(%v) = %q, want %q", d, got, want)
		}
	}
	for want, got := range map[string]string{
		"░░░░░░░░░░░░░░░": term.Bar(0, 3), "█████░░░░░░░░░░": term.Bar(1, 3), "███████████████": term.Bar(9, 3),
	} {
		if got != want {
			t.Errorf("bar is %s, want %s", got, want)
		}
	}
	if got := term.Bar(1, job.AllPages); term.Width(got) != term.BarWidth {
		t.Errorf("the bar of an unbounded search is %q, want none", got)
	}
}

// TestLogOmitsEmptyValues: for example, a search has no entity.
func TestLogOmitsEmptyValues(t *testing.T) {
	t.Parallel()
	for _, format := range []string{"text", "json"} {
		var out bytes.Buffer
		g := &globals{world: world{err: &out}, logLevel: "info", logFormat: format, out: newPrinter(io.Discard, os.LookupEnv)}
		g.logger().Warn("call repeated", "op", "search", "entity", "", "attempt", 2)
		if got := out.String(); strings.Contains(got, "entity") || !strings.Contains(got, "attempt") {
			t.Errorf("%s: %s", format, got)
		}
	}
}
