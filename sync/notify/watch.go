package notify

import (
	"cmp"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"outlierd/outlier"
	"outlierd/schema"
	"outlierd/sync/facts"
	"outlierd/sync/job"
	"outlierd/sync/ledger"
	"outlierd/sync/runs"
	"outlierd/sync/state"
	"outlierd/sync/store"
)

// Watcher turns what happens in a state folder into events. The events of a run's end are put in the
// outbox in the transaction that records it. All other conditions are checked periodically, and lead
// to an event if they have changed since the last one. A nil Watcher has no events of runs.
type Watcher struct {
	config *job.Config
	log    *slog.Logger

	refused atomic.Pointer[string] // why an edit of the job file is not used; nil or "" if it is used
}

// NewWatcher returns a watcher for the targets of a job file, nil if it has none.
func NewWatcher(config *job.Config, log *slog.Logger) *Watcher {
	if len(config.Targets) == 0 {
		return nil
	}
	return &Watcher{config: config, log: log}
}

// targetsOf returns the targets of a job's events.
func (w *Watcher) targetsOf(name string) []string {
	if spec := w.config.Job(name); spec != nil {
		return spec.Notify
	}
	return nil
}

// putFileEvents puts events that are not about one job in the outbox for all targets.
func (w *Watcher) putFileEvents(tx *store.Tx, events ...Event) error {
	var names []string
	for _, t := range w.config.Targets {
		names = append(names, t.Name)
	}
	return w.putEvents(tx, names, events...)
}

// RunBegan notifies the checks of a job that a run has started.
func (w *Watcher) RunBegan(tx *store.Tx, r runs.Run) error {
	if w == nil || r.Status != runs.Running {
		return nil
	}
	return w.putEvents(tx, w.targetsOf(r.Job), Event{
		ID: idOf(string(Started), r.Job, r.ID), Kind: Started, Time: r.Started,
		Job: r.Job, Run: r.ID, Title: r.Job + " started",
	})
}

// endings are the events of the ends of runs. A run that was stopped or that still waits has none.
var endings = map[runs.Status]Kind{runs.OK: Published, runs.OKEmpty: Published, runs.Partial: Partial, runs.Failed: Failed,
	runs.PausedBudget: BudgetPaused}

// RunEnded notifies the targets of a job of a run whose status is being recorded in tx. A failure that lasts, the same
// as that of the run before, is one event until its status changes, but for checks. A superseded run is not continued;
// targets may have been notified of it long ago.
func (w *Watcher) RunEnded(tx *store.Tx, r runs.Run, superseded bool) error {
	if w == nil || endings[r.Status] == "" {
		return nil
	}
	names, subject := w.targetsOf(r.Job), "job/"+r.Job
	if len(names) == 0 {
		return nil
	}
	before, since, err := lastState(tx, subject)
	if err != nil || superseded && r.Started.Before(since) {
		return err
	}
	end := runEvent(endings[r.Status], r)
	state := string(end.Kind)
	events := []Event{end}
	switch {
	case end.Kind == Published && before != "":
		state, events = "", []Event{runEvent(Recovered, r), end}
	case end.Kind == Published:
		state = ""
	case state == before:
		events[0].again = true
	}
	spent, _, err := ledger.Totals(tx, r.ID)
	if spent.Unknown > 0 {
		events = append(events, unknownEvent(r, spent.Unknown))
	}
	if err := errors.Join(err, w.putEvents(tx, names, events...)); err != nil {
		return err
	}
	return setState(tx, subject, state)
}

// unknownEvent returns the event of paid calls of a run whose outcome is unknown.
func unknownEvent(r runs.Run, credits outlier.Credits) Event {
	e := runEvent(UnknownOutcome, r)
	e.Title = fmt.Sprintf("%s: %d credits of unknown outcome", r.Job, credits)
	e.Text = "A paid call was sent and no answer came, so it may or may not have been charged. " +
		"The credits count against the budget; `outlierd budget` shows them."
	return e
}

// words follow the job's name in the title of a run's event.
var words = map[Kind]string{
	Published: "has new data", Partial: "ended with failures", Failed: "failed", Recovered: "works again",
	BudgetPaused: "was paused by the budget",
}

// runEvent returns the event of the end of a run.
func runEvent(k Kind, r runs.Run) Event {
	text := []string{fmt.Sprintf("Pages: %d, hits: %d (%d new), requests: %d, credits: %d.",
		r.Pages, r.Hits, r.NewHits, r.Requests, r.Credits)}
	if r.Error != "" {
		text = append(text, r.Error)
	}
	return Event{
		ID: idOf(string(k), r.Job, r.ID), Kind: k, Time: r.Ended, Job: r.Job, Run: r.ID,
		Title: r.Job + " " + words[k], Text: strings.Join(text, "\n"),
		Counts: map[string]int64{
			"pages": r.Pages, "hits": r.Hits, "new_hits": r.NewHits,
			"requests": r.Requests, "credits": int64(r.Credits),
		},
	}
}

// Refused sets why the job file on disk is not used; "" if it is.
func (w *Watcher) Refused(why string) {
	if w != nil {
		w.refused.Store(&why)
	}
}

// Check notifies the targets of conditions that have changed and are not about one job.
func (w *Watcher) Check(s *state.Store) error {
	all, err := w.currentConditions(s)
	if err != nil {
		return fmt.Errorf("check conditions for notifications: %w", err)
	}
	return s.DB.Update(func(tx *store.Tx) error {
		for _, c := range all {
			if err := w.checkCondition(tx, c); err != nil {
				return err
			}
		}
		return nil
	})
}

// A condition is a state that holds or does not, such as a refused key.
type condition struct {
	kind     Kind
	of       string // the object, if several objects have a condition of this kind; else ""
	holds    bool
	instance string // distinguishes one time that it holds from the next; "" if it ends in between
	lasting  bool   // one event for each instance, also if it ends in between, and none for its end
	title    string
	text     string
	over     string // the title of the event of its end
}

// checkCondition puts the event of a condition in the outbox if it has begun or ended since the last check, and records
// its state: the instance that has had an event, by the time of that if it has no name, or "".
func (w *Watcher) checkCondition(tx *store.Tx, c condition) error {
	subject := strings.TrimSuffix(string(c.kind)+"/"+c.of, "/")
	last, _, err := lastState(tx, subject)
	if err != nil {
		return err
	}
	state := ""
	switch {
	case c.holds:
		state = cmp.Or(c.instance, last, strconv.FormatInt(store.Micros(tx.Now()), 10))
	case c.lasting:
		state = last
	}
	if state == last {
		return nil
	}
	e := Event{ID: idOf(subject, state), Kind: c.kind, Time: tx.Now(), Title: c.title, Text: c.text}
	if state == "" {
		e = Event{ID: idOf(string(Recovered), subject, last), Kind: Recovered, Time: tx.Now(), Title: c.over}
	}
	if err := w.putFileEvents(tx, e); err != nil {
		return err
	}
	return setState(tx, subject, state)
}

// behindAfter is how long a sink may be disabled before targets are notified.
const behindAfter = 5 * time.Minute

// lowShare is the fraction below which the budget is low: less than one in lowShare of what scheduled runs may spend
// in a cycle is left.
const lowShare = 5

// currentConditions returns the current conditions.
func (w *Watcher) currentConditions(s *state.Store) (all []condition, failed error) {
	for _, look := range []func(*state.Store) (condition, error){w.budgetLow, w.keyRefused, diskLow, answersDrift, w.fileRefused, w.backupFails} {
		c, err := look(s)
		all, failed = append(all, c), errors.Join(failed, err)
	}
	sinks, err := w.sinkConditions(s)
	return append(all, sinks...), errors.Join(failed, err)
}

// keyRefused returns the condition that the service refuses the key. It has one event per refusal.
func (w *Watcher) keyRefused(s *state.Store) (condition, error) {
	c := condition{kind: KeyRefused, title: "The service refused the key", over: "The key is no longer refused"}
	blocks, err := s.Blocks.Standing(w.config.Service.Key.Fingerprint(), s.Clock.Now())
	for _, b := range blocks {
		if b.Kind == ledger.BlockKey {
			c.holds, c.instance = true, strconv.FormatInt(store.Micros(b.Since), 10)
			c.text = b.Reason + "\nNo call is made until the key is replaced, or until `outlierd budget resume`."
		}
	}
	return c, err
}

func diskLow(s *state.Store) (condition, error) {
	c := condition{kind: DiskLow, title: "The disk is nearly full, and nothing is bought", over: "The disk has space again"}
	err := s.DB.Room()
	if full, is := errors.AsType[*store.LowSpaceError](err); is {
		c.holds, c.text, err = true, full.Error(), nil
	}
	return c, err
}

// answersDrift returns the condition that answers differ from the interface. It has one event whenever new differences
// were found.
func answersDrift(s *state.Store) (condition, error) {
	c := condition{kind: SchemaDrift, lasting: true, title: "The service's answers have changed"}
	all, err := s.Learned.Drift()
	if len(all) == 0 {
		return c, err
	}
	last := slices.MaxFunc(all, func(a, b schema.Drift) int { return a.First.Compare(b.First) })
	c.holds, c.instance = true, strconv.Itoa(len(all))
	c.text = fmt.Sprintf("%s: %s: %s. `outlierd schema drift` lists all differences: %d.", last.Op, last.Path, last.Problem, len(all))
	return c, err
}

// fileRefused returns the condition that the job file on disk is refused. It ends when a process uses the file.
func (w *Watcher) fileRefused(*state.Store) (condition, error) {
	c := condition{
		kind:  FileRefused,
		title: "The edited job file was refused, and the old one stays in use",
		over:  "The job file on disk is in use again",
	}
	if why := w.refused.Load(); why != nil && *why != "" {
		c.holds, c.text = true, *why+"\n`outlierd lint` shows all mistakes. A corrected file is applied without a restart."
	}
	return c, nil
}

// sinkConditions returns a condition for each sink.
func (w *Watcher) sinkConditions(s *state.Store) (all []condition, err error) {
	for _, sink := range w.config.Sinks {
		now, err := s.Sinks.State(sink.Kind)
		if err != nil {
			return nil, err
		}
		all = append(all, condition{
			kind: SinkBehind, of: sink.Kind,
			holds: now.Error != "" && time.Since(now.Since) >= behindAfter,
			title: fmt.Sprintf("Sink %s is behind", sink.Kind), over: fmt.Sprintf("Sink %s works again", sink.Kind),
			text: fmt.Sprintf("It has been disabled since %s: %s\n"+
				"Answers are kept in the journal and written once it works again. "+
				"`outlierd status` shows how far each sink is behind.",
				now.Since.In(w.config.Timezone).Format("2006-01-02 15:04 MST"), now.Error),
		})
	}
	return all, nil
}

// backupFails returns the condition that the last backup of the daemon failed.
func (w *Watcher) backupFails(s *state.Store) (condition, error) {
	c := condition{kind: BackupFailed, title: "The backup failed", over: "The backup no longer fails"}
	to := w.config.Backup
	if to == nil {
		return c, nil
	}
	now, err := s.Sinks.State(runs.BackupSink)
	last := "There is no earlier one."
	if !now.Published.IsZero() {
		last = "The last good one is of " + now.Published.In(w.config.Timezone).Format("2006-01-02 15:04 MST") + "."
	}
	c.holds, c.text = now.Error != "", now.Error+"\n"+last+" It is tried again every half hour. Runs go on meanwhile."
	return c, err
}

// budgetLow returns the condition that scheduled runs have few credits left. It has one event per billing cycle.
func (w *Watcher) budgetLow(s *state.Store) (condition, error) {
	c := condition{kind: BudgetLow, lasting: true, title: "The budget is running low"}
	caps := facts.Caps{Config: w.config, Books: s.Books}
	month, err := caps.OfMonth(s.Clock.Now())
	if month.Max == nil {
		return c, err
	}
	most := *month.Raised() - month.Kept
	c.instance, c.holds = month.Period, *month.Left*lowShare < most
	c.text = fmt.Sprintf("%d of %d credits are left in the billing cycle from %s. `outlierd budget` shows "+
		"where they went.", *month.Left, most, month.Period)
	return c, err
}
