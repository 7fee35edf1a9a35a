package state

import (
	"encoding/json"
	"fmt"

	"outlierd/outlier"
)

// Step is one search of a run, resolved when the run began, and how far it got.
type Step struct {
	ID      int64
	Run     string
	Ordinal int
	Op      outlier.Operation
	Item    string // the for_each value
	Queries []string
	Seeds   []string
	Params  string // canonical, without from and size
	Window  string // publication dates "2026-11-01..2026-11-14"; either may be missing

	Next    int // the page to take next
	Pages   int // taken
	Hits    int
	NewHits int
	Total   int64  // what the service says; -1 while unknown
	Stop    string // why no further page is taken; "" while open
	Credits outlier.Credits
}

const stepColumns = `id, run, ordinal, op, item, queries, seeds, params, window, next, pages, hits, new_hits, total, stop, credits`

type stepRow struct {
	Step
	queries, seeds string
}

func (r *stepRow) columns() []any {
	return []any{&r.ID, &r.Run, &r.Ordinal, &r.Op, &r.Item, &r.queries, &r.seeds, &r.Params, &r.Window,
		&r.Next, &r.Pages, &r.Hits, &r.NewHits, &r.Total, &r.Stop, &r.Credits}
}

func (r *stepRow) step() (Step, error) {
	err := json.Unmarshal([]byte(r.queries), &r.Queries)
	if err == nil {
		err = json.Unmarshal([]byte(r.seeds), &r.Seeds)
	}
	if err != nil {
		err = fmt.Errorf("read step %d of run %s: %w", r.ID, r.Run, err)
	}
	return r.Step, err
}

func (t *Tx) addStep(s Step) error {
	queries, err := json.Marshal(s.Queries)
	if err != nil {
		return err
	}
	seeds, err := json.Marshal(s.Seeds)
	if err != nil {
		return err
	}
	_, err = t.exec(`INSERT INTO steps (run, ordinal, op, item, queries, seeds, params, window, next, pages, hits, new_hits, total, stop, credits)
		VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`,
		s.Run, s.Ordinal, string(s.Op), s.Item, string(queries), string(seeds), s.Params, s.Window,
		s.Next, s.Pages, s.Hits, s.NewHits, s.Total, s.Stop, int64(s.Credits))
	return err
}

// SaveStep records how far a step has got. What was resolved at the beginning
// never changes.
func (t *Tx) SaveStep(s Step) error {
	result, err := t.exec(`UPDATE steps SET next = ?, pages = ?, hits = ?, new_hits = ?, total = ?, stop = ?, credits = ? WHERE id = ?`,
		s.Next, s.Pages, s.Hits, s.NewHits, s.Total, s.Stop, int64(s.Credits), s.ID)
	if err := found(result, err); err != nil {
		return fmt.Errorf("save step %d: %w", s.ID, err)
	}
	return nil
}

// Steps are the steps of a run, in order.
func (s *Store) Steps(run string) ([]Step, error) {
	var steps []Step
	err := s.view(func() error {
		rows, err := list(s, (*stepRow).columns, `SELECT `+stepColumns+` FROM steps WHERE run = ? ORDER BY ordinal`, run)
		for i := 0; err == nil && i < len(rows); i++ {
			var step Step
			step, err = rows[i].step()
			steps = append(steps, step)
		}
		return err
	})
	return steps, err
}
