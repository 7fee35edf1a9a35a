package state

import (
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"outlierd/outlier"
)

// ScanState is how a scan stands, as far as this side knows.
type ScanState string

// The states. An intent becomes unknown in the transaction that marks its attempt
// as sent, and intended again in the one that refunds it; [Tx.SaveScan] does the rest.
const (
	ScanIntended   ScanState = "intended"    // nothing was sent yet, or it was refunded
	ScanUnknown    ScanState = "unknown"     // sent, and nobody knows whether the service started it
	ScanRunning    ScanState = "running"     // the service has it
	ScanEnded      ScanState = "ended"       // the service says that it has ended
	ScanExpired    ScanState = "expired"     // our deadline has passed; its results stay readable
	ScanFailed     ScanState = "failed"      // the service says so
	ScanRefused    ScanState = "refused"     // there is proof that nothing was started
	ScanNotCreated ScanState = "not_created" // an operator says that nothing was started
)

// Scan is the wish to start one scan and what became of it.
type Scan struct {
	Intent   int64
	Run, Job string
	Due      time.Time // of the run; zero for a manual one
	Step     int64
	FindBy   string
	Mode     string
	Queries  []string // or channel ids, as submitted
	Price    outlier.Credits

	State  ScanState
	ScanID string // the service's id; "" while unknown
	Status string // the service's own word

	Intended, Created, Polled, NextPoll, Deadline time.Time
	Polls                                         int
}

const scanColumns = `id, run, job, due, step, find_by, mode, queries, price, state, scan, status,
	intended, created, polled, next_poll, deadline, polls`

// scanRow is a scan on its way out of the database.
type scanRow struct {
	Scan
	queries                                            string
	due, intended, created, polled, nextPoll, deadline int64
}

func (r *scanRow) columns() []any {
	return []any{&r.Intent, &r.Run, &r.Job, &r.due, &r.Step, &r.FindBy, &r.Mode, &r.queries, &r.Price, &r.State, &r.ScanID, &r.Status,
		&r.intended, &r.created, &r.polled, &r.nextPoll, &r.deadline, &r.Polls}
}

func (r *scanRow) scan() (Scan, error) {
	r.Due, r.Intended, r.Created = instant(r.due), instant(r.intended), instant(r.created)
	r.Polled, r.NextPoll, r.Deadline = instant(r.polled), instant(r.nextPoll), instant(r.deadline)
	if err := json.Unmarshal([]byte(r.queries), &r.Queries); err != nil {
		return r.Scan, fmt.Errorf("read the queries of scan intent %d: %w", r.Intent, err)
	}
	return r.Scan, nil
}

// IntendScan puts the wish for a scan on record, before anything is reserved for it,
// and returns its id for [Purchase]. One that may be under way already, or that the
// same due instant had, refuses it with a [*LiveScanError]. An earlier wish of the step
// for which nothing was even reserved, as when it was parked or met a cap, gives way to it.
func (t *Tx) IntendScan(s Scan) (int64, error) {
	queries, err := json.Marshal(s.Queries)
	if err != nil {
		return 0, err
	}
	wanted, err := json.Marshal(slices.Sorted(slices.Values(s.Queries)))
	if err != nil {
		return 0, err
	}
	if err := t.alone(s, string(wanted)); err != nil {
		return 0, err
	}
	if err := t.forgetVain(s.Step); err != nil {
		return 0, err
	}
	result, err := t.exec(`INSERT INTO scans (run, job, due, step, find_by, mode, queries, wanted, price, state, scan, status,
		intended, created, polled, next_poll, deadline, polls)
		VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, 'intended', '', '', ?, 0, 0, 0, ?, 0)`,
		s.Run, s.Job, micros(s.Due), s.Step, s.FindBy, s.Mode, string(queries), string(wanted), int64(s.Price),
		micros(t.now), micros(s.Deadline))
	if err != nil {
		return 0, fmt.Errorf("put the scan of job %s on record: %w", s.Job, err)
	}
	return result.LastInsertId()
}

// forgetVain removes the wishes of a step that came to nothing before anything was
// reserved for them: they tell nothing, and a step that waits for room makes many.
func (t *Tx) forgetVain(step int64) error {
	_, err := t.exec(`DELETE FROM scans WHERE step = ? AND state = 'refused'
		AND NOT EXISTS (SELECT 1 FROM attempts WHERE intent = scans.id)`, step)
	if err != nil {
		return fmt.Errorf("forget the vain wishes for a scan of step %d: %w", step, err)
	}
	return nil
}

// alone names the scan that stands in the way of s, if there is one. The database
// refuses s in any case.
func (t *Tx) alone(s Scan, wanted string) error {
	before, err := t.s.scan(`SELECT `+scanColumns+` FROM scans WHERE job = ?1 AND find_by = ?3 AND mode = ?4 AND wanted = ?5
		AND (state IN ('intended', 'unknown', 'running') OR due = ?2 AND due <> 0 AND state NOT IN ('refused', 'not_created')) LIMIT 1`,
		s.Job, micros(s.Due), s.FindBy, s.Mode, wanted)
	if err != nil || before == nil {
		return err
	}
	return &LiveScanError{Scan: *before}
}

// SaveScan records how a scan stands: its state, the service's id and word, times
// and polls. What was intended never changes, and a state never goes back.
func (t *Tx) SaveScan(s Scan) error {
	result, err := t.exec(`UPDATE scans SET state = ?, scan = ?, status = ?, created = ?, polled = ?, next_poll = ?, deadline = ?, polls = ?
		WHERE id = ?`, string(s.State), s.ScanID, s.Status, micros(s.Created), micros(s.Polled), micros(s.NextPoll), micros(s.Deadline), s.Polls,
		s.Intent)
	if err := found(result, err); err != nil {
		return fmt.Errorf("save scan intent %d as %s: %w", s.Intent, s.State, err)
	}
	return nil
}

// Scans are the scans of a job, or of all jobs if job is "", newest first.
func (s *Store) Scans(job string) ([]Scan, error) {
	var all []Scan
	err := s.view(func() error {
		rows, err := list(s, (*scanRow).columns, `SELECT `+scanColumns+` FROM scans WHERE (job = ?1 OR ?1 = '') ORDER BY id DESC`, job)
		for i := 0; err == nil && i < len(rows); i++ {
			var one Scan
			one, err = rows[i].scan()
			all = append(all, one)
		}
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("list the scans: %w", err)
	}
	return all, nil
}

// ScanOf is the newest intent of a step; nil if it has none.
func (s *Store) ScanOf(step int64) (scan *Scan, err error) {
	err = s.view(func() error {
		scan, err = s.scan(`SELECT `+scanColumns+` FROM scans WHERE step = ? ORDER BY id DESC LIMIT 1`, step)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("look for the scan of step %d: %w", step, err)
	}
	return scan, nil
}

// ScanByID is the scan that has the service's id; nil if none of ours has.
func (s *Store) ScanByID(scanID string) (scan *Scan, err error) {
	err = s.view(func() error {
		scan, err = s.scan(`SELECT `+scanColumns+` FROM scans WHERE scan = ? AND scan <> ''`, scanID)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("look for scan %s: %w", scanID, err)
	}
	return scan, nil
}

// scan is the first row of a query; nil if there is none.
func (s *Store) scan(query string, args ...any) (*Scan, error) {
	var r scanRow
	err := s.row(query, args...).Scan(r.columns()...)
	if errors.Is(err, sql.ErrNoRows) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	scan, err := r.scan()
	return &scan, err
}
