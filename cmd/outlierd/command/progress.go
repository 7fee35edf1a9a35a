package command

import (
	"fmt"
	"strings"
	"sync"
	"time"

	"golang.org/x/time/rate"

	"outlierd/cmd/outlierd/term"
	"outlierd/internal/figures"
	"outlierd/outlier"
	"outlierd/sync/engine"
	"outlierd/sync/job"
)

// How often progress is shown: redrawn at a terminal, or logged. An error that prevents it is logged
// less often than a terminal is redrawn.
const (
	redraw       = 200 * time.Millisecond
	logLine      = 30 * time.Second
	unknownEvery = 10 * time.Second
)

// watchProgress shows the progress of a program's run until the returned function is called: one
// block redrawn in place at a terminal, a log line every 30 s elsewhere.
func watchProgress(out *printer, p *program) (stop func()) {
	log := p.Engine.Log
	every, show := logLine, func(p engine.Progress) { log.Info("progress", progressAttrs(p)...) }
	finish, began := func() {}, time.Now()
	if out.redraws() {
		every, finish = redraw, out.block.Erase
		show = func(p engine.Progress) {
			if p.Started.Before(began) { // the command continues it
				p.Started = began
			}
			out.block.Draw(func(int) []string { return progressLines(p, time.Now()) })
		}
	}
	done := make(chan struct{})
	var wg sync.WaitGroup
	wg.Go(func() {
		ticker := time.NewTicker(every)
		defer ticker.Stop()
		unknown := rate.Sometimes{Interval: unknownEvery}
		for {
			select {
			case <-ticker.C:
				p, err := p.readProgress()
				if err != nil {
					unknown.Do(func() { log.Warn("progress unknown", "err", err) })
				} else if p.Run != "" {
					show(p)
				}
			case <-done:
				return
			}
		}
	})
	return func() { close(done); wg.Wait(); finish() }
}

func progressAttrs(p engine.Progress) []any {
	attrs := []any{"job", p.Job, "run", p.Run, "pages", p.Searches.Pages, "hits", p.Searches.Hits, "new", p.Searches.New,
		"calls", p.Done, "queued", p.Queued,
		"credits", p.Spend.Charged + p.Spend.Unknown, "remaining", timeLeft(p, time.Now()).Round(time.Second).String()}
	if !p.Until.IsZero() {
		attrs = append(attrs, "waits_until", p.Until)
	}
	return attrs
}

// progressLines returns the text of the block: searches, data calls, credits and pace.
func progressLines(p engine.Progress, now time.Time) []string {
	name := term.Pad(term.Clip(job.Shown(p.Job), 40), 40)
	return append([]string{fmt.Sprintf("%s %s · ETA %s", name, formatClock(now.Sub(p.Started)), formatETA(p, now)), searchLine(p)},
		spendLines(p, now)...)
}

func formatClock(d time.Duration) string { return figures.Clock(int64(d.Round(time.Second).Seconds())) }

// formatETA returns a lower bound of the remaining time while searches are open: calls about their hits are
// added later.
func formatETA(p engine.Progress, now time.Time) string {
	switch {
	case p.Searches.Ended == p.Searches.All && p.Until.IsZero():
		return formatClock(timeLeft(p, now))
	case p.Pages == job.AllPages:
		return "?"
	}
	return "≥ " + formatClock(timeLeft(p, now))
}

// timeLeft returns how long the known calls take. It is at least the time until the next call or poll.
func timeLeft(p engine.Progress, now time.Time) time.Duration {
	d := p.Left
	if d > 0 {
		d = max(d, p.Pace.Reset.Sub(now))
	}
	if !p.Until.IsZero() {
		d = max(d, p.Until.Sub(now))
	}
	return d
}

const nameWidth = 24

// searchLine returns what the searches of a run have brought together.
func searchLine(p engine.Progress) string {
	s, name := p.Searches, term.Pad("search", nameWidth)
	if s.Scan {
		return "  " + term.Pad("scan", nameWidth) + " under way"
	}
	bar, pages := term.Bar(s.Pages, s.Pages+s.Left), fmt.Sprintf("%d/%d pages", s.Pages, s.Pages+s.Left)
	switch {
	case s.Ended == s.All:
		bar, pages = term.Pad("done", term.BarWidth), term.Count(s.Pages, "page")
	case p.Pages == job.AllPages:
		bar, pages = term.Bar(0, 0), fmt.Sprintf("%d/? pages", s.Pages)
	}
	line := fmt.Sprintf("  %s %s %s  %s  %d new", name, bar, pages, term.Count(s.Hits, "hit"), s.New)
	if s.All > 1 && s.Ended < s.All {
		line += fmt.Sprintf(" · %d of %d searches done", s.Ended, s.All)
	}
	return line
}

func spendLines(p engine.Progress, now time.Time) []string {
	var lines []string
	if total := p.Done + p.Queued; total > 0 {
		name := term.Pad("enrich", nameWidth)
		lines = append(lines, fmt.Sprintf("  %s %s %d/%d calls", name, term.Bar(p.Done, total), p.Done, total))
	}
	if done := formatCalls(p); done != "" {
		lines = append(lines, "  done     "+done)
	}
	credits := fmt.Sprintf("  credits  %d spent", p.Spend.Charged)
	if p.Spend.Unknown > 0 {
		credits += fmt.Sprintf(" · %d unknown", p.Spend.Unknown)
	}
	if p.Cap > 0 {
		credits += fmt.Sprintf(" · at most %d", p.Cap)
	}
	return append(lines, credits, "  pace     "+paceText(p, now))
}

func paceText(p engine.Progress, now time.Time) string {
	text := p.Pace.Pace()
	if wait := p.Pace.Reset.Sub(now); wait > time.Second && p.Pace.Remaining == 0 {
		text += " · next call in " + term.Duration(wait)
	}
	if p.Until.After(now) {
		text += " · waits for a scan, polled again in " + term.Duration(p.Until.Sub(now))
	}
	return text
}

// formatCalls lists the data calls done, by endpoint, in a fixed order.
func formatCalls(p engine.Progress) string {
	var parts []string
	for _, call := range []struct {
		op   outlier.Operation
		name string
	}{
		{outlier.OpChannelVideos, "videos"}, {outlier.OpChannelShorts, "shorts"}, {outlier.OpTranscript, "transcripts"},
		{outlier.OpComments, "comments"}, {outlier.OpDetails, "details"},
	} {
		if n := p.Tasks[call.op]; n > 0 {
			parts = append(parts, fmt.Sprintf("%s %d", call.name, n))
		}
	}
	return strings.Join(parts, " · ")
}
