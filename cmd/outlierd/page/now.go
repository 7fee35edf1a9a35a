package page

import (
	"context"
	"fmt"
	"net/http"
	"time"
)

// Now is the overall status, in the words of `outlierd status`.
type Now struct {
	At            string    // time of the status, with the name of the zone
	Time          time.Time // the same
	Process       string    // the running process, and since when
	Notices       []string  // problems, the most important first
	Jobs          []Job
	Blocked       bool           // calls are blocked, and a user can lift the block
	Scans         []Scan         // with unconfirmed starts
	Facts         []Fact         // budget, pace, queue, sinks and the like
	Cycle         *Cycle         // nil without a cap of the cycle
	Troubles      []Run          // of the last seven days: runs that did not succeed, newest first
	Notifications []Notification // of the last seven days, newest first
}

// Notification is a notification that was sent, or waits to be.
type Notification struct {
	At, Title, Text string
	Targets         string // names of the targets
	Waits           bool   // a target has not accepted it yet
}

// Job is a row of [Now].
type Job struct {
	Name  string
	Run   string    // its last run, or "" before the first
	Last  string    // how it ended
	Due   string    // when it is due next
	DueAt time.Time // the same; zero if it is not
	Doing string
	Why   string // why it waits; "" if it does not

	Working           string // the run in progress; "" for none
	Queued            bool   // it has queued calls
	Scheduled, Paused bool   // it has a schedule of its own, and that is paused
}

// Scan is the start of a scan that the service did not confirm.
type Scan struct {
	Intent int64
	Says   string
}

// Fact is a line of the status.
type Fact struct {
	Name, Text string
	Meter      *Meter // nil without one
}

// Meter shows how much of something is used.
type Meter struct{ Used, Of int64 }

// Length returns the used part, in thousandths.
func (m Meter) Length() int64 {
	if m.Of <= 0 {
		return 0
	}
	return min(1000, max(0, 1000*m.Used/m.Of))
}

// Cycle is the billing cycle, with the credits left over time.
type Cycle struct {
	From, To time.Time
	Max      int64
	Left     []Point // in order of time; the last one is now
}

// Line plots the credits left in a field of 1000 by 100, starting with all credits of the cycle. Even
// spending is the diagonal.
func (c *Cycle) Line() string {
	line := "0,0"
	for _, p := range c.Left {
		at := 1000 * float64(p.At.Sub(c.From)) / float64(c.To.Sub(c.From))
		line += fmt.Sprintf(" %d,%d", int64(min(1000, max(0, at))), min(100, max(0, 100-100*p.N/max(1, c.Max))))
	}
	return line
}

// Now returns the number of credits left.
func (c *Cycle) Now() int64 { return c.Left[len(c.Left)-1].N }

// Even returns the number of credits that would be left with even spending.
func (c *Cycle) Even() int64 {
	gone := float64(c.Left[len(c.Left)-1].At.Sub(c.From)) / float64(c.To.Sub(c.From))
	return c.Max - int64(float64(c.Max)*gone)
}

// Begin and End are the first and last day of the cycle.
func (c *Cycle) Begin() string { return c.From.Format(time.DateOnly) }
func (c *Cycle) End() string   { return c.To.Format(time.DateOnly) }

// lookAhead is the period that the time line of the jobs shows.
const lookAhead = 24 * time.Hour

// Place returns the position of the job's next due time on the time line, in thousandths; negative if it is
// outside.
func (n *Now) Place(j Job) int64 {
	if j.DueAt.IsZero() || j.DueAt.Sub(n.Time) > lookAhead {
		return -1
	}
	return max(0, min(990, int64(1000*j.DueAt.Sub(n.Time)/lookAhead)))
}

const (
	shared   = time.Second     // how long requests share one reading
	patience = 2 * time.Second // how long a request waits for a reading before it gets the last one
)

// now shows the status.
func (s *Site) now(w http.ResponseWriter, r *http.Request) {
	now, stale, err := s.newest(r.Context())
	switch {
	case now == nil && err != nil:
		s.say(w, http.StatusInternalServerError, "The state could not be read; the log of outlierd up has the reason.")
	case now == nil && r.Context().Err() == nil:
		w.Header().Set("Retry-After", "2")
		s.say(w, http.StatusServiceUnavailable, "outlierd up is busy with a call; reload the page.")
	case now != nil:
		s.show(w, "now.html", struct {
			*Now
			Failed, Stale, Acts, Known bool
		}{now, err != nil, stale, s.from.Do != nil, s.logins.session(r) != ""})
	}
}

// newest returns a status that is at most [shared] old, and not older than the last action. If that takes too
// long, it returns the previous one as stale, or nil; if it fails, the previous one or nil with the error.
func (s *Site) newest(ctx context.Context) (now *Now, stale bool, err error) {
	enough := time.NewTimer(patience)
	defer enough.Stop()
	s.mu.Lock()
	defer s.mu.Unlock()
	for s.last == nil || time.Since(s.looked) >= shared || s.began.Before(s.acted) {
		if s.looking == nil {
			s.looking = make(chan struct{})
			go s.renew(s.looking)
		}
		done := s.looking
		s.mu.Unlock()
		late := false
		select {
		case <-done:
		case <-enough.C:
			late = true
		case <-ctx.Done():
			late = true
		}
		s.mu.Lock()
		if late || s.err != nil {
			return s.last, true, s.err
		}
	}
	return s.last, false, nil
}

// renew reads the status once, for all requests that wait for it. An error that repeats is logged once.
func (s *Site) renew(done chan struct{}) {
	began := time.Now()
	now, err := s.from.Now(s.ctx)
	s.mu.Lock()
	defer s.mu.Unlock()
	if err != nil && s.ctx.Err() == nil && (s.err == nil || s.err.Error() != err.Error()) {
		s.log.Error("page not shown", "page", "now", "err", err)
	}
	if s.err = err; err == nil {
		s.last, s.began, s.looked = now, began, time.Now()
	}
	s.looking = nil
	close(done)
}
