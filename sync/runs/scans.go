package runs

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"time"

	"outlierd/outlier"
	"outlierd/sync/ledger"
	"outlierd/sync/plan"
	"outlierd/sync/store"
)

// Scans is the record of scans.
type Scans struct {
	db     *store.Store
	ledger *ledger.Ledger
	clock  *ledger.Clock
}

// ScanState is the state of a scan as far as it is known locally.
type ScanState string

// The states of a scan. An intent becomes unknown in the transaction that marks its attempt as sent,
// and intended again in the one that refunds it. [SaveScan] records all other changes.
const (
	ScanIntended   ScanState = "intended"    // nothing was sent yet, or the attempt was refunded
	ScanUnknown    ScanState = "unknown"     // sent, but it is not known whether the service started it
	ScanRunning    ScanState = "running"     // the service has it
	ScanEnded      ScanState = "ended"       // the service says that it has ended
	ScanExpired    ScanState = "expired"     // our deadline has passed; its results stay readable
	ScanFailed     ScanState = "failed"      // the service says so
	ScanRefused    ScanState = "refused"     // there is proof that nothing was started
	ScanNotCreated ScanState = "not_created" // an operator says that nothing was started
)

// Scan is the intent to start one scan and what became of it.
type Scan struct {
	Intent  int64           `json:"intent"`
	Run     string          `json:"run_id"`
	Job     string          `json:"job"`
	Due     time.Time       `json:"-"` // of the run; zero for a manual one
	Step    int64           `json:"-"`
	FindBy  string          `json:"find_by"`
	Mode    string          `json:"mode"`
	Queries []string        `json:"queries"` // or channel ids, as submitted
	Price   outlier.Credits `json:"credits"`
	Again   bool            `json:"-"` // bought on purpose although the same scan is live; not stored

	State  ScanState `json:"state"`
	ScanID string    `json:"scan_id,omitempty"` // the service's id; "" while unknown
	Status string    `json:"status,omitempty"`  // as given by the service

	Intended time.Time `json:"intended_at"`
	Created  time.Time `json:"created_at,omitzero"`
	Polled   time.Time `json:"seen_at,omitzero"`
	NextPoll time.Time `json:"next_poll,omitzero"`
	Deadline time.Time `json:"deadline,omitzero"`
	Polls    int       `json:"polls"`
}

// Unstarted reports whether a step has no scan, or nothing was started for its intent: one call is made at a time, so
// what is only intended was refunded or never sent.
func (s *Scan) Unstarted() bool {
	return s == nil || s.State == ScanIntended || s.State == ScanRefused || s.State == ScanNotCreated
}

// HowToSettle says how to resolve a scan whose start was not confirmed.
func (s *Scan) HowToSettle() string {
	return fmt.Sprintf("`outlierd scan adopt ID` links it, "+
		"`outlierd scan resolve --not-created %d` records that it was not started", s.Intent)
}

// columns are the columns of a scan as it is read.
func (s *Scan) columns() store.Columns {
	all := s.progress()
	maps.Copy(all, store.Columns{
		"id": &s.Intent, "run": &s.Run, "job": &s.Job, "due": store.Time(&s.Due), "step": &s.Step, "find_by": &s.FindBy,
		"mode": &s.Mode, "queries": store.JSON(&s.Queries), "price": &s.Price,
		"intended": store.Time(&s.Intended),
	})
	return all
}

// progress are the columns that change.
func (s *Scan) progress() store.Columns {
	return store.Columns{
		"state": &s.State, "scan": &s.ScanID, "status": &s.Status, "created": store.Time(&s.Created),
		"polled": store.Time(&s.Polled), "next_poll": store.Time(&s.NextPoll), "deadline": store.Time(&s.Deadline),
		"polls": &s.Polls,
	}
}

// # Which scans are the same
//
// Scans with the same [plan.ScanIdentity] are the same. A scan is live from its intent until it has ended and the run
// that paid for it has read it completely; or any run has, if that one will not continue. A scan past its deadline is
// not live, because its results are out of date. A run that wants a live scan joins it, see [Scans.Join].

// timely is the condition for scans whose deadline is after ?2. An adopted scan has no deadline
// before its first poll; it gets a day from when the service started it, which may be long after the
// intent if the machine slept in between. All of these are times of the service's clock, so that a
// jump of the local clock does not cause a second purchase of a running scan.
const timely = `iif(deadline = 0, max(intended, created) + 86400000000, deadline) > ?2`

// unread is the condition for scans that the run that paid for them has not read completely.
const unread = `EXISTS (SELECT 1 FROM steps WHERE run = scans.run AND stop = ''
	AND (id = scans.step OR scan = scans.scan))
	AND (EXISTS (SELECT 1 FROM runs WHERE run = scans.run AND ` + mayGoOn + `)
		OR NOT EXISTS (SELECT 1 FROM steps WHERE scan = scans.scan AND scan <> '' AND stop <> ''))`

func (s *Scan) identity() string { return plan.ScanIdentity(s.FindBy, s.Mode, s.Queries) }

// Live returns the scan that starting s would only repeat: the same scan if it is live, or one of
// the same run, unless it was never started, or nil. If s.Again is set, only scans
// whose start is not confirmed, and those of its run, are considered.
func (ss *Scans) Live(s Scan) (*Scan, error) {
	return oneScan(ss.db, `FROM scans WHERE identity = ?1 AND (
			run = ?3 AND state NOT IN ('refused', 'not_created')
			OR state IN ('intended', 'unknown')
			OR NOT ?4 AND `+timely+` AND (state = 'running' OR state = 'ended' AND `+unread+`))
		ORDER BY run = ?3 DESC, state IN ('intended', 'unknown') DESC, id DESC`,
		s.identity(), store.Micros(ss.clock.Now()), s.Run, s.Again)
}

// Join makes a step wait for a scan that another step has started, and reserves p.Hold for
// reading it. It does neither if that would exceed a cap.
func (ss *Scans) Join(p ledger.Purchase, intent int64) error {
	return ss.ledger.SetAside(p, func(tx *store.Tx) error { return joinStep(tx, p.Step, intent) })
}

func joinStep(tx *store.Tx, step, intent int64) error {
	return store.Set(tx, "steps", "id", step, store.Columns{"joined": intent})
}

// namedBefore returns the scan of another intent that has the service's id, or nil.
func namedBefore(tx *store.Tx, scan Scan, scanID string) (*Scan, error) {
	return oneScan(tx, `FROM scans WHERE scan = ? AND scan <> '' AND id <> ?`, scanID, scan.Intent)
}

// joinInstead closes a scan whose start was answered with a scan that is already recorded: the
// service did not start the same scan twice, or its answer came from a cache. The step waits for the
// recorded scan and reads it. The price of the start stays spent, because nothing proves a refund.
func joinInstead(tx *store.Tx, scan *Scan, before *Scan) error {
	scan.State = ScanNotCreated
	if err := SaveScan(tx, *scan); err != nil {
		return err
	}
	return joinStep(tx, scan.Step, before.Intent)
}

// Intend records the intent of a scan before anything is reserved for it, and returns its id for
// [ledger.Purchase]. The database refuses it while the same scan is live; see [Scans.Live]. One past its deadline
// is not, as no run waits for it, and s.Again buys another beside one that runs. The new intent replaces an earlier
// refused one of the step for which nothing was reserved, such as when the rate limit delayed it or a cap was reached.
func (ss *Scans) Intend(tx *store.Tx, s Scan) (int64, error) {
	s.State, s.Intended = ScanIntended, ss.clock.Now()
	err := errors.Join(dropRefused(tx, s.Step), tx.Exec(`UPDATE scans SET state = 'expired' WHERE identity = ?1
		AND state = 'running' AND NOT `+timely, s.identity(), store.Micros(s.Intended)))
	if err == nil && s.Again {
		err = tx.Exec(`UPDATE scans SET replaced = 1 WHERE identity = ? AND state = 'running'`, s.identity())
	}
	if err != nil {
		return 0, err
	}
	columns := s.columns()
	delete(columns, "id")
	identity := s.identity()
	columns["identity"] = &identity
	return store.InsertID(tx, "scans", columns, "")
}

// dropRefused removes the intents of a step that were refused before anything was reserved for them.
// They carry no information, and a step that waits for budget creates many.
func dropRefused(tx *store.Tx, step int64) error {
	refused, err := store.Values[int64](tx, `SELECT id FROM scans WHERE step = ? AND state = 'refused'`, step)
	for i := 0; err == nil && i < len(refused); i++ {
		var attempted bool
		if attempted, err = ledger.Attempted(tx, refused[i]); err == nil && !attempted {
			err = tx.Exec(`DELETE FROM scans WHERE id = ?`, refused[i])
		}
	}
	return err
}

// SaveScan records the progress of a scan: its state, the service's id and status, times and polls.
// The intended search never changes, and a state never goes back.
func SaveScan(in store.Writer, s Scan) error {
	return store.Set(in, "scans", "id", s.Intent, s.progress())
}

// RecordStart records what the answer to a start says about the scan. A truncated answer may still have the id,
// which is enough. before is the scan that the answer names, if that was recorded for another intent: the step joins
// it if it is the same scan; otherwise it stays unknown what was started.
func RecordStart(tx *store.Tx, intent int64, answer *outlier.Answer, outcome outlier.Outcome) (
	scan, before *Scan, err error) {
	if scan, err = oneScan(tx, `FROM scans WHERE id = ?`, intent); err != nil || scan == nil {
		return nil, nil, cmp.Or(err, ErrNoIntent)
	}
	if outcome == outlier.Refunded {
		scan.State = ScanRefused
		return scan, nil, SaveScan(tx, *scan)
	}
	scan.State = ScanUnknown
	body, err := answer.JSON()
	if err != nil {
		body = outlier.ReadablePart(answer.Body)
	}
	if seen, _ := outlier.ReadScan(body); seen.ID != "" {
		if before, err = namedBefore(tx, *scan, seen.ID); err != nil {
			return nil, nil, err
		}
		if before == nil {
			scan.Saw(seen, answer.ReceivedAt)
		}
	}
	if before != nil && outcome == outlier.Charged && scan.identity() == before.identity() {
		return scan, before, joinInstead(tx, scan, before)
	}
	return scan, before, SaveScan(tx, *scan)
}

// Saw updates a scan from what the service says about it at the given time.
func (s *Scan) Saw(seen outlier.Scan, at time.Time) {
	s.ScanID, s.Status, s.Created = cmp.Or(s.ScanID, seen.ID), seen.Status, seen.CreatedAt
	s.Polled, s.NextPoll = at, at
	switch {
	case seen.Succeeded():
		s.State = ScanEnded
	case seen.Ended():
		s.State = ScanFailed
	default:
		s.State = ScanRunning
	}
}

// List returns all scans, newest first.
func (ss *Scans) List() ([]Scan, error) {
	return store.Select(ss.db, (*Scan).columns, `FROM scans ORDER BY id DESC`)
}

// OfStep returns the scan that a step has joined, or its newest intent; nil if it has none.
func (ss *Scans) OfStep(step int64) (*Scan, error) {
	return oneScan(ss.db, `FROM scans WHERE id = coalesce((SELECT joined FROM steps WHERE id = ?1),
		(SELECT max(id) FROM scans WHERE step = ?1))`, step)
}

// OfIntent returns the scan of an intent; nil if there is none.
func (ss *Scans) OfIntent(intent int64) (*Scan, error) {
	return oneScan(ss.db, `FROM scans WHERE id = ?`, intent)
}

// ByID returns the scan with the service's id; nil if there is none here.
func (ss *Scans) ByID(scanID string) (*Scan, error) {
	return oneScan(ss.db, `FROM scans WHERE scan = ? AND scan <> ''`, scanID)
}

// oneScan returns the first scan of a query, or nil.
func oneScan(in store.Reader, from string, args ...any) (*Scan, error) {
	return store.First(in, (*Scan).columns, from, args...)
}
