package page

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"strconv"
	"sync"
	"time"

	"golang.org/x/sync/singleflight"

	"outlierd/sync/runs"
)

// Now is the overall status.
type Now struct {
	At       string    // time of the status, with the name of the zone
	Time     time.Time // the same
	Process  string    // the running process, and since when
	Problems []Problem // what needs a person, the most important first
	Blocked  bool      // calls are blocked, and a user can lift the block
	Scans    []string  // unconfirmed starts, in sentences

	Running string // the job that runs; "" for none
	Left    *int64 // credits of the cycle; nil without a cap
	Newest  string // when the newest data was received
	Old     string // that this was too long ago; "" if it was not

	Stats         []Stat
	Jobs          []Job
	Runs          []runs.Run     // the last ones
	Notifications []Notification // of the last seven days, newest first
}

// countProblems is the number of things that need a person.
func (n *Now) countProblems() int { return len(n.Problems) + len(n.Scans) }

// Problem is something that needs a person.
type Problem struct {
	Title, Text string
	Bad         bool   // it stops work
	Run, Job    string // that it is about
}

// Notification is a notification that was sent, or waits to be.
type Notification struct {
	At, Title, Text string
	Targets         string // names of the targets
	Waits           bool   // a target has not accepted it yet
}

// Job is a row of [Now].
type Job struct {
	Name, Schedule string
	Run            string // its last run, or "" before the first
	Status         runs.Status
	Last           string // when it ended, and with what
	New            []float64
	Failed         []bool // which of these runs failed
	Due            string // when it is due next
	DueAt          []time.Time
	Doing          string
	Why            string // why it waits; "" if it does not
	Price          string // of its next run; "" if unknown

	Working           string // the run in progress; "" for none
	Scheduled, Paused bool   // it has a schedule of its own, and that is paused
}

// Spark returns the new hits of its last runs as small columns.
func (j Job) Spark() []rect {
	return sparkColumns(j.New, func(i int) string {
		if j.Failed[i] {
			return "kbad"
		}
		return "k1"
	})
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

// nowView is the data of the page Now.
type nowView struct {
	*Now
	Past bool // it could not be read again
}

// Title says how many things need a person.
func (v nowView) title() string {
	switch n := v.countProblems(); n {
	case 0:
		return "Nothing needs you"
	case 1:
		return "One thing needs you"
	default:
		return fmt.Sprintf("%d things need you", n)
	}
}

// Summary says what goes on.
func (v nowView) Summary() string {
	working := 0
	next := time.Time{}
	for _, j := range v.Jobs {
		if j.Working != "" {
			working++
		}
		for _, due := range j.DueAt {
			if due.After(v.Time) && (next.IsZero() || due.Before(next)) {
				next = due
			}
		}
	}
	text := "No job is at work"
	if working > 0 {
		text = formatCount(int64(working), "job") + " at work"
	}
	if !next.IsZero() {
		text += ", the next is due " + Near(v.Time, next)
	}
	return text + "."
}

// Near formats a time that is not far away, such as 06:45, Thu 06:30 or 1 Dec.
func Near(now, at time.Time) string {
	switch days := at.Sub(now).Abs().Hours() / 24; {
	case at.Format(time.DateOnly) == now.Format(time.DateOnly):
		return at.Format("15:04")
	case days < 6:
		return at.Format("Mon 15:04")
	default:
		return at.Format("2 Jan")
	}
}

// lookAhead is the period that the time line of the jobs shows.
const lookAhead = 24 * time.Hour

// Places returns the places of the job's due times on the time line.
func (n *Now) Places(j Job) (all []string) {
	for _, due := range j.DueAt {
		if ahead := due.Sub(n.Time); ahead <= lookAhead {
			all = append(all, formatPercent(97*float64(max(0, ahead))/float64(lookAhead)))
		}
	}
	return all
}

// Hours are the labels of the time line.
func (n *Now) Hours() (all []tick) {
	at := n.Time.Truncate(time.Hour)
	for i := 1; i <= 24; i++ {
		if t := at.Add(time.Duration(i) * time.Hour); t.Hour()%6 == 0 && t.Sub(n.Time) > 2*time.Hour { // "now" stands before it
			all = append(all, tick{At: formatPercent(97 * float64(t.Sub(n.Time)) / float64(lookAhead)), Text: t.Format("15")})
		}
	}
	return all
}

const (
	shared   = time.Second     // how long requests share one reading
	patience = 2 * time.Second // how long the page Now waits for a reading before it gets the last one
)

// serveNow shows the status.
func (s *Site) serveNow(w http.ResponseWriter, r *http.Request) error {
	ctx, cancel := context.WithTimeout(r.Context(), patience)
	defer cancel()
	now, err := s.status.read(ctx)
	switch {
	case now != nil:
		v := nowView{now, err != nil}
		return s.render.show(w, r, view{"now.html", v.title(), "Now", v})
	case r.Context().Err() != nil: // the client has disconnected
		return err
	case errors.Is(err, context.DeadlineExceeded):
		return &problem{status: http.StatusServiceUnavailable, text: "Reading the state takes long; reload the page.", retry: "2"}
	}
	return &problem{status: http.StatusInternalServerError, text: "The state could not be read; the log of outlierd up has the reason."}
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
	err     error // of the last reading
	actions int   // that were carried out: what was read before the last one is out of date
}

// read returns the status. If reading fails or ctx ends, it returns the last one, or nil, with the error.
func (s *statusReader) read(ctx context.Context) (*Now, error) {
	s.mu.Lock()
	last, looked, actions := s.last, s.looked, s.actions
	s.mu.Unlock()
	if time.Since(looked) < shared {
		return last, nil
	}
	select {
	case read := <-s.reading.DoChan(strconv.Itoa(actions), func() (any, error) { return s.readAfter(actions) }):
		if read.Err != nil {
			return last, read.Err
		}
		return read.Val.(*Now), nil
	case <-ctx.Done():
		return last, ctx.Err()
	}
}

// readAfter reads the status after so many actions. An error that repeats is logged once.
func (s *statusReader) readAfter(actions int) (*Now, error) {
	now, err := s.source(s.ctx)
	s.mu.Lock()
	defer s.mu.Unlock()
	if err != nil && s.ctx.Err() == nil && (s.err == nil || s.err.Error() != err.Error()) {
		s.log.Error("page not shown", "page", "now", "err", err)
	}
	if s.err = err; err == nil && actions == s.actions {
		s.last, s.looked = now, time.Now()
	}
	return now, err
}

// latest returns the status that was read last, or nil.
func (s *statusReader) latest() *Now {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.last
}

// expire has the status read again, since an action was carried out.
func (s *statusReader) expire() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.actions++
	s.looked = time.Time{}
}
