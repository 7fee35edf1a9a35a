package runs

import (
	"cmp"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"outlierd/outlier"
	"outlierd/sync/ledger"
	"outlierd/sync/store"
)

// Step is one search of a run, resolved when the run began, and its progress.
type Step struct {
	ID      int64
	Run     string
	Ordinal int
	Query   outlier.Query
	Item    string // the for_each value
	Queries []string
	Seeds   []string
	Window  string // publication dates "2026-11-01..2026-11-14"; either may be missing

	Watermark string // identity of the search; see [Watermark]. "" if it has none
	Scan      string // id of the scan whose results the step reads; "" for other steps
	Joined    int64  // intent of the scan that another step has started and this one waits for; 0 if none
	Origin    int64  // the first of the steps that this one continues; 0 if it continues none

	Began   time.Time // service time at which page one was requested; zero before
	Next    int       // the page to take next, 0-based
	Pages   int       // taken
	Hits    int
	NewHits int
	Seen    int             // distinct hits, including those of the steps that this one continues
	Total   int64           // the highest total that the service has reported; -1 while unknown
	Reading string          // what `from` counts, as learned from its pages: "page", "offset", or ""
	Stop    string          // why no further page is taken; "" while open
	Credits outlier.Credits // cost of its attempts from the ledger, including those of unknown outcome
	Unread  int             // of Hits, those that could not be stored
	Reused  int             // pages taken from the journal instead of bought
	Left    int             // pages left when it ended, for whatever reason; -1 if unknown
}

// Name returns a readable name of a step's search: its queries or seeds, or else the value of for_each
// or the operation.
func (s *Step) Name() string {
	return cmp.Or(strings.Join(s.Queries, ", "), strings.Join(s.Seeds, ", "), s.Item, string(s.Query.Op()))
}

// Title returns the operation of a step and what it searches for.
func (s *Step) Title() string {
	for _, words := range [][]string{s.Queries, s.Seeds} {
		if len(words) > 0 {
			return fmt.Sprintf("%s %q", s.Query.Op(), words)
		}
	}
	return string(s.Query.Op())
}

// Reasons why a search ended, as in ops.searches. Those that a plan itself determines are in package
// plan.
const (
	StopEmpty      = "empty"      // a page without hits
	StopShort      = "short"      // a short page, and the total agrees
	StopRepeated   = "repeated"   // a page without an id that is new to the search
	StopPages      = "pages"      // the job's maximum number of pages
	StopKnown      = "known"      // the job's stop_when: nearly all ids were known
	StopRefused    = "refused"    // the service refused the request itself
	StopMissing    = "missing"    // a page has no hits, but the total says that there are some
	StopUnreadable = "unreadable" // no hit of an answer can be stored; it stays in the journal
	StopClock      = "clock"      // its dates were computed from a wrong clock; nothing was sent
	StopTime       = "time"       // the job's stop_after

	StopScanned    = "scanned"     // the scan has ended, and another search reads its results
	StopScanFailed = "scan failed" // according to the service
	StopDeadline   = "deadline"    // the scan did not end in time; its results can still be read
)

// Final reports whether a search that ended with this reason is closed permanently because a retry
// cannot help.
func Final(stop string) bool {
	return slices.Contains([]string{StopRefused, StopUnreadable, StopClock, StopScanFailed, StopDeadline}, stop)
}

// Covered reports whether a search that ended with this reason has covered its dates, so that the
// job's watermark moves.
func Covered(stop string) bool {
	return slices.Contains([]string{StopEmpty, StopShort, StopRepeated, StopPages, StopKnown}, stop)
}

const stepColumns = `id, run, ordinal, op, item, queries, seeds, params, window, next, pages, hits,
	new_hits, seen, unread, total, reading, stop,
	watermark, scan, coalesce(joined, 0), coalesce(origin, 0), began, reused, left_pages,
	` + ledger.StepCredits

type stepRow struct {
	Step
	op             outlier.Operation
	params         string
	queries, seeds string
	began          int64
}

func (r *stepRow) columns() []any {
	return []any{&r.ID, &r.Run, &r.Ordinal, &r.op, &r.Item, &r.queries, &r.seeds, &r.params, &r.Window,
		&r.Next, &r.Pages, &r.Hits, &r.NewHits, &r.Seen, &r.Unread, &r.Total, &r.Reading, &r.Stop,
		&r.Watermark, &r.Scan, &r.Joined, &r.Origin, &r.began, &r.Reused, &r.Left, &r.Credits}
}

func (r *stepRow) step() (Step, error) {
	r.Began, r.Query = store.Instant(r.began), outlier.UncheckedQuery(r.op, r.params)
	err := json.Unmarshal([]byte(r.queries), &r.Queries)
	if err == nil {
		err = json.Unmarshal([]byte(r.seeds), &r.Seeds)
	}
	if err != nil {
		err = fmt.Errorf("read step %d of run %s: %w", r.ID, r.Run, err)
	}
	return r.Step, err
}

// AddStep appends a step to a running run and returns its id. It assigns the next ordinal.
func AddStep(tx *store.Tx, s Step) (id int64, err error) {
	var status Status
	err = tx.Row(`SELECT status, (SELECT coalesce(max(ordinal) + 1, 0) FROM steps WHERE run = runs.run)
		FROM runs WHERE run = ?`, s.Run).
		Scan(&status, &s.Ordinal)
	if errors.Is(err, sql.ErrNoRows) {
		err = errors.New("the run was never started")
	}
	if err == nil && status != Running {
		err = fmt.Errorf("the run is %s", status)
	}
	if err == nil {
		id, err = addStep(tx, s)
	}
	if err != nil {
		return 0, fmt.Errorf("add a step to run %s: %w", s.Run, err)
	}
	return id, nil
}

func addStep(tx *store.Tx, s Step) (int64, error) {
	queries, err := json.Marshal(s.Queries)
	if err != nil {
		return 0, err
	}
	seeds, err := json.Marshal(s.Seeds)
	if err != nil {
		return 0, err
	}
	result, err := tx.Exec(`INSERT INTO steps (run, ordinal, op, item, queries, seeds, params, window, next,
		pages, hits, new_hits, seen, unread, total,
		reading, stop, watermark, scan, origin, began, reused, left_pages)
		VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, nullif(?, 0), ?, ?, ?)`,
		s.Run, s.Ordinal, string(s.Query.Op()), s.Item, string(queries), string(seeds), s.Query.Encode(), s.Window,
		s.Next, s.Pages, s.Hits, s.NewHits, s.Seen, s.Unread, s.Total,
		s.Reading, s.Stop, s.Watermark, s.Scan, s.Origin, store.Micros(s.Began), s.Reused, s.Left)
	if err != nil {
		return 0, err
	}
	return result.LastInsertId()
}

// SaveStep records the progress of a step. Values resolved at the beginning never change.
func SaveStep(tx *store.Tx, s Step) error {
	result, err := tx.Exec(`UPDATE steps
		SET began = ?, next = ?, pages = ?, hits = ?, new_hits = ?, seen = ?, unread = ?, total = ?,
		reading = ?, stop = ?, reused = ?, left_pages = ? WHERE id = ?`,
		store.Micros(s.Began), s.Next, s.Pages, s.Hits, s.NewHits, s.Seen, s.Unread, s.Total, s.Reading,
		s.Stop, s.Reused, s.Left, s.ID)
	if err := store.Found(result, err); err != nil {
		return fmt.Errorf("save step %d: %w", s.ID, err)
	}
	return nil
}

// Steps returns the steps of a run, in order.
func (rs *Runs) Steps(run string) ([]Step, error) {
	var steps []Step
	err := rs.db.View(func(tx *store.Tx) error {
		rows, err := store.List(tx, (*stepRow).columns, `SELECT `+stepColumns+` FROM steps WHERE run = ?
			ORDER BY ordinal`, run)
		for i := 0; err == nil && i < len(rows); i++ {
			var step Step
			step, err = rows[i].step()
			steps = append(steps, step)
		}
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("read the steps of run %s: %w", run, err)
	}
	return steps, nil
}

// LastOf returns the newest of the steps that share a step's search: the step itself, unless a later
// run has continued it.
func (rs *Runs) LastOf(step *Step) (last Step, err error) {
	err = rs.db.View(func(tx *store.Tx) error {
		rows, err := store.List(tx, (*stepRow).columns, `SELECT `+stepColumns+` FROM steps
			WHERE id = (SELECT max(id) FROM (SELECT ?1 AS id UNION ALL SELECT id FROM steps
			WHERE origin = ?1))`, first(step))
		if err == nil && len(rows) != 1 {
			err = errors.New("it is not on record")
		}
		if err == nil {
			last, err = rows[0].step()
		}
		return err
	})
	if err != nil {
		return last, fmt.Errorf("look for what was bought after step %d: %w", step.ID, err)
	}
	return last, nil
}

// Unread returns how many hits of a step, and of those that it continues, could not be stored.
func (rs *Runs) Unread(step *Step) (n int, err error) {
	err = rs.db.View(func(tx *store.Tx) error {
		return tx.Row(`SELECT coalesce(sum(unread), 0) FROM steps WHERE id IN (?1, ?2) OR origin = ?2`,
			step.ID, first(step)).Scan(&n)
	})
	if err != nil {
		return 0, fmt.Errorf("count what could not be stored of step %d: %w", step.ID, err)
	}
	return n, nil
}
