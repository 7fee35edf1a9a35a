//go:build iceberg

package iceberg

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
)

// carried has the addresses of files that were brought to the lake and may not be listed by a commit, by table.
// It is on disk, in the staging folder, before the first of them is brought, so that neither a kill nor a catalog
// that refuses leaves files behind for ever.
type carried map[string][]string

func pathOfCarried(staging string) string { return filepath.Join(staging, "_manifest", "carried.json") }

func readCarried(staging string) (carried, error) {
	all := carried{}
	text, err := os.ReadFile(pathOfCarried(staging))
	if errors.Is(err, fs.ErrNotExist) {
		return all, nil
	}
	if err == nil {
		err = json.Unmarshal(text, &all)
	}
	if err != nil {
		return nil, fmt.Errorf("%s is damaged (%w): remove it", pathOfCarried(staging), err)
	}
	return all, nil
}

// noteCarried adds files to what is on disk.
func (c *Copy) noteCarried(l *lakeTable, names []string) error {
	before := len(c.carried[l.name()])
	for _, name := range names {
		if !slices.Contains(c.carried[l.name()], name) {
			c.carried[l.name()] = append(c.carried[l.name()], name)
		}
	}
	if len(c.carried[l.name()]) == before {
		return nil
	}
	return c.carried.write(c.options.Staging)
}

// forgetCarried removes the note after all tables were published.
func (c *Copy) forgetCarried() error {
	if len(c.carried) == 0 {
		return nil
	}
	c.carried = carried{}
	return os.Remove(pathOfCarried(c.options.Staging))
}

func (c carried) write(staging string) error {
	text, err := json.Marshal(c)
	if err != nil {
		return err
	}
	path := pathOfCarried(staging)
	unfinished := path + ".tmp"
	if err := (folder{}).WriteFile(unfinished, text); err != nil {
		return err
	}
	if err := os.Rename(unfinished, path); err != nil {
		return err
	}
	return syncFolder(filepath.Dir(path))
}
