package runs

import (
	"database/sql/driver"
	"fmt"
	"maps"
	"slices"

	"outlierd/outlier"
	"outlierd/sync/ledger"
	"outlierd/sync/plan"
	"outlierd/sync/store"
)

// Steps is the record of the searches of runs.
type Steps struct{ db *store.Store }

// Step is one search of a run, and its progress.
type Step = plan.Step

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
	return slices.Contains([]string{StopEmpty, StopShort, StopRepeated, StopPages, StopKnown, plan.StopPrice}, stop)
}

// stepColumns are the columns of a step as it is read.
func stepColumns(s *Step) store.Columns {
	all := fixed(s)
	maps.Copy(all, progress(s))
	maps.Copy(all, ledger.TriesColumns(&s.Tries))
	maps.Copy(all, store.Columns{"id": &s.ID, "joined": store.Optional(&s.Joined), ledger.StepCredits: &s.Credits})
	return all
}

// fixed are the columns that never change, and that the scan of a step may have set before.
func fixed(s *Step) store.Columns {
	return store.Columns{
		"run": &s.Run, "ordinal": &s.Ordinal, "op": opOf{&s.Query}, "params": paramsOf{&s.Query}, "item": &s.Item,
		"queries": store.JSON(&s.Queries), "seeds": store.JSON(&s.Seeds), "window": &s.Window,
		"watermark": &s.Watermark, "scan": &s.Scan, "origin": store.Optional(&s.Origin),
	}
}

// progress are the columns that change with each page.
func progress(s *Step) store.Columns {
	return store.Columns{
		"began": store.Time(&s.Began), "next": &s.Next, "pages": &s.Pages, "hits": &s.Hits, "new_hits": &s.NewHits,
		"seen": &s.Seen, "unread": &s.Unread, "total": &s.Total, "reading": &s.Reading, "stop": &s.Stop,
		"reused": &s.Reused, "left_pages": &s.Left, "oldest": store.Time(&s.Oldest),
		"problem": &s.Problem, "capped": &s.Capped,
	}
}

// Skip records why a run goes on without a step; see [plan.Step.Problem].
func (ss *Steps) Skip(step int64, problem string, capped bool) error {
	return store.Set(ss.db, "steps", "id", step, store.Columns{"problem": store.Bounded(problem), "capped": capped})
}

// SaveTries records the attempts at a step's next call.
func SaveTries(in store.Writer, step int64, t outlier.Tries) error {
	return store.Set(in, "steps", "id", step, ledger.TriesColumns(&t))
}

// opOf and paramsOf are the two columns of a query.
type (
	opOf     struct{ *outlier.Query }
	paramsOf struct{ *outlier.Query }
)

func (q opOf) Scan(v any) error {
	op, ok := v.(string)
	if !ok {
		return fmt.Errorf("%T is not an operation", v)
	}
	*q.Query = outlier.UncheckedQuery(outlier.Operation(op), q.Encode())
	return nil
}

func (q opOf) Value() (driver.Value, error) { return string(q.Op()), nil }

func (q paramsOf) Scan(v any) error {
	params, ok := v.(string)
	if !ok {
		return fmt.Errorf("%T is not a list of parameters", v)
	}
	*q.Query = outlier.UncheckedQuery(q.Op(), params)
	return nil
}

func (q paramsOf) Value() (driver.Value, error) { return q.Encode(), nil }

// AddStep appends a step to an unfinished run and returns its id. It assigns the next ordinal. The status does not
// matter: it also says what a run in progress waits for.
func AddStep(tx *store.Tx, s Step) (id int64, err error) {
	unfinished, err := store.Scan(tx, []any{&s.Ordinal}, `SELECT (SELECT coalesce(max(ordinal) + 1, 0)
		FROM steps WHERE run = runs.run) FROM runs WHERE run = ? AND `+mayGoOn, s.Run)
	if err == nil && !unfinished {
		err = fmt.Errorf("run %s cannot get another step: it has ended, or was never started", s.Run)
	}
	if err != nil {
		return 0, err
	}
	return addStep(tx, s)
}

func addStep(tx *store.Tx, s Step) (int64, error) {
	columns := fixed(&s)
	maps.Copy(columns, progress(&s))
	return store.InsertID(tx, "steps", columns, "")
}

// SaveStep records the progress of a step. Values resolved at the beginning never change.
func SaveStep(in store.Writer, s Step) error { return store.Set(in, "steps", "id", s.ID, progress(&s)) }

// OfRun returns the steps of a run, in order.
func (ss *Steps) OfRun(run string) ([]Step, error) {
	return store.Select(ss.db, stepColumns, `FROM steps WHERE run = ? ORDER BY ordinal`, run)
}

// Get returns the step with an id; nil if there is none.
func (ss *Steps) Get(id int64) (*Step, error) {
	return store.First(ss.db, stepColumns, `FROM steps WHERE id = ?`, id)
}

// LastOf returns the newest of the steps that share a step's search: the step itself, unless a later
// run has continued it.
func (ss *Steps) LastOf(step *Step) (Step, error) {
	last, err := store.First(ss.db, stepColumns, `FROM steps
		WHERE id = (SELECT max(id) FROM (SELECT ?1 AS id UNION ALL SELECT id FROM steps WHERE origin = ?1))`, firstHit(step))
	if err == nil && last == nil {
		err = fmt.Errorf("step %d is not on record", step.ID)
	}
	if err != nil {
		return Step{}, err
	}
	return *last, nil
}

// Unread returns how many hits of a step, and of those that it continues, could not be stored.
func (ss *Steps) Unread(step *Step) (int, error) {
	return store.Value[int](ss.db, `SELECT sum(unread) FROM steps WHERE id IN (?1, ?2) OR origin = ?2`,
		step.ID, firstHit(step))
}
