package bucket

import (
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"slices"

	"outlierd/internal/durable"
)

// record has the commits of a data folder to buckets. It is not stored in the folder of Parquet files,
// which may be rebuilt.
type record struct {
	Owner   string           `json:"owner"`   // random id of the data folder
	Commits map[string]int64 `json:"commits"` // address of the bucket → number of the last commit that was started
}

// readRecord reads the record at path. If there is none, it returns one with a new owner, which write
// stores.
func readRecord(path string) (r record, err error) {
	text, err := os.ReadFile(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return record{rand.Text(), map[string]int64{}}, nil
	case err != nil:
		return r, err
	}
	if err := json.Unmarshal(text, &r); err != nil || r.Owner == "" {
		return r, fmt.Errorf("%s is damaged: remove it", path)
	}
	if r.Commits == nil {
		r.Commits = map[string]int64{}
	}
	return r, nil
}

// Written returns the addresses that a data folder has ever copied to, according to its record, in
// order.
func Written(record string) ([]string, error) {
	r, err := readRecord(record)
	if err != nil {
		return nil, err
	}
	return slices.Sorted(maps.Keys(r.Commits)), nil
}

// writeFile replaces the record durably, before the commit to the bucket.
func (r record) writeFile(path string) error {
	text, err := json.Marshal(r)
	if err != nil {
		return err
	}
	return durable.WriteFile(path, text, 0o600)
}
