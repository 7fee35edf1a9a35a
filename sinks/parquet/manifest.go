package parquet

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path"
	"slices"

	"outlierd/schema"
)

// manifest is the state of the sink, and the step that led to it.
type manifest struct {
	Version    int              `json:"version"`
	Step       int64            `json:"step"`        // counts up
	Watermark  int64            `json:"watermark"`   // journal id
	OpsVersion int64            `json:"ops_version"` // of the operations tables
	Ops        map[string]int64 `json:"ops"`         // by table: id up to which rows are in parts
	Moves      []string         `json:"moves"`       // files whose temporary forms take their places
	Removes    []string         `json:"removes"`     // files that go
}

const (
	manifestVersion = 1
	manifestFolder  = "_manifest"
	manifestName    = manifestFolder + "/latest.json"
)

// readManifest reads the state, or makes the first one in a folder that holds no
// file of ours. Files without a manifest have lost their watermark.
func (s *Sink) readManifest() (manifest, error) {
	text, err := s.root.ReadFile(manifestName)
	if errors.Is(err, fs.ErrNotExist) {
		return s.firstManifest()
	}
	if err != nil {
		return manifest{}, err
	}
	var m manifest
	if err := json.Unmarshal(text, &m); err != nil {
		return manifest{}, fmt.Errorf("%s/%s: %w: %s", s.options.Dir, manifestName, err, rebuild)
	}
	if m.Version != manifestVersion {
		return manifest{}, fmt.Errorf("%s/%s is of version %d, this program knows %d: use a newer program, or %s",
			s.options.Dir, manifestName, m.Version, manifestVersion, rebuild)
	}
	return m, nil
}

func (s *Sink) firstManifest() (manifest, error) {
	for _, t := range slices.Concat(s.options.Tables, s.options.Ops) {
		orphans, err := s.list(t, func(name string) bool { return isPart(name) || isPending(name) })
		if err != nil {
			return manifest{}, err
		}
		if len(orphans) > 0 {
			return manifest{}, fmt.Errorf("%s holds %s but no %s, so nobody knows up to which answer it is complete: %s",
				s.options.Dir, orphans[0], manifestName, rebuild)
		}
	}
	m := manifest{Version: manifestVersion}
	if err := s.folder(manifestFolder); err != nil {
		return m, err
	}
	return m, s.replaceManifest(m)
}

// replaceManifest is the commit of a step.
func (s *Sink) replaceManifest(m manifest) error {
	text, err := json.Marshal(m)
	if err != nil {
		return err
	}
	temp := temporary(manifestName, 0)
	if err := s.create(temp, func(w io.Writer) error { _, err := w.Write(text); return err }); err != nil {
		return err
	}
	if err := s.rename(temp, manifestName); err != nil {
		return err
	}
	return s.syncFolder(manifestFolder)
}

// finish does what the manifest says, or what is left of it.
func (s *Sink) finish() error {
	folders := map[string]bool{}
	for _, name := range s.state.Moves {
		folders[path.Dir(name)] = true
		temp := temporary(name, s.state.Step)
		if _, err := s.root.Lstat(temp); err == nil {
			if err := s.rename(temp, name); err != nil {
				return err
			}
		} else if _, err := s.root.Lstat(name); err != nil {
			return fmt.Errorf("a file that was committed is gone: %w: %s", err, rebuild)
		}
	}
	for _, name := range s.state.Removes {
		folders[path.Dir(name)] = true
		if err := s.remove(name); err != nil {
			return err
		}
	}
	return s.syncFolders(folders)
}

// step is a change from one state to the next.
type step struct {
	sink    *Sink
	next    manifest
	folders map[string]bool
}

func (s *Sink) begin() *step {
	next := s.state
	next.Step++
	next.Ops = maps.Clone(s.state.Ops)
	next.Moves, next.Removes = nil, nil
	return &step{sink: s, next: next, folders: map[string]bool{}}
}

// write adds a file, or a new version of one.
func (p *step) write(name string, content func(io.Writer) error) error {
	if folder := path.Dir(name); !p.folders[folder] {
		if err := p.sink.folder(folder); err != nil {
			return err
		}
		p.folders[folder] = true
	}
	p.next.Moves = append(p.next.Moves, name)
	return p.sink.create(temporary(name, p.next.Step), content)
}

func (p *step) remove(names ...string) { p.next.Removes = append(p.next.Removes, names...) }

// empty reports whether nothing has changed.
func (p *step) empty() bool {
	return len(p.next.Moves)+len(p.next.Removes) == 0 && p.next.OpsVersion == p.sink.state.OpsVersion
}

// commit makes the step happen, whole.
func (p *step) commit() error {
	if err := p.sink.syncFolders(p.folders); err != nil {
		return err
	}
	if err := p.sink.replaceManifest(p.next); err != nil {
		return err
	}
	p.sink.state = p.next
	if err := p.sink.finish(); err != nil {
		return err
	}
	p.sink.track()
	return nil
}

// change marks the state as unknown if do fails.
func (s *Sink) change(do func() error) error {
	err := do()
	if err != nil {
		s.stale = true
	}
	return err
}

// The rest changes the disk, each with its own chance to fail.

func (s *Sink) create(name string, content func(io.Writer) error) (err error) {
	if err := s.step("write " + name); err != nil {
		return err
	}
	f, err := s.root.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o644)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	s.buffer.Reset(f)
	defer s.buffer.Reset(nil)
	if err := content(s.buffer); err != nil {
		return fmt.Errorf("write %s: %w", name, err)
	}
	if err := s.buffer.Flush(); err != nil {
		return err
	}
	return s.syncFile(name, f)
}

func (s *Sink) rename(from, to string) error {
	if err := s.step("rename " + from); err != nil {
		return err
	}
	return s.root.Rename(from, to)
}

func (s *Sink) remove(name string) error {
	if err := s.step("remove " + name); err != nil {
		return err
	}
	if err := s.root.Remove(name); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

// folder creates a folder and those above it, durably.
func (s *Sink) folder(name string) error {
	if _, err := s.root.Stat(name); err == nil {
		return nil
	}
	if err := s.step("create " + name); err != nil {
		return err
	}
	if err := s.root.MkdirAll(name, 0o755); err != nil {
		return err
	}
	for above := path.Dir(name); ; above = path.Dir(above) {
		if err := s.syncFolder(above); err != nil {
			return err
		}
		if above == "." {
			return nil
		}
	}
}

func (s *Sink) syncFolders(names map[string]bool) error {
	for _, name := range slices.Sorted(maps.Keys(names)) {
		if err := s.syncFolder(name); err != nil {
			return err
		}
	}
	return nil
}

func (s *Sink) syncFolder(name string) error {
	folder, err := s.root.Open(name)
	if err != nil {
		return err
	}
	return errors.Join(s.syncFile(name, folder), folder.Close())
}

// syncFile makes a file, or the names in a folder, durable.
func (s *Sink) syncFile(name string, f *os.File) error {
	if err := s.step("sync " + name); err != nil {
		return err
	}
	return s.sync(f)
}

// exists tells whether a table's file is there.
func (s *Sink) exists(t *schema.Table, name string) (bool, error) {
	_, err := s.root.Lstat(path.Join(t.FileName(), name))
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	return err == nil, err
}
