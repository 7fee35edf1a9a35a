package main

import (
	"bytes"
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"outlierd/outlier"
	"outlierd/outlier/pace"
	"outlierd/sync/engine"
	"outlierd/sync/job"
	"outlierd/sync/state"
)

var noon = time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)

// underWay is a run in its second search.
func underWay() engine.Progress {
	return engine.Progress{
		Job: "coffee", Run: "01a1fe43", Started: noon.Add(-83 * time.Second), Pages: 3,
		Searches: []state.Step{
			{Queries: []string{"home espresso"}, Next: 3, Pages: 3, Hits: 104, NewHits: 61, Stop: "pages"},
			{Queries: []string{"コーヒーの淹れ方と豆の選び方", "latte art"}, Next: 1, Pages: 1, Hits: 1, NewHits: 0},
			{Seeds: []string{"dQw4w9WgXcQ"}},
		},
		Spend: state.Spend{Charged: 8}, Pace: pace.Status{Limit: 10, Window: time.Minute, Reset: noon},
		Doing: "search page 2",
	}
}

func TestProgressOfASearch(t *testing.T) {
	want := `
coffee                                   01:23 · ETA ≥ 00:30
  home espresso            ███████████████ 3/3 pages  104 hits  61 new
  コーヒーの淹れ方と豆の…  █████░░░░░░░░░░ 1/3 pages  1 hit  0 new
  dQw4w9WgXcQ              ░░░░░░░░░░░░░░░ 0/3 pages  0 hits  0 new
  credits  8 spent
  pace     10/min · search page 2
`
	compareLines(t, want, progressLines(underWay(), noon, 24))
}

func TestProgressOfEnrichment(t *testing.T) {
	p := underWay()
	for i := range p.Searches {
		p.Searches[i].Stop = "pages"
	}
	p.Done, p.Queued = 96, 4
	p.Tasks = map[outlier.Operation]int{outlier.OpDetails: 10, outlier.OpChannelVideos: 40, outlier.OpComments: 46}
	p.Spend.Unknown, p.PerRun = 2, new(outlier.Credits(20))
	p.Pace.Reset = noon.Add(59 * time.Second)
	p.Doing = "details dQw4w9WgXcQ"
	want := `
coffee                                   01:23 · ETA 00:59
  home espresso            ███████████████ 3/3 pages  104 hits  61 new
  コーヒーの淹れ方と豆の…  ███████████████ 1/3 pages  1 hit  0 new
  dQw4w9WgXcQ              ███████████████ 0/3 pages  0 hits  0 new
  enrich                   ██████████████░ 96/100 calls
  done     videos 40 · comments 46 · details 10
  credits  8 spent · 2 unknown · at most 20
  pace     10/min · next call in 59 s · details dQw4w9WgXcQ
`
	compareLines(t, want, progressLines(p, noon, 24))
}

func TestProgressWithoutABoundHasNoETA(t *testing.T) {
	p := underWay()
	p.Pages = job.AllPages
	lines := progressLines(p, noon, 24)
	if !strings.HasSuffix(lines[0], "ETA ?") || !strings.Contains(lines[2], "1/? pages") {
		t.Errorf("got %q, %q", lines[0], lines[2])
	}
}

// TestProgressStaysOnTheScreen has a hundred searches and little room: the one under
// way is always among those shown.
func TestProgressStaysOnTheScreen(t *testing.T) {
	for at := range 101 {
		p := underWay()
		p.Searches = make([]state.Step, 100)
		for i := range p.Searches {
			p.Searches[i].Queries = []string{fmt.Sprint("query ", i)}
			if i < at {
				p.Searches[i].Stop = "pages"
			}
		}
		lines := progressLines(p, noon, 10)
		if len(lines) != 10 {
			t.Errorf("%d searches done: %d lines, want 10", at, len(lines))
		}
		if text := strings.Join(lines, "\n"); at < 100 && !strings.Contains(text, fmt.Sprintf("query %d ", at)) {
			t.Errorf("%d searches done: the next one is not shown:\n%s", at, text)
		}
	}
}

func compareLines(t *testing.T, want string, lines []string) {
	t.Helper()
	if diff := cmp.Diff(strings.TrimPrefix(want, "\n"), strings.Join(lines, "\n")+"\n"); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

// screen is a terminal that knows the two commands that the block uses: go up so
// many lines, and clear from here to the end. Lines that are too long wrap.
func screen(t *testing.T, written string, columns int) string {
	t.Helper()
	lines, row := []string{""}, 0
	for len(written) > 0 {
		if m := regexp.MustCompile(`^\x1b\[(\d+)A`).FindStringSubmatch(written); m != nil {
			up, _ := strconv.Atoi(m[1]) // digits
			if row -= up; row < 0 {
				t.Fatal("the block leaves the screen at the top")
			}
			written = written[len(m[0]):]
			continue
		}
		if rest, ok := strings.CutPrefix(written, "\x1b[J"); ok {
			lines, written = append(lines[:row:row], ""), rest
			continue
		}
		line, rest, _ := strings.Cut(written, "\n")
		if strings.Contains(line, "\x1b") {
			t.Fatalf("the line %q has a command in it", line)
		}
		lines[row] = line
		for range 1 + max(0, width(line)-1)/columns {
			row++
			lines = append(lines[:row:row], "")
		}
		written = rest
	}
	return strings.Join(lines, "\n")
}

func TestBlockIsDrawnOverItselfAndGone(t *testing.T) {
	for _, columns := range []int{40, 80, 200} {
		var out bytes.Buffer
		b := &block{w: &out, size: func() (int, int) { return columns, 24 }}
		out.WriteString("before\n")
		p := underWay()
		p.Searches[0].Queries = []string{"\x1b[2J hostile " + strings.Repeat("長い", 50)}
		p.Job = strings.Repeat("name", 20)
		b.draw(p)
		p.Searches = p.Searches[:1] // a shorter block leaves nothing of the longer one
		b.draw(p)
		shown := screen(t, out.String(), columns)
		if n := strings.Count(shown, "\n"); n != 1+4 || strings.Count(shown, "ETA") > 1 {
			t.Errorf("at %d columns the screen is:\n%s", columns, shown)
		}
		b.erase()
		b.erase() // once is enough, twice does no harm
		out.WriteString("after\n")
		if got := screen(t, out.String(), columns); got != "before\nafter\n" {
			t.Errorf("at %d columns the screen is at the end:\n%s", columns, got)
		}
	}
}

func TestClockAndBar(t *testing.T) {
	for d, want := range map[time.Duration]string{
		0: "00:00", 59600 * time.Millisecond: "01:00", 61 * time.Minute: "1:01:00", 26*time.Hour + time.Second: "26:00:01",
	} {
		if got := clock(d); got != want {
			t.Errorf("clock(%v) = %q, want %q", d, got, want)
		}
	}
	for want, got := range map[string]string{
		"░░░░░░░░░░░░░░░": bar(0, 3, false), "█████░░░░░░░░░░": bar(1, 3, false), "███████████████": bar(9, 3, false),
	} {
		if got != want {
			t.Errorf("bar is %s, want %s", got, want)
		}
	}
	if got := bar(1, job.AllPages, false); width(got) != barWidth {
		t.Errorf("the bar of an unbounded search is %q", got)
	}
}
