// Package report writes in words what commands and the page show: runs, plans, budgets, the status and where a video
// came from. It reads nothing: each function gets a value, the same one that -o json prints.
package report

import (
	"cmp"
	"fmt"
	"path/filepath"
	"strings"
	"time"

	"outlierd/cmd/outlierd/term"
	"outlierd/sync/runs"
)

// A Style is how times are written.
type Style struct {
	Zone *time.Location // UTC if nil
	Near bool           // times that are not far away are short, as on the page
}

// At formats a time with its zone.
func (s Style) At(t time.Time) string { return s.local(t).Format("2006-01-02 15:04 MST") }

// Day formats a date.
func (s Style) Day(t time.Time) string { return s.local(t).Format(time.DateOnly) }

// Short formats a time, without its date if that is today; with Near such as 06:45, Thu 06:30 or 1 Dec.
func (s Style) Short(t, now time.Time) string {
	t, now = s.local(t), s.local(now)
	switch days := t.Sub(now).Abs().Hours() / 24; {
	case t.Format(time.DateOnly) == now.Format(time.DateOnly):
		return t.Format("15:04")
	case !s.Near:
		return t.Format("2006-01-02 15:04")
	case days < 6:
		return t.Format("Mon 15:04")
	}
	return t.Format("2 Jan")
}

func (s Style) local(t time.Time) time.Time { return t.In(cmp.Or(s.Zone, time.UTC)) }

// lines collects lines of text.
type lines struct {
	strings.Builder
	Style
}

func (l *lines) add(format string, args ...any) { fmt.Fprintf(l, format+"\n", args...) }

// addTable adds a table.
func (l *lines) addTable(look term.Options, columns []string, rows [][]any) {
	t := term.NewTable(l, look, columns)
	for _, row := range rows {
		_ = t.Row(row) // writing to a string does not fail
	}
	_ = t.End()
}

// ShortID abbreviates the id of a run to its time in milliseconds and 12 random bits, which distinguish it from all
// others of one process.
func ShortID(id string) string { return id[:min(len("01a204a9-80a2-7f39"), len(id))] }

// Paused says that a schedule is paused, until when and why.
func Paused(p *runs.Pause, zone *time.Location) string {
	said := "paused until resumed"
	if !p.Until.IsZero() {
		said = "paused until " + Style{Zone: zone}.At(p.Until)
	}
	if p.Why != "" {
		said += fmt.Sprintf(" (%s)", term.Plain(p.Why))
	}
	return said
}

// pausedBy says that a job, or the one that it comes after, is paused.
func pausedBy(name string, pause *runs.Pause, zone *time.Location) string {
	said := Paused(pause, zone)
	if pause.Job != name {
		said = fmt.Sprintf("after %s, which is %s", pause.Job, said)
	}
	return said
}

// Title returns a title with the title of its channel, on one line.
func Title(title, channel string) string {
	if channel == "" {
		return term.Clip(title, 80)
	}
	return term.Clip(title, 60) + " · " + term.Clip(channel, 24)
}

// Size formats bytes.
func Size(bytes int64) string {
	if bytes < 1e6 {
		return fmt.Sprintf("%.1f kB", float64(bytes)/1e3)
	}
	return fmt.Sprintf("%.1f MB", float64(bytes)/1e6)
}

// Path shortens a path below the working directory.
func Path(path string) string {
	here, err := filepath.Abs(".")
	if err != nil {
		return path
	}
	short, err := filepath.Rel(here, path)
	if err != nil || strings.HasPrefix(short, "..") {
		return path
	}
	return short
}
