package command

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"outlierd/cmd/outlierd/page"
	"outlierd/cmd/outlierd/term"
	"outlierd/sync/forecast"
	"outlierd/sync/ledger"
	"outlierd/sync/runs"
	"outlierd/sync/serve"
	"outlierd/sync/store"
)

func statusCommand(o *options) *cobra.Command {
	return &cobra.Command{
		Use:   "status",
		Short: "Show running, waiting and due jobs, and why jobs wait",
		Long: `Show for each job its last run, what it is doing or waiting for, and when it is due next; then
the budget, the pace, the queue, the sinks and the last failure.

  last run  how it ended; "5 × ok_empty": the last five runs ended with this status
  queue     the earliest time at which it can be done, at the current pace
  sinks     "behind" counts answers that are stored but not published yet

It works while another instance is running, and without one.`,
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			if err := o.tableOrJSON(); err != nil {
				return err
			}
			config, err := o.loadToRead()
			if err != nil {
				if _, not := o.alive(c.Context()); not == nil {
					fmt.Fprintln(o.world.err, "outlierd up is alive and still uses the old job file; "+
						"the file on disk is refused:")
				}
				return err
			}
			return o.with(c.Context(), config, toRead, func(p *program) error { return o.showStatus(c.Context(), p) })
		},
	}
}

func (o *options) showStatus(ctx context.Context, p *program) error {
	s, err := p.forecasts().Status()
	if err != nil {
		return err
	}
	if folder := stateFolder(p.Engine.Config); !isMissing(folder) { // otherwise the state is temporary
		if s.Disk, err = diskOf(p.Engine.Store.DB); err != nil {
			return err
		}
		if s.Process != nil {
			askProcess(ctx, folder, s.Process)
		}
	}
	if o.forPrograms() {
		return o.whole(s)
	}
	text, err := statusText(s, o.look())
	if err != nil {
		return err
	}
	_, err = fmt.Fprint(o.world.out, text)
	return err
}

// diskOf returns the disk of a state if it has too little space for paid calls.
func diskOf(db *store.Store) (*forecast.Disk, error) {
	err := db.Room()
	low, is := errors.AsType[*store.LowSpaceError](err)
	if is && low.Files {
		free, err := db.Free()
		return &forecast.Disk{Free: free, FreeFiles: low.Free, NeedFiles: low.Need}, err
	}
	if is {
		return &forecast.Disk{Free: low.Free, Need: low.Need}, nil
	}
	return nil, err
}

// askProcess requests the state of the job file from the process that holds a state folder. A process
// other than 'outlierd up' has no socket. Without an answer everything else comes from the state.
func askProcess(ctx context.Context, folder string, h *forecast.Process) {
	within, cancel := context.WithTimeout(ctx, askFor)
	defer cancel()
	daemon, err := serve.Dial(within, folder)
	if err == nil {
		err = daemon.Understands(version())
	}
	switch {
	case err == nil:
		h.Refused, h.Changed = daemon.Refused, daemon.Changed
	case errors.Is(err, serve.ErrNoDaemon) && !slices.Contains(strings.Fields(h.Command), "up"):
	case errors.Is(err, context.DeadlineExceeded) && ctx.Err() == nil:
		h.Silent = fmt.Sprintf("no answer within %s on %s; it may hang: check its log, and restart it",
			askFor, relative(serve.Socket(folder)))
	default:
		h.Silent = err.Error()
	}
}

// statusText returns the status for people.
func statusText(s *forecast.Status, l term.Options) (string, error) {
	p := &planPrinter{zone: l.Zone}
	p.line("%s", term.Clip(p.at(s.At)+" · "+p.process(s.Process), l.Screen))
	for _, line := range notable(s) {
		p.line("! %s", term.Plain(line))
	}
	p.line("")
	if err := p.jobTable(s, l); err != nil {
		return "", err
	}
	p.line("")
	waits := false
	for i := range s.Jobs {
		if j := &s.Jobs[i]; j.Why != "" {
			p.line("%s", term.Clip(shown(j.Job)+": "+j.Why, max(l.Screen, 2*term.DefaultScreen)))
			waits = true
		}
	}
	if waits {
		p.line("")
	}
	for _, f := range p.standing(s) {
		if f.notice {
			p.line("! %s", f.text)
		} else {
			p.line("%s%s", term.Pad(f.name, 8), f.text)
		}
	}
	return p.String(), nil
}

// notable returns the problems that need attention first, one line each.
func notable(s *forecast.Status) (lines []string) {
	if h := s.Process; h != nil {
		switch {
		case h.Silent != "":
			lines = append(lines, "the process did not answer, so what follows comes from the state alone: "+h.Silent)
		case h.Refused != "":
			lines = append(lines, "the job file on disk is refused, and the old one stays in use: "+h.Refused)
		case h.Changed == serve.ReadOnSignal:
			lines = append(lines, "the job file on disk has changed since the process read it; "+
				"it is read again on SIGHUP (daemon.reload: signal)")
		case h.Changed != "":
			lines = append(lines, "the job file on disk has changed since the process read it; "+
				"it is read again within a minute, or at once on SIGHUP")
		}
	}
	if d := s.Disk; d != nil && d.NeedFiles > 0 {
		lines = append(lines, fmt.Sprintf("calls wait for free inodes: %d are free, and %d are required",
			d.FreeFiles, d.NeedFiles))
	} else if d != nil {
		lines = append(lines, fmt.Sprintf("calls wait for free disk space: %d MiB are free, and %d MiB are required",
			d.Free>>20, d.Need>>20))
	}
	return lines
}

// process describes which process works with the folder.
func (p *planPrinter) process(h *forecast.Process) string {
	switch {
	case h == nil:
		return "no process is running; 'outlierd up' runs the schedule"
	case h.PID == 0:
		return "another process works with the data folder"
	}
	return fmt.Sprintf("process %d since %s: %s", h.PID, p.at(h.Since), h.Command)
}

func (p *planPrinter) jobTable(s *forecast.Status, l term.Options) error {
	t := term.NewTable(p, l, []string{"job", "last run", "next due", "now"})
	for i := range s.Jobs {
		j := &s.Jobs[i]
		if err := t.Row([]any{shown(j.Job), p.lastRun(j, s.At), p.nextDue(j, s.At), now(j)}); err != nil {
			return err
		}
	}
	return t.End()
}

// lastRun describes how the last run of a job ended, and how many runs in a row ended in this way.
func (p *planPrinter) lastRun(j *forecast.JobStatus, at time.Time) string {
	last := j.Last
	if last == nil {
		return "never"
	}
	text := string(last.Status)
	if s := j.Streak; s != nil && s.Status == last.Status && s.Runs > 1 && s.Status != runs.OK {
		text = fmt.Sprintf("%d × %s", s.Runs, s.Status)
		if s.Runs >= runs.StreakMost {
			text = fmt.Sprintf("%d or more × %s", s.Runs, s.Status)
		}
	}
	if last.Ended.IsZero() {
		return text + ", began " + p.short(last.Started, at)
	}
	text += ", " + p.short(last.Ended, at)
	if last.Hits > 0 {
		text += fmt.Sprintf(", %d new", last.NewHits)
	}
	return text
}

// nextDue describes when a job is due, and whether it is overdue.
func (p *planPrinter) nextDue(j *forecast.JobStatus, at time.Time) string {
	switch {
	case j.Unlisted:
		return "not in the job file"
	case j.Disabled:
		return "disabled"
	case j.Paused != nil:
		return pausedBy(j.Job, j.Paused, p.zone)
	case j.Due.IsZero() && j.After == "":
		return "by hand"
	case j.Due.IsZero():
		return "after " + j.After
	case j.Overdue:
		return p.short(j.Due, at) + ", overdue"
	case j.After != "":
		return fmt.Sprintf("%s, after %s", p.short(j.Due, at), j.After)
	case j.Begins.After(j.Due):
		return fmt.Sprintf("%s, starts %s", p.short(j.Due, at), j.Begins.In(p.zone).Format("15:04"))
	}
	return p.short(j.Due, at)
}

// now describes what a job is doing, and how many of its calls are queued.
func now(j *forecast.JobStatus) string {
	var parts []string
	if j.Doing != forecast.JobIdle {
		parts = append(parts, j.Doing)
	}
	if j.Queued > 0 {
		parts = append(parts, fmt.Sprintf("%d queued", j.Queued))
	}
	return cmp.Or(strings.Join(parts, ", "), "–")
}

// short formats a time, without its date if that is today.
func (p *planPrinter) short(t, now time.Time) string {
	t, now = t.In(p.zone), now.In(p.zone)
	if p.near {
		return page.Near(now, t)
	}
	if t.Format(time.DateOnly) == now.Format(time.DateOnly) {
		return t.Format("15:04")
	}
	return t.Format("2006-01-02 15:04")
}

// fact is a line below the jobs.
type fact struct {
	name, text string
	notice     bool // it is marked as a problem, and has no name
}

// standing returns the lines below the jobs.
func (p *planPrinter) standing(s *forecast.Status) (facts []fact) {
	add := func(name, format string, args ...any) {
		facts = append(facts, fact{name: name, text: term.Plain(fmt.Sprintf(format, args...))})
	}
	add("budget", "%s", budgetLine(s))
	for _, r := range s.Refused {
		for line := range strings.Lines(p.refusal(r)) {
			facts = append(facts, fact{text: strings.TrimSpace(line), notice: true})
		}
	}
	add("pace", "%s", p.paceLine(s))
	add("queue", "%s", p.queueLine(s))
	for i := range s.Sinks {
		add("sink", "%s", p.sinkLine(&s.Sinks[i], s.At))
	}
	if j := &s.Journal; j.Retention != "" || j.Pruned > 0 {
		add("journal", "%s", p.journalLine(j, s.At))
	}
	if !s.Newest.IsZero() {
		add("newest", "row of %s, %s ago", p.at(s.Newest), term.Duration(max(0, s.At.Sub(s.Newest))))
	}
	if f := s.Failure; f != nil {
		add("failed", "%s on %s: %s", shown(f.Job), p.at(cmp.Or(f.Ended, f.Started)),
			term.Clip(cmp.Or(f.Error, "no reason recorded"), 120))
		add("", "outlierd runs %s", f.ID[:min(shortID, len(f.ID))])
	}
	return facts
}

// budgetLine describes what is left of the cycle and of today.
func budgetLine(s *forecast.Status) string {
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

// paceLine shows the pace, and when the next call may be sent.
func (p *planPrinter) paceLine(s *forecast.Status) string {
	switch {
	case s.Pace.Blocked.After(s.At):
		return fmt.Sprintf("%s · the service refuses calls until %s", s.Pace.Pace, p.at(s.Pace.Blocked))
	case s.Pace.Next.Sub(s.At) > time.Second:
		return fmt.Sprintf("%s · next call in %s", s.Pace.Pace, term.Duration(s.Pace.Next.Sub(s.At)))
	}
	return s.Pace.Pace
}

func (p *planPrinter) queueLine(s *forecast.Status) string {
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
	return fmt.Sprintf("%s, done at %s at the earliest", strings.Join(parts, " and "), p.at(s.Queue.Done))
}

// sinkLine describes how far a sink is behind, and why.
func (p *planPrinter) sinkLine(s *forecast.SinkStatus, at time.Time) string {
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
		text = fmt.Sprintf("%s %s behind, since %s", name, term.Count(s.Behind, "answer"), p.short(s.Since, at))
	}
	if s.Known && s.Error == "" && !s.Lost {
		text += ", published " + p.short(s.Published, at)
	}
	if s.Error != "" {
		text += fmt.Sprintf("; disabled since %s: %s", p.short(s.SinkState.Since, at), s.Error)
	}
	return text
}

// journalLine describes which answers are complete.
func (p *planPrinter) journalLine(j *forecast.JournalStatus, at time.Time) string {
	text := "nothing is pruned"
	if j.Pruned > 0 {
		text = fmt.Sprintf("pruned up to answer %d", j.Pruned)
	}
	if !j.Since.IsZero() {
		text += ", whole answers since " + p.short(j.Since, at)
	}
	return text + fmt.Sprintf(" (retention: %s)", cmp.Or(j.Retention, "for ever"))
}
