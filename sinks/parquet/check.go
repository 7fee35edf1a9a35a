package parquet

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"slices"

	"outlierd/schema"
)

// Folder is a folder of tables as it stood at one moment.
type Folder struct {
	Watermark, OpsVersion int64

	Dir   string              // where the files of that moment are
	Files map[string][]string // the files that readers find, by the table's folder, below Dir

	// Waiting are the folders of tables with rows that are not published yet.
	Waiting map[string]bool

	Problems []string // files that were committed and are not there
}

// Paths are the files of a table.
func (f *Folder) Paths(t *schema.Table) (paths []string) {
	for _, name := range f.Files[t.FileName()] {
		paths = append(paths, filepath.Join(f.Dir, name))
	}
	return paths
}

// looks is how often a folder is looked at that changes meanwhile.
const looks = 20

// Look reads the manifest of a folder, also while another process writes there, and finds the
// files that go with it. Nothing is changed in the folder. With keep, the files of that moment are
// linked into that empty folder, on the same disk, where they stay as they are.
func Look(ctx context.Context, dir, keep string, tables []*schema.Table) (*Folder, error) {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, err
	}
	defer root.Close()
	s := &Sink{options: Options{Dir: dir, Tables: tables}, root: root}
	for range looks {
		before, err := s.manifestText()
		if err != nil {
			return nil, err
		}
		folder, err := s.look(before, keep)
		if err != nil && !errors.Is(err, os.ErrNotExist) { // a file that has gone since
			return nil, err
		}
		after, again := s.manifestText()
		if again != nil {
			return nil, again
		}
		if string(before) == string(after) {
			return folder, err
		}
		if err := context.Cause(ctx); err != nil {
			return nil, err
		}
	}
	return nil, fmt.Errorf("%s changes faster than it can be looked at: try again", dir)
}

func (s *Sink) manifestText() ([]byte, error) { return s.root.ReadFile(manifestName) }

// look finds the files that go with a manifest.
func (s *Sink) look(text []byte, keep string) (*Folder, error) {
	var m manifest
	if err := json.Unmarshal(text, &m); err != nil {
		return nil, fmt.Errorf("%s/%s: %w", s.options.Dir, manifestName, err)
	}
	if m.Version != manifestVersion {
		return nil, fmt.Errorf("%s/%s is of version %d, this program knows %d", s.options.Dir, manifestName, m.Version, manifestVersion)
	}
	f := &Folder{Watermark: m.Watermark, OpsVersion: m.OpsVersion, Dir: s.options.Dir, Files: map[string][]string{}, Waiting: map[string]bool{}}
	for _, name := range m.Moves {
		if _, err := s.root.Lstat(name); err != nil {
			f.Problems = append(f.Problems, name+" is missing")
		}
	}
	for _, t := range s.options.Tables {
		names, err := s.list(t, func(name string) bool { return isPart(name) || isPending(name) || name == "current.parquet" })
		if err != nil {
			return nil, err
		}
		f.Waiting[t.FileName()] = slices.ContainsFunc(names, func(name string) bool { return isPending(path.Base(name)) })
		f.Files[t.FileName()] = slices.DeleteFunc(names, func(name string) bool { return isPending(path.Base(name)) })
	}
	if keep == "" {
		return f, nil
	}
	f.Dir = keep
	return f, f.link(s.options.Dir)
}

// link gives the files second names, which stay when the first ones go.
func (f *Folder) link(from string) error {
	if err := os.RemoveAll(f.Dir); err != nil { // of an earlier look
		return err
	}
	for _, names := range f.Files {
		for _, name := range names {
			to := filepath.Join(f.Dir, name)
			if err := os.MkdirAll(filepath.Dir(to), 0o700); err != nil {
				return err
			}
			if err := os.Link(filepath.Join(from, name), to); err != nil {
				return err
			}
		}
	}
	return nil
}
