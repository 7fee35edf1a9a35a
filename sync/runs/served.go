package runs

import (
	"encoding/json"
	"fmt"

	"outlierd/sync/store"
)

// servedJobs is the key in meta of the jobs of the last schedule, as JSON.
const servedJobs = "jobs of the schedule"

// Served decodes into jobs what [Runs.SetServed] has stored, and reports whether there is anything.
func (rs *Runs) Served(jobs any) (found bool, err error) {
	var text string
	err = rs.db.View(func(tx *store.Tx) error {
		text, err = tx.Meta(servedJobs)
		return err
	})
	if err == nil && text != "" {
		found, err = true, json.Unmarshal([]byte(text), jobs)
	}
	if err != nil {
		return found, fmt.Errorf("read the jobs of the last schedule: %w", err)
	}
	return found, nil
}

// SetServed stores the jobs of the current schedule, encoded as JSON.
func (rs *Runs) SetServed(jobs any) error {
	text, err := json.Marshal(jobs)
	if err == nil {
		err = rs.db.Update(func(tx *store.Tx) error { return tx.SetMeta(servedJobs, string(text)) })
	}
	if err != nil {
		return fmt.Errorf("keep the jobs of the schedule: %w", err)
	}
	return nil
}
