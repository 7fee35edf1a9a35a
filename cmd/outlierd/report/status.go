package report

import (
	"cmp"
	"fmt"
	"strings"
	"time"

	"outlierd/cmd/outlierd/term"
	"outlierd/sync/forecast"
	"outlierd/sync/job"
	"outlierd/sync/ledger"
	"outlierd/sync/runs"
	"outlierd/sync/serve"
)

// Status describes the state of everything.
func Status(s *forecast.Status, look term.Options) string {
	l, columns := &lines{Style: Style{Zone: look.Zone}}, cmp.Or(look.Screen, term.DefaultScreen)
	l.add("%s", term.Clip(l.At(s.At)+" · "+Process(s.Process, l.Style), columns))
	for _, problem := range Problems(s) {
		l.add("! %s", term.Plain(problem))
	}
	l.add("")
	var rows [][]any
	var waits []string
	for i := range s.Jobs {
		j := &s.Jobs[i]
		rows = append(rows, []any{job.Shown(j.Job), LastRun(j, s.At, l.Style), NextDue(j, s.At, l.Style), cmp.Or(Doing(j), "–")})
		if j.Why != "" {
			waits = append(waits, term.Clip(job.Shown(j.Job)+": "+j.Why, max(columns, 2*term.DefaultScreen))+"\n")
		}
	}
	l.addTable(look, []string{"job", "last run", "next due", "now"}, rows)
	l.add("")
	if len(waits) > 0 {
		l.add("%s", strings.Join(waits, ""))
	}
	l.addFacts(s)
	return l.String()
}

// addFacts adds what is about no single job: budget, pace, queue, sinks and the last failure.
func (l *lines) addFacts(s *forecast.Status) {
	add := func(name, format string, args ...any) {
		l.add("%s%s", term.Pad(name, 8), term.Plain(fmt.Sprintf(format, args...)))
	}
	add("budget", "%s", describeLeft(s))
	for _, r := range s.Refused {
		for line := range strings.Lines(Refusal(r, l.Style)) {
			l.add("! %s", strings.TrimSpace(line))
		}
	}
	add("pace", "%s", Pace(s, l.Style))
	add("queue", "%s", describeQueue(s, l.Style))
	for i := range s.Sinks {
		add("sink", "%s", Sink(&s.Sinks[i], s.At, l.Style))
	}
	if s.Backup != nil {
		add("backup", "%s", describeBackup(s.Backup, s.At, l.Style))
	}
	if j := &s.Journal; j.Retention != "" || j.Pruned > 0 {
		add("journal", "%s", describeJournal(j, s.At, l.Style))
	}
	if !s.Newest.IsZero() {
		add("newest", "row of %s, %s ago", l.At(s.Newest), term.Duration(max(0, s.At.Sub(s.Newest))))
	}
	if f := s.Failure; f != nil {
		add("failed", "%s on %s: %s", job.Shown(f.Job), l.At(cmp.Or(f.Ended, f.Started)), term.Clip(cmp.Or(f.Error, "no reason recorded"), 120))
		add("", "outlierd runs %s", ShortID(f.ID))
	}
}

// Problems returns the problems that need attention first, one line each.
func Problems(s *forecast.Status) (lines []string) {
	if h := s.Process; h != nil {
		switch {
		case h.Silent != "":
			lines = append(lines, "the process did not answer, so what follows comes from the state alone: "+h.Silent)
		case h.Changed == serve.ReadOnSignal:
			lines = append(lines, "the job file on disk has changed since the process read it; "+
				"it is read again on SIGHUP (daemon.reload: signal)")
		case h.Changed != "":
			lines = append(lines, "the job file on disk has changed since the process read it; "+
				"it is read again within a minute, or at once on SIGHUP")
		case h.Refused != "":
			lines = append(lines, "the job file on disk is refused, and the old one stays in use: "+h.Refused)
		}
	}
	if s.Disk != "" {
		lines = append(lines, "calls wait: "+s.Disk)
	}
	return lines
}

// Process describes which process works with the folder.
func Process(h *forecast.Process, in Style) string {
	switch {
	case h == nil:
		return "no process is running; 'outlierd up' runs the schedule"
	case h.PID == 0:
		return "another process works with the data folder"
	}
	return fmt.Sprintf("process %d since %s: %s", h.PID, in.At(h.Since), h.Command)
}

// LastRun describes how the last run of a job ended, and how many runs in a row ended in this way.
func LastRun(j *forecast.JobStatus, at time.Time, in Style) string {
	last := j.Last
	if last == nil {
		return "never"
	}
	text := string(last.Status)
	if s := j.Streak; s != nil && s.Status == last.Status && s.Runs > 1 && s.Status != runs.OK {
		text = fmt.Sprintf("%d × %s", s.Runs, s.Status)
		if s.Runs >= runs.MaxStreak {
			text = fmt.Sprintf("%d or more × %s", s.Runs, s.Status)
		}
	}
	if last.Ended.IsZero() {
		return text + ", began " + in.Short(last.Started, at)
	}
	text += ", " + in.Short(last.Ended, at)
	if last.Hits > 0 {
		text += fmt.Sprintf(", %d new", last.NewHits)
	}
	return text
}

// NextDue describes when a job is due, and whether it is overdue.
func NextDue(j *forecast.JobStatus, at time.Time, in Style) string {
	switch {
	case j.Unlisted:
		return "not in the job file"
	case j.Disabled:
		return "disabled"
	case j.Paused != nil:
		return pausedBy(j.Job, j.Paused, in.Zone)
	case j.Due.IsZero() && j.After == "":
		return "by hand"
	case j.Due.IsZero():
		return "after " + j.After
	case j.Overdue && j.Begins.After(at):
		return fmt.Sprintf("%s, overdue, starts %s", in.Short(j.Due, at), in.Short(j.Begins, at))
	case j.Overdue:
		return in.Short(j.Due, at) + ", overdue"
	case j.After != "":
		return fmt.Sprintf("%s, after %s", in.Short(j.Due, at), j.After)
	case j.Begins.After(j.Due):
		return fmt.Sprintf("%s, starts %s", in.Short(j.Due, at), in.local(j.Begins).Format("15:04"))
	}
	return in.Short(j.Due, at)
}

// Doing describes what a job is doing, and how many of its calls are queued; "" for an idle one without calls.
func Doing(j *forecast.JobStatus) string {
	var parts []string
	if j.Doing != forecast.JobIdle {
		parts = append(parts, j.Doing)
	}
	if j.Queued > 0 {
		parts = append(parts, fmt.Sprintf("%d queued", j.Queued))
	}
	return strings.Join(parts, ", ")
}

// describeLeft describes what is left of the cycle and of today.
func describeLeft(s *forecast.Status) string {
	var parts []string
	for i := range s.Budget {
		c := &s.Budget[i]
		of := "today"
		if c.Scope == ledger.ScopeMonth {
			of = "in the cycle from " + c.Period
		}
		if c.Max == nil {
			parts = append(parts, fmt.Sprintf("%s held %s, no cap", term.Count(c.Held, "credit"), of))
			continue
		}
		parts = append(parts, fmt.Sprintf("%d of %s left %s", *c.Left, term.Count(*c.Max, "credit"), of))
	}
	return strings.Join(parts, " · ")
}

// Pace shows the pace, and when the next call may be sent.
func Pace(s *forecast.Status, in Style) string {
	switch {
	case s.Pace.Blocked.After(s.At):
		return fmt.Sprintf("%s · the service refuses calls until %s", s.Pace.Pace, in.At(s.Pace.Blocked))
	case s.Pace.Next.Sub(s.At) > time.Second:
		return fmt.Sprintf("%s · next call in %s", s.Pace.Pace, term.Duration(s.Pace.Next.Sub(s.At)))
	}
	return s.Pace.Pace
}

// describeQueue counts the queued pages and calls, and says when they will be done.
func describeQueue(s *forecast.Status, in Style) string {
	if s.Queue.Done.IsZero() {
		return "empty"
	}
	var parts []string
	if s.Queue.Pages > 0 {
		parts = append(parts, term.Count(s.Queue.Pages, "page"))
	}
	if s.Queue.Calls > 0 {
		parts = append(parts, term.Count(s.Queue.Calls, "call"))
	}
	return fmt.Sprintf("%s, done at %s at the earliest", strings.Join(parts, " and "), in.At(s.Queue.Done))
}

// Sink describes how far a sink is behind, and why.
func Sink(s *forecast.SinkStatus, at time.Time, in Style) string {
	name := s.Sink
	if s.Bucket != "" {
		name += " (" + s.Bucket + ")"
	}
	text := name + " up to date"
	switch {
	case s.Lost:
		text = name + " is not there; the next run writes it again from the journal"
	case !s.Known && s.Behind == 0:
		text = name + " has nothing to publish yet"
	case !s.Known:
		text = name + ": not known before its next publication"
	case s.Behind > 0:
		text = fmt.Sprintf("%s %s behind, since %s", name, term.Count(s.Behind, "answer"), in.Short(s.Since, at))
	case s.Error != "": // what it was given last may be damaged or replaced
		return fmt.Sprintf("%s disabled since %s: %s", name, in.Short(s.SinkState.Since, at), s.Error)
	}
	if s.Known && s.Error == "" && !s.Lost {
		text += ", published " + in.Short(s.Published, at)
	}
	if s.Error != "" {
		text += fmt.Sprintf("; disabled since %s: %s", in.Short(s.SinkState.Since, at), s.Error)
	}
	return text
}

// describeBackup describes when the last good backup was made, and why there is no newer one.
func describeBackup(b *forecast.BackupStatus, at time.Time, in Style) string {
	text := "none yet to " + b.To
	if !b.Last.IsZero() {
		text = in.Short(b.Last, at) + " to " + b.To
	}
	if b.Error != "" {
		text += fmt.Sprintf("; failing since %s: %s", in.Short(b.Since, at), b.Error)
	}
	return text
}

// describeJournal describes which answers are complete.
func describeJournal(j *forecast.JournalStatus, at time.Time, in Style) string {
	text := "nothing is pruned"
	if j.Pruned > 0 {
		text = fmt.Sprintf("pruned up to answer %d", j.Pruned)
	}
	if !j.Since.IsZero() {
		text += ", whole answers since " + in.Short(j.Since, at)
	}
	return text + fmt.Sprintf(" (retention: %s)", cmp.Or(j.Retention, "for ever"))
}
