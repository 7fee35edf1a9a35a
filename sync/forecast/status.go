package forecast

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"time"

	"outlierd/sync/facts"
	"outlierd/sync/job"
	"outlierd/sync/journal"
	"outlierd/sync/ledger"
	"outlierd/sync/queue"
	"outlierd/sync/runs"
)

// Status is the state of everything at one moment. It reads a few rows per job, however large the state
// is, and makes no plans, so that it can be called often.
type Status struct {
	At      time.Time          `json:"at"`
	Process *Process           `json:"process"`        // that holds the state folder; null if none does
	Disk    string             `json:"disk,omitempty"` // why the disk has too little space to buy anything; "" if it has enough
	Jobs    []JobStatus        `json:"jobs"`
	Queue   QueueStatus        `json:"queue"`
	Budget  []facts.CapBalance `json:"budget"`            // the billing cycle and the day
	Refused []ledger.Block     `json:"refused,omitempty"` // why the service refuses calls now
	Pace    PaceStatus         `json:"pace"`
	Sinks   []SinkStatus       `json:"sinks"`
	Backup  *BackupStatus      `json:"backup,omitempty"` // of the daemon; nil if the job file has none
	Journal JournalStatus      `json:"journal"`
	Newest  time.Time          `json:"newest_row_at,omitzero"` // when the newest published answer was received
	Failure *runs.Run          `json:"last_failure,omitempty"` // the newest failed run of any job
}

// Process is the process that has locked a state folder.
type Process struct {
	PID     int       `json:"pid"` // 0 if unknown
	Command string    `json:"command"`
	Since   time.Time `json:"since,omitzero"`
	Refused string    `json:"file_refused,omitempty"` // why 'outlierd up' has refused the present job file
	Changed string    `json:"file_changed,omitempty"` // when it reads the changed file: "soon" or "signal"
	Silent  string    `json:"no_answer,omitempty"`    // why the process could not be asked about its job file
}

// JobStatus is the state of one job.
type JobStatus struct {
	Job      string       `json:"job"`
	Unlisted bool         `json:"not_in_file,omitempty"` // with a run in progress: a one-off request, or a removed job
	Disabled bool         `json:"disabled,omitempty"`
	Tags     []string     `json:"tags,omitempty"`
	After    string       `json:"after,omitempty"`
	Last     *runs.Run    `json:"last_run"`
	Streak   *runs.Streak `json:"streak"` // of the job's own runs; see [runs.Streak]
	Doing    string       `json:"doing"`
	Run      string       `json:"run,omitempty"`      // the unfinished run that Doing is about
	Why      string       `json:"why,omitempty"`      // why it waits
	Until    time.Time    `json:"until,omitzero"`     // when the wait ends, if known
	Queued   int          `json:"queued"`             // data calls, including those shared with other jobs
	Due      time.Time    `json:"next_due,omitzero"`  // may be in the past if the due time was missed
	Begins   time.Time    `json:"begins_at,omitzero"` // later than Due because of jitter or quiet hours
	Overdue  bool         `json:"overdue,omitempty"`
	Paused   *runs.Pause  `json:"paused,omitempty"` // of the job, or of the job that it comes after
}

// What a job is doing.
const (
	JobIdle    = "idle"
	JobRunning = "running" // a process performs one of its runs, which may wait for its turn
	JobWaiting = "waiting" // it has an unfinished run that no process performs
)

// QueueStatus is the number of queued data calls, and of pages of runs that continue.
type QueueStatus struct {
	Calls int       `json:"calls"`
	Pages int       `json:"pages"`
	Done  time.Time `json:"done_at,omitzero"` // at the earliest, at the learned pace
}

// PaceStatus is the state of the limiter.
type PaceStatus struct {
	Pace    string    `json:"pace"`
	Next    time.Time `json:"next_at"` // when the next request may leave
	Blocked time.Time `json:"blocked_until,omitzero"`
}

// JournalStatus says which answers the journal still has in full.
type JournalStatus struct {
	journal.Kept
	Retention string `json:"retention,omitempty"` // from the job file; "" keeps all
}

// SinkStatus is how far a sink is behind the journal.
type SinkStatus struct {
	Sink   string    `json:"sink"`
	Bucket string    `json:"bucket,omitempty"`      // where its files are copied before they count as published
	Known  bool      `json:"known"`                 // it has been published since this is recorded
	Lost   bool      `json:"lost,omitempty"`        // what was published is not there any more
	Behind int64     `json:"behind"`                // answers that it has not published
	Since  time.Time `json:"behind_since,omitzero"` // when the first of these answers was received
	runs.SinkState
}

// BackupStatus is the state of the daemon's backups.
type BackupStatus struct {
	To    string    `json:"to"`
	Last  time.Time `json:"last,omitzero"` // when the last good one was made
	Error string    `json:"error,omitempty"`
	Since time.Time `json:"failing_since,omitzero"`
}

// Status returns the current state.
func (r *Reader) Status() (s *Status, err error) {
	now := time.Now()
	s = &Status{At: now, Jobs: []JobStatus{}}
	if h := r.Store.DB.Holder(); h != nil {
		s.Process = &Process{PID: h.PID, Command: h.Command, Since: h.Since}
	}
	pace := r.Pace.Status()
	s.Pace = PaceStatus{Pace: r.PaceText(), Next: pace.Reset, Blocked: pace.BlockedUntil}
	for _, add := range []func(*Reader) error{s.addJobs, s.addBudget, s.addSinks, s.addBackup, s.addJournal} {
		if err := add(r); err != nil {
			return nil, err
		}
	}
	s.Failure, err = r.Store.Runs.Last(runs.Filter{Status: runs.Failed})
	return s, err
}

func (s *Status) addBudget(r *Reader) (err error) {
	if s.Budget, err = sharedCaps(r.Caps(), r.Store.Clock.Now()); err != nil {
		return err
	}
	s.Refused, err = r.Refusals()
	return err
}

func fileExists(path string) bool {
	_, err := os.Stat(path)
	return !errors.Is(err, fs.ErrNotExist)
}

func (s *Status) addSinks(r *Reader) error {
	for _, sink := range r.Config.Sinks {
		state, err := r.Store.Sinks.State(sink.Kind)
		if err != nil {
			return err
		}
		tail, err := r.Store.Journal.Tail(state.Mark)
		if err != nil {
			return err
		}
		s.Sinks = append(s.Sinks, SinkStatus{
			Sink: sink.Kind, Bucket: sink.Bucket, Known: !state.Published.IsZero(), Behind: tail.Answers,
			Since: tail.Since, SinkState: state, Lost: !state.Published.IsZero() && sink.Lake == nil &&
				!fileExists(filepath.Join(r.Config.Data, sink.Path)),
		})
		if tail.Last.After(s.Newest) && !s.Sinks[len(s.Sinks)-1].Lost {
			s.Newest = tail.Last
		}
	}
	return nil
}

func (s *Status) addBackup(r *Reader) error {
	to := r.Config.Backup
	if to == nil {
		return nil
	}
	now, err := r.Store.Sinks.State(runs.BackupSink)
	s.Backup = &BackupStatus{To: to.To, Last: now.Published, Error: now.Error, Since: now.Since}
	return err
}

func (s *Status) addJournal(r *Reader) (err error) {
	s.Journal.Kept, err = r.Store.Journal.Kept()
	if keep := r.Config.Retention; keep > 0 {
		s.Journal.Retention = job.FormatDuration(keep)
	}
	return err
}

// addJobs adds the jobs of the file, in order, others that have a run in progress, and the queue.
func (s *Status) addJobs(r *Reader) error {
	counts, err := r.Store.Queue.Counts()
	if err != nil {
		return err
	}
	queued := map[string]int{}
	for _, c := range counts {
		queued[c.Job] += c.Calls
	}
	if s.Queue.Calls, err = r.Store.Queue.Queued(queue.Filter{}); err != nil {
		return err
	}
	why, err := r.newExplainer(s.At)
	if err != nil {
		return err
	}
	going := why.unfinished
	var searches []Waiting
	if searches, s.Queue.Pages, err = why.waitingSearches(""); err != nil {
		return err
	}
	if calls := s.Queue.Calls + s.Queue.Pages; calls > 0 {
		s.Queue.Done = s.At.Add(r.Pace.ETA(calls))
	}
	times, err := r.Store.Schedule.DueTimes(s.At)
	if err != nil {
		return err
	}
	specs := make([]*job.Spec, 0, len(r.Config.Jobs))
	for i := range r.Config.Jobs {
		specs = append(specs, &r.Config.Jobs[i])
	}
	for _, u := range going {
		if !slices.ContainsFunc(specs, func(s *job.Spec) bool { return s.Name == u.Spec.Name }) {
			specs = append(specs, u.Spec)
		}
	}
	for _, spec := range specs {
		j := JobStatus{Job: spec.Name, Unlisted: r.Config.Job(spec.Name) == nil, Disabled: spec.Disabled,
			Tags: spec.Tags, After: spec.After, Doing: JobIdle, Queued: queued[spec.Name]}
		if err := j.addPast(r, spec.Name); err != nil {
			return err
		}
		if j.Last == nil && spec.Was != "" {
			if err := j.addPast(r, spec.Was); err != nil {
				return err
			}
		}
		if !j.Unlisted {
			j.Paused = facts.PausedBy(r.Config, spec, times.Pauses)
			j.addDue(r.Config, spec, times.Dues, times.Noted[spec.Name], s.At)
		}
		if at := slices.IndexFunc(going, func(u facts.Unfinished) bool { return u.Spec == spec }); at >= 0 {
			j.setUnfinished(&going[at], searches, why, s.Process != nil)
		}
		s.Jobs = append(s.Jobs, j)
	}
	return nil
}

// addPast adds how earlier runs of a job ended, under its name or its former one.
func (j *JobStatus) addPast(r *Reader, name string) (err error) {
	if j.Last, err = r.Store.Runs.Last(runs.Filter{Job: name}); err != nil || j.Last == nil {
		return err
	}
	streak, err := r.Store.Runs.Streak(name)
	if streak.Runs > 0 {
		j.Streak = &streak
	}
	return err
}

// addDue adds when a job is due: next, after its pause if it has one, or in the past if it has missed a
// run that it will catch up on. noted are the due times whose runs have not begun, and last is the last one that has
// come.
func (j *JobStatus) addDue(config *job.Config, spec *job.Spec, noted []runs.Due, last, now time.Time) {
	clock, zone := config.ScheduledBy(spec), config.Timezone
	from := now
	if j.Paused != nil {
		from = j.Paused.Until
	}
	if from.IsZero() {
		return
	}
	j.Due = clock.Coming(from, zone)
	if !j.Due.IsZero() && clock.Jitter > 0 {
		j.Begins = clock.Begins(j.Due, zone)
	}
	if clock != spec || spec.Disabled || j.Paused != nil || spec.CatchUp == job.CatchUpNone || last.IsZero() {
		return
	}
	missed := clock.Next(last, zone)
	if at := slices.IndexFunc(noted, func(d runs.Due) bool { return d.Job == spec.Name }); at >= 0 {
		missed = noted[at].At
	}
	if j.Overdue = !missed.IsZero() && !clock.Begins(missed, zone).After(now); j.Overdue {
		j.Due, j.Begins = missed, time.Time{}
		if end := clock.AfterQuiet(now, zone); end.After(now) {
			j.Begins = end
		}
	}
}

// setUnfinished adds the state of the job's unfinished run that is resumed first. A process that holds the
// folder resumes a run that waits for the rate limit.
func (j *JobStatus) setUnfinished(u *facts.Unfinished, searches []Waiting, why *explainer, held bool) {
	j.Run, j.Doing = u.Run.ID, JobWaiting
	if u.Run.Status == runs.Running {
		j.Doing = JobRunning
	}
	at := slices.IndexFunc(searches, func(w Waiting) bool { return w.Job == j.Job })
	switch {
	case held && u.Run.Status == runs.PausedQuota:
		j.Why = u.Run.Error
	case at >= 0:
		j.Why, j.Until = searches[at].Why, searches[at].At
	case u.Run.Status.Open() && u.Run.Status != runs.Running:
		j.Why = why.cutShort(u)
	}
}
