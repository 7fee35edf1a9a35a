package page

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/singleflight"

	"outlierd/cmd/outlierd/report"
	"outlierd/cmd/outlierd/term"
	"outlierd/outlier/pace"
	"outlierd/sync/forecast"
	"outlierd/sync/job"
	"outlierd/sync/notify"
	"outlierd/sync/runs"
	"outlierd/sync/serve"
)

// Now is the overall status, with what only the page shows. Package report says it in words.
type Now struct {
	forecast.Status
	In report.Style

	Rows          []Job // about the jobs of the status
	Cycle         *Cycle
	Requests      pace.Status
	Free          uint64                // bytes of the disk
	Data          string                // how large the data folder is, and how much a week adds
	MaxAge        time.Duration         // above which the newest data is old
	Unconfirmed   []runs.Scan           // whose starts the service did not confirm
	Runs          []runs.Run            // the last ones
	Notifications []notify.Notification // of the last seven days, newest first
}

// Job is a row of [Now].
type Job struct {
	forecast.JobStatus
	Schedule string      // when it runs, in words
	Recent   []runs.Run  // its last runs, the oldest first
	DueAt    []time.Time // its due times within a day
	Price    string      // of its next run; "" if unknown
}

// Working returns the id of its run in progress, or "".
func (j *Job) Working() string {
	if j.Doing != forecast.JobRunning {
		return ""
	}
	return j.Run
}

// IsPaused and IsScheduled report whether it has a schedule of its own, and whether that is paused.
func (j *Job) IsPaused() bool    { return j.Paused != nil && j.Paused.Job == j.Job }
func (j *Job) IsScheduled() bool { return !j.Disabled && (!j.Due.IsZero() || j.After != "") }

// Spark returns the new hits of its last runs as small columns.
func (j *Job) Spark() []rect {
	var found []float64
	for _, r := range j.Recent {
		found = append(found, float64(r.NewHits))
	}
	return sparkColumns(found, func(i int) string {
		if j.Recent[i].Status == runs.Failed {
			return "kbad"
		}
		return "k1"
	})
}

// ProcessText describes which process works with the folder.
func (n *Now) ProcessText() string { return report.Process(n.Process, n.In) }

// Last says when the last run of a job ended, and with what.
func (n *Now) Last(j Job) string {
	if j.Last == nil {
		return ""
	}
	return strings.TrimPrefix(report.LastRun(&j.JobStatus, n.At, n.In), string(j.Last.Status)+", ")
}

// Next says when a job is due next, and Activity what it does.
func (n *Now) Next(j Job) string     { return report.NextDue(&j.JobStatus, n.At, n.In) }
func (n *Now) Activity(j Job) string { return report.Doing(&j.JobStatus) }

// Running is the job that runs; "" for none.
func (n *Now) Running() string {
	for i := range n.Rows {
		if n.Rows[i].Working() != "" {
			return job.Shown(n.Rows[i].Job)
		}
	}
	return ""
}

// Problem is something that needs a person.
type Problem struct {
	Title, Text string
	Bad         bool   // it stops work
	Run, Job    string // that it is about
	Lift        bool   // a person can lift the block
}

// Problems returns what needs a person, the most important first.
func (n *Now) Problems() (all []Problem) {
	if n.Process == nil {
		all = append(all, Problem{Title: "Nothing runs.",
			Text: "'outlierd up' is not running here, so no job starts by itself, and nothing can be changed."})
	}
	for _, text := range report.Problems(&n.Status) {
		all = append(all, Problem{Text: text, Bad: n.Disk != ""})
	}
	for _, r := range n.Refused {
		all = append(all, Problem{Title: "Calls are blocked.", Text: strings.TrimSpace(report.Refusal(r, n.In)), Bad: true, Lift: true})
	}
	for i := range n.Sinks {
		if sink := &n.Sinks[i]; sink.Error != "" || sink.Lost {
			all = append(all, Problem{Title: sink.Sink + " is not published.", Text: report.Sink(sink, n.At, n.In)})
		}
	}
	for i := range n.Rows {
		if last := n.Rows[i].Last; last != nil && (last.Status == runs.Failed || last.Status == runs.PausedQuota) {
			all = append(all, n.failure(&n.Rows[i]))
		}
	}
	for i := range n.Unconfirmed {
		all = append(all, Problem{Text: describeUnconfirmed(&n.Unconfirmed[i], n.In)})
	}
	return all
}

// failure describes the last run of a job, which failed.
func (n *Now) failure(j *Job) Problem {
	last, name := j.Last, job.Shown(j.Job)
	title := name + " failed."
	if j.Streak != nil && j.Streak.Runs > 1 {
		title = fmt.Sprintf("%s failed %d times.", name, j.Streak.Runs)
	}
	spent := "it cost nothing"
	if last.Credits != 0 {
		spent = "it cost " + term.Count(last.Credits, "credit")
	}
	text := strings.TrimSuffix(last.Error, ".") + "; " + spent + "."
	if !j.Due.IsZero() {
		text += " It is tried again at " + n.In.Short(j.Due, n.At) + "."
	}
	return Problem{Title: title, Text: text, Bad: true, Run: last.ID, Job: j.Job}
}

// describeUnconfirmed identifies the start of a scan that the service did not confirm.
func describeUnconfirmed(s *runs.Scan, in report.Style) string {
	about := "queries"
	if len(s.Queries) == 0 {
		about = "channels"
	}
	return fmt.Sprintf("The service did not confirm the start of a scan of %s on %s (%s mode, %s: %s); "+
		"its %s count as spent. Look for it on the service's site, then use 'outlierd scan adopt' or 'outlierd scan resolve'.",
		job.Shown(s.Job), in.At(s.Intended), s.Mode, about, term.Clip(strings.Join(s.Queries, ", "), 100), term.Count(s.Price, "credit"))
}

// Old says that the newest data is too old; "" if it is not.
func (n *Now) Old() string {
	age := n.At.Sub(n.Newest)
	if n.Newest.IsZero() || age <= n.MaxAge {
		return ""
	}
	return fmt.Sprintf("The newest data is of %s, %s ago.", n.In.At(n.Newest), term.Count(int(age.Hours()/24), "day"))
}

// Stat is one of the numbers at the head of a page.
type Stat struct {
	Name, Value, Unit string
	Meter             *Meter // nil without one
	More              string
}

// Meter shows how much of something is used, and where it would be with even use.
type Meter struct{ Used, Of, Even int64 }

// Length and Mark return the used part and the even one, in percent.
func (m Meter) Length() string { return shareOf(m.Used, m.Of) }
func (m Meter) Mark() string {
	if m.Even == 0 {
		return ""
	}
	return shareOf(m.Even, m.Of)
}

// Stats are the numbers at the head. Without a state there are none.
func (n *Now) Stats() []Stat {
	if len(n.Budget) == 0 {
		return nil
	}
	credits := Stat{Name: "Credits of the cycle", Value: formatThousands(n.Budget[0].Held), Unit: "held, no cap"}
	if c := n.Cycle; c != nil {
		left := c.Left
		credits = Stat{Name: credits.Name, Value: formatThousands(left), Unit: "of " + formatThousands(c.Max) + " left",
			Meter: &Meter{Used: left, Of: c.Max, Even: c.Even()},
			More:  "even spending from " + c.From.Format("2 Jan") + " to " + c.To.Format("2 Jan") + " would leave " + formatThousands(c.Even())}
	}
	used := n.Requests.Limit - n.Requests.Remaining
	requests := Stat{Name: "Requests", Value: formatThousands(used), Unit: "of " + report.Pace(&n.Status, n.In),
		Meter: &Meter{Used: int64(used), Of: int64(n.Requests.Limit)}}
	if n.Requests.Foreign > 0 {
		requests.More = fmt.Sprintf("%d by others with your key", n.Requests.Foreign)
	}
	queue := Stat{Name: "Queue", Value: formatThousands(n.Queue.Calls + n.Queue.Pages), Unit: "calls"}
	if !n.Queue.Done.IsZero() {
		queue.More = fmt.Sprintf("done at %s at the earliest", n.In.Short(n.Queue.Done, n.At))
	}
	newest := Stat{Name: "Newest data", Value: "–"}
	if !n.Newest.IsZero() {
		newest.Value, newest.Unit = n.In.Short(n.Newest, n.At), term.Duration(max(0, n.At.Sub(n.Newest)))+" ago"
	}
	for i := range n.Sinks {
		newest.More = strings.TrimPrefix(newest.More+" · "+report.Sink(&n.Sinks[i], n.At, n.In), " · ")
	}
	disk := Stat{Name: "Disk", Value: fmt.Sprintf("%d GB", n.Free>>30), Unit: "free", More: n.Data}
	return []Stat{credits, requests, queue, newest, disk}
}

// title says how many things need a person.
func (n *Now) title() string {
	switch count := len(n.Problems()); count {
	case 0:
		return "Nothing needs you"
	case 1:
		return "One thing needs you"
	default:
		return fmt.Sprintf("%d things need you", count)
	}
}

// Summary says what goes on.
func (n *Now) Summary() string {
	working := 0
	next := time.Time{}
	for i := range n.Rows {
		if n.Rows[i].Working() != "" {
			working++
		}
		for _, due := range n.Rows[i].DueAt {
			if due.After(n.At) && (next.IsZero() || due.Before(next)) {
				next = due
			}
		}
	}
	text := "No job is at work"
	if working > 0 {
		text = formatCount(working, "job") + " at work"
	}
	if !next.IsZero() {
		text += ", the next is due " + n.In.Short(next, n.At)
	}
	return text + "."
}

// lookAhead is the period that the time line of the jobs shows.
const lookAhead = 24 * time.Hour

// Places returns the places of the job's due times on the time line.
func (n *Now) Places(j Job) (all []string) {
	for _, due := range j.DueAt {
		if ahead := due.Sub(n.At); ahead <= lookAhead {
			all = append(all, formatPercent(97*float64(max(0, ahead))/float64(lookAhead)))
		}
	}
	return all
}

// Hours are the labels of the time line.
func (n *Now) Hours() (all []tick) {
	at := n.At.Truncate(time.Hour)
	for i := 1; i <= 24; i++ {
		if t := at.Add(time.Duration(i) * time.Hour); t.Hour()%6 == 0 && t.Sub(n.At) > 2*time.Hour { // "now" stands before it
			all = append(all, tick{At: formatPercent(97 * float64(t.Sub(n.At)) / float64(lookAhead)), Text: t.Format("15")})
		}
	}
	return all
}

// shared is how long requests share one reading of the status.
const shared = time.Second

// serveNow shows the status.
func (s *Site) serveNow(w http.ResponseWriter, r *http.Request) error {
	now, err := s.status.read(r.Context())
	if err != nil {
		return err
	}
	return s.render.show(w, r, view{"now.html", now.title(), "Now", now})
}

// statusReader reads the status once for all requests of a second, and again after an action.
type statusReader struct {
	ctx     context.Context
	source  func(context.Context) (*Now, error)
	log     *slog.Logger
	reading singleflight.Group // by the number of actions

	mu      sync.Mutex
	last    *Now // nil before the first reading
	looked  time.Time
	failed  string // why the last reading has failed, as the log has it; "" if it has not
	actions int    // that were carried out: what was read before the last one is out of date
}

// read returns the status, or the last one, or nil, with the error, if ctx ends.
func (s *statusReader) read(ctx context.Context) (*Now, error) {
	s.mu.Lock()
	last, looked, actions := s.last, s.looked, s.actions
	s.mu.Unlock()
	if time.Since(looked) < shared {
		return last, nil
	}
	select {
	case read := <-s.reading.DoChan(strconv.Itoa(actions), func() (any, error) { return s.readAfter(actions) }):
		now, _ := read.Val.(*Now)
		return now, read.Err
	case <-ctx.Done():
		return last, ctx.Err()
	}
}

var errNoStatus = serve.Refuse(http.StatusInternalServerError,
	"The state could not be read; the log of outlierd up has the reason.")

// readAfter reads the status after so many actions. An open page asks each second, so an error that repeats is logged
// once.
func (s *statusReader) readAfter(actions int) (*Now, error) {
	now, err := s.source(s.ctx)
	s.mu.Lock()
	defer s.mu.Unlock()
	if err != nil {
		if s.ctx.Err() == nil && s.failed != err.Error() {
			s.log.Error("page not shown", "page", "now", "err", err)
		}
		s.failed = err.Error()
		return nil, errNoStatus
	}
	if s.failed = ""; actions == s.actions {
		s.last, s.looked = now, time.Now()
	}
	return now, nil
}

// expire has the status read again, since an action was carried out.
func (s *statusReader) expire() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.actions++
	s.looked = time.Time{}
}
