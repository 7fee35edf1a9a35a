package state_test

import (
	"fmt"

	gocmp "github.com/google/go-cmp/cmp"

	"outlierd/sync/ops"
	"outlierd/sync/state"
)

// mirror is the operations tables of a sink that receives only their changes.
type mirror struct {
	version int64
	tables  map[string]map[any]string // rows as text, by table and id
}

// follow applies the changes, and compares all rows.
func (m *mirror) follow(s *state.Store) error {
	changes, err := ops.Since(s.DB, m.version)
	if err != nil {
		return err
	}
	if changes.All {
		m.tables = map[string]map[any]string{}
	}
	if err := m.take(s, changes); err != nil {
		return err
	}
	whole := mirror{tables: map[string]map[any]string{}}
	if changes, err = ops.Since(s.DB, 0); err == nil {
		err = whole.take(s, changes)
	}
	if diff := gocmp.Diff(whole.tables, m.tables); err == nil && diff != "" {
		err = &broken{ruleNews, "(-state +followed):\n" + diff}
	}
	return err
}

func (m *mirror) take(s *state.Store, changes ops.Changes) error {
	for _, table := range state.OpsTables {
		for rows, err := range table.Rows(s.DB, changes, 3) {
			if err != nil {
				return err
			}
			if m.tables[table.Name] == nil {
				m.tables[table.Name] = map[any]string{}
			}
			for _, row := range rows {
				m.tables[table.Name][row[0]] = fmt.Sprint(row)
			}
		}
	}
	m.version = changes.Version
	return nil
}

// checkNews follows the operations tables now and then, and confirms the changes to the state.
func (p *process) checkNews() error {
	if p.turns%5 != 0 {
		return nil
	}
	if err := p.mirror.follow(p.store); err != nil || p.turns%10 != 0 {
		return err
	}
	return ops.Forget(p.store.DB, p.mirror.version)
}
