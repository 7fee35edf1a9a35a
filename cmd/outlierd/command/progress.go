package command

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"golang.org/x/time/rate"

	"outlierd/cmd/outlierd/term"
	"outlierd/outlier"
	"outlierd/sync/engine"
	"outlierd/sync/job"
	"outlierd/sync/runs"
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
	finish := func() {}
	if out.redraws() {
		every, finish = redraw, out.block.Erase
		show = func(p engine.Progress) {
			out.block.Draw(func(rows int) []string { return progressLines(p, time.Now(), rows) })
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
	pages, hits, fresh := 0, 0, 0
	for _, s := range p.Searches {
		pages, hits, fresh = pages+s.Pages, hits+s.Hits, fresh+s.NewHits
	}
	attrs := []any{"job", p.Job, "run", p.Run, "pages", pages, "hits", hits, "new", fresh, "calls", p.Done,
		"queued", p.Queued,
		"credits", p.Spend.Charged + p.Spend.Unknown, "remaining", timeLeft(p, time.Now()).Round(time.Second).String()}
	if !p.Until.IsZero() {
		attrs = append(attrs, "waits_until", p.Until)
	}
	return attrs
}

// progressLines returns the text of the block: searches, data calls, credits and pace. If there are more
// searches than fit, it shows those around the current one and counts the others.
func progressLines(p engine.Progress, now time.Time, room int) []string {
	name := term.Pad(term.Clip(job.Shown(p.Job), 40), 40)
	lines := []string{fmt.Sprintf("%s %s · ETA %s", name, term.Clock(now.Sub(p.Started)), formatETA(p, now))}
	rest := spendLines(p, now)
	room = max(1, room-len(lines)-len(rest))
	if len(p.Searches) > room {
		room = max(1, room-1) // one line for the number of the others
	}
	first, last := pickAround(p.Searches, room)
	for _, s := range p.Searches[first:last] {
		lines = append(lines, searchLine(s, p.Pages))
	}
	if more := len(p.Searches) - (last - first); more > 0 {
		done := len(p.Searches) - countOpen(p.Searches)
		lines = append(lines, fmt.Sprintf("  and %d more · %d of %d done", more, done, len(p.Searches)))
	}
	return append(lines, rest...)
}

// countOpen counts the unfinished searches.
func countOpen(all []runs.Step) (n int) {
	for i := range all {
		if isOpen(all[i]) {
			n++
		}
	}
	return n
}

// formatETA returns a lower bound of the remaining time while searches are open: calls about their hits are
// added later.
func formatETA(p engine.Progress, now time.Time) string {
	switch {
	case !slices.ContainsFunc(p.Searches, isOpen) && p.Until.IsZero():
		return term.Clock(timeLeft(p, now))
	case p.Pages == job.AllPages:
		return "?"
	}
	return "≥ " + term.Clock(timeLeft(p, now))
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

func isOpen(s runs.Step) bool { return s.Stop == "" }

// pickAround returns the range of searches to show, which includes the first open one.
func pickAround(all []runs.Step, room int) (first, last int) {
	at := slices.IndexFunc(all, isOpen)
	if at < 0 {
		at = len(all)
	}
	first = max(0, min(at-room/2, len(all)-room))
	return first, min(len(all), first+room)
}

const nameWidth = 24

func searchLine(s runs.Step, pages int) string {
	name := term.Pad(term.Clip(s.Name(), nameWidth), nameWidth)
	if s.Query.Op() == outlier.OpStartScan {
		return fmt.Sprintf("  %s scan %s", name, cmp.Or(s.Stop, "under way"))
	}
	hits := term.Count(s.Hits, "hit")
	if !isOpen(s) {
		ended := term.Pad(endedAs(s.Stop), term.BarWidth)
		return fmt.Sprintf("  %s %s %s  %s  %d new", name, ended, term.Count(s.Pages, "page"), hits, s.NewHits)
	}
	of := "?"
	if pages != job.AllPages {
		of = strconv.Itoa(pages)
	}
	return fmt.Sprintf("  %s %s %d/%s pages  %s  %d new", name, term.Bar(s.Next, pages), s.Pages, of, hits, s.NewHits)
}

// endedAs returns the mark for how a search ended: completed, cut off or failed.
func endedAs(stop string) string {
	switch stop {
	case "refused", "unreadable":
		return "failed"
	case "clock", "time", "share", "deadline":
		return "cut off"
	}
	return "done"
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
	if p.PerRun != nil {
		credits += fmt.Sprintf(" · at most %d", *p.PerRun)
	}
	return append(lines, credits, "  pace     "+paceText(p, now))
}

func paceText(p engine.Progress, now time.Time) string {
	text := p.Pace.Pace()
	if wait := p.Pace.Reset.Sub(now); wait > time.Second && p.Pace.Remaining == 0 {
		text += " · next call in " + term.Duration(wait)
	}
	switch {
	case p.Doing != "":
		text += " · " + p.Doing
	case p.Until.After(now):
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
