package main

import (
	"fmt"
	"io"
	"os"
	"strings"
	"sync"
	"time"

	"golang.org/x/term"

	"outlierd/outlier"
	"outlierd/sync/engine"
	"outlierd/sync/job"
)

// How often whoever watches hears of a run: a terminal is redrawn, a log gets a line.
const (
	redraw  = 200 * time.Millisecond
	logLine = 30 * time.Second
)

// terminal reports whether w is a terminal.
func terminal(w io.Writer) bool {
	f, ok := w.(*os.File)
	return ok && term.IsTerminal(int(f.Fd()))
}

// watch tells of the run's progress until the returned function is called: one
// block redrawn in place at a terminal, a log line every 30 s elsewhere.
func (o *options) watch(e *engine.Engine) (stop func()) {
	every, tell := logLine, func(p engine.Progress) { e.Log.Info("progress", progressAttrs(p)...) }
	finish := func() {}
	if terminal(o.out) {
		block := &block{w: o.out}
		every, tell, finish = redraw, block.draw, block.erase
	}
	done := make(chan struct{})
	var wg sync.WaitGroup
	wg.Go(func() {
		ticker := time.NewTicker(every)
		defer ticker.Stop()
		for {
			select {
			case <-ticker.C:
				p, err := e.Progress()
				if err != nil {
					e.Log.Warn("progress unknown", "err", err)
				} else if p.Run != "" {
					tell(p)
				}
			case <-done:
				return
			}
		}
	})
	return func() { close(done); wg.Wait(); finish() }
}

func progressAttrs(p engine.Progress) []any {
	pages, hits, fresh := 0, 0, 0
	for _, s := range p.Searches {
		pages, hits, fresh = pages+s.Pages, hits+s.Hits, fresh+s.NewHits
	}
	return []any{"job", p.Job, "run", p.Run, "pages", pages, "hits", hits, "new", fresh, "calls", p.Done, "queued", p.Queued,
		"credits", p.Spend.Charged + p.Spend.Unknown, "remaining", p.Remaining().Round(time.Second)}
}

// block is a few lines at a terminal that are drawn over themselves.
type block struct {
	w     io.Writer
	lines int
}

func (b *block) draw(p engine.Progress) {
	lines := progressLines(p, time.Now())
	var out strings.Builder
	b.rewind(&out)
	for _, line := range lines {
		out.WriteString(line + "\x1b[K\n")
	}
	b.lines = len(lines)
	_, _ = io.WriteString(b.w, out.String()) // a terminal that went away stops no run
}

// rewind moves to the block's first line and clears what is there.
func (b *block) rewind(out *strings.Builder) {
	if b.lines > 0 {
		fmt.Fprintf(out, "\x1b[%dA\x1b[J", b.lines)
	}
}

func (b *block) erase() {
	var out strings.Builder
	b.rewind(&out)
	b.lines = 0
	_, _ = io.WriteString(b.w, out.String())
}

// progressLines is the block's text: what was searched, what was asked about the
// hits, what it cost, and how fast the service lets us go.
func progressLines(p engine.Progress, now time.Time) []string {
	lines := []string{fmt.Sprintf("%-40s %s · ETA %s", p.Job, clock(now.Sub(p.Started)), clock(p.Remaining()))}
	for _, s := range p.Searches {
		of := "?"
		if p.Pages != job.AllPages {
			of = fmt.Sprint(p.Pages)
		}
		lines = append(lines, fmt.Sprintf("  %-28s %s  %d/%s pages   %d hits   %d new",
			clip(strings.Join(s.Queries, ", "), 28), bar(s.Next, p.Pages, s.Stop != ""), s.Pages, of, s.Hits, s.NewHits))
	}
	if total := p.Done + p.Queued; total > 0 {
		lines = append(lines, fmt.Sprintf("  %-28s %s  %d/%d   %s", "enrich", bar(p.Done, total, false), p.Done, total, calls(p)))
	}
	credits := fmt.Sprintf("  credits  %d spent", p.Spend.Charged)
	if p.Spend.Unknown > 0 {
		credits += fmt.Sprintf(" · %d unknown", p.Spend.Unknown)
	}
	if p.PerRun != nil {
		credits += fmt.Sprintf(" · at most %d", *p.PerRun)
	}
	return append(lines, credits, "  pace     "+paceText(p, now))
}

func paceText(p engine.Progress, now time.Time) string {
	text := fmt.Sprintf("%d per %s", p.Pace.Limit, spell(p.Pace.Window))
	if wait := p.Pace.Reset.Sub(now); wait > time.Second && p.Pace.Remaining == 0 {
		text += " · next call in " + spell(wait)
	}
	if p.Doing != "" {
		text += " · " + p.Doing
	}
	return text
}

// calls lists the data calls done, by endpoint, in a fixed order.
func calls(p engine.Progress) string {
	var parts []string
	for _, op := range []outlier.Operation{outlier.OpChannelVideos, outlier.OpChannelShorts, outlier.OpTranscript, outlier.OpComments, outlier.OpDetails} {
		if n := p.Tasks[op]; n > 0 {
			parts = append(parts, fmt.Sprintf("%s %d", op, n))
		}
	}
	return strings.Join(parts, " · ")
}

const barWidth = 15

func bar(n, of int, done bool) string {
	filled := barWidth
	if !done && of > 0 {
		filled = min(barWidth, barWidth*n/of)
	} else if !done {
		filled = 0
	}
	return strings.Repeat("█", filled) + strings.Repeat("░", barWidth-filled)
}

func clip(text string, width int) string {
	runes := []rune(plain(text))
	if len(runes) > width {
		return string(runes[:width-1]) + "…"
	}
	return string(runes)
}

// clock is a duration as minutes and seconds, with hours when there are any.
func clock(d time.Duration) string {
	s := int(d.Round(time.Second).Seconds())
	if s >= 3600 {
		return fmt.Sprintf("%d:%02d:%02d", s/3600, s/60%60, s%60)
	}
	return fmt.Sprintf("%02d:%02d", s/60, s%60)
}
