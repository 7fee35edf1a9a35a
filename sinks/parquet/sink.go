// Package parquet writes tables as Parquet files for readers that use a glob.
//
//	<table>/date=YYYY-MM-DD/part-<lo>-<hi>.parquet   History, Changes, Once, Log: rows of answers lo to hi; past days have one part
//	<table>/current.parquet                          Current, Children: replaced when published
//	<table>/pending-<lo>-<hi>.arrow                  Current, Children: rows of answers lo to hi, not yet published
//	ops_<table>/part-<lo>-<hi>.parquet               operations: rows lo to hi
//	ops_<table>/open.parquet                         operations: the newest rows, too few for a part
//	_manifest/latest.json                            the sink's state, its files, and the last step towards it
//	_manifest/<table>-<step>.json                    the files of days that are over
//	_compacted/<table>/date=YYYY-MM-DD               the parts that one has taken the place of, for an hour
//	_rebuild, _rebuilt, _replaced                    while the folder is rebuilt: rebuild.go
//
// A pending row without _response_id deletes the older rows of its identity. date is the UTC date
// of observed_at; a row without it uses the date of the other rows of its answer. Ids are padded,
// so that names sort in the order of the journal.
//
// Every step, a batch or a publication, has three stages: all new files are written under temporary
// names and made durable; the manifest, which lists them and their final names, is replaced (this
// is the commit); then files are renamed and removed accordingly. After a kill the last stage is
// repeated, which is idempotent, and temporary files that no manifest lists are removed. So a batch
// is applied completely or not at all, and a reader never finds an uncommitted row. Between two
// renames a reader may find one table with the newest batch and another one without it. Temporary
// and pending files do not end in .parquet, because a glob for **/*.parquet matches hidden files
// too.
//
// Files with other names are never touched.
package parquet

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"path"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"outlierd/schema"
	"outlierd/sinks"
)

// Options say where the files are.
type Options struct {
	Dir    string
	Tables []*schema.Table
	Ops    []*schema.Table
}

var _ sinks.Sink = (*Sink)(nil)

// Sink is a [sinks.Sink]. After an error it reads its state from the manifest again, which is the only
// record of what was committed.
type Sink struct {
	options Options
	root    *os.Root
	state   manifest
	stale   bool // the state must be read again
	changes map[*schema.Table]*sinks.Changes
	parents map[*schema.Table]*sinks.Parents
	buffer  *bufio.Writer // of the file that is being written, one at a time

	replaced []replaced      // folders below _compacted that are removed later
	able     map[string]bool // whether the folders of a table can be exchanged, where that is known

	// step is called before every change of the disk with a description of it. Tests make it fail.
	step func(what string) error
	sync func(*os.File) error // makes a file durable; tests replace it
	now  func() time.Time     // tests replace it
}

// rebuild is what the operator can do about an unusable folder.
const rebuild = "'outlierd rebuild parquet' rebuilds it from the journal"

// Open opens or creates the folder of a sink. If a kill has interrupted a step, it completes or undoes
// it.
func Open(o Options) (*Sink, error) {
	return open(o, func(string) error { return nil })
}

func open(o Options, step func(what string) error) (*Sink, error) {
	if err := os.MkdirAll(o.Dir, 0o755); err != nil {
		return nil, fmt.Errorf("folder of the Parquet sink: %w", err)
	}
	if err := unix.Access(o.Dir, unix.W_OK); err != nil {
		return nil, fmt.Errorf("folder of the Parquet sink: %w", &os.PathError{Op: "write to", Path: o.Dir, Err: err})
	}
	if err := finishRebuild(o.Dir, step); err != nil {
		return nil, fmt.Errorf("finish the rebuild of the Parquet sink: %w", err)
	}
	root, err := os.OpenRoot(o.Dir)
	if err != nil {
		return nil, fmt.Errorf("folder of the Parquet sink: %w", err)
	}
	s := &Sink{options: o, able: map[string]bool{}, root: root, step: step, sync: (*os.File).Sync,
		now: time.Now, buffer: bufio.NewWriterSize(nil, 256<<10)}
	if err := s.recover(); err != nil {
		return nil, errors.Join(err, root.Close())
	}
	return s, nil
}

// Name implements [sinks.Sink].
func (s *Sink) Name() string { return "parquet" }

// Watermark implements [sinks.Sink].
func (s *Sink) Watermark(context.Context) (int64, error) {
	if err := s.fresh(); err != nil {
		return 0, err
	}
	return s.state.Watermark, nil
}

// OpsVersion implements [sinks.Sink].
func (s *Sink) OpsVersion(context.Context) (int64, error) {
	if err := s.fresh(); err != nil {
		return 0, err
	}
	return s.state.OpsVersion, nil
}

// Close implements [sinks.Sink].
func (s *Sink) Close() error { return s.root.Close() }

// fresh ensures that the state in memory matches the disk.
func (s *Sink) fresh() error {
	if err := s.inPlace(); err != nil {
		return err
	}
	if !s.stale {
		return nil
	}
	return s.recover()
}

// inPlace returns an error if the folder is no longer at its path. A moved folder stays open, so all
// writes would go where no reader looks.
func (s *Sink) inPlace() error {
	opened, err := s.root.Stat(".")
	if err != nil {
		return fmt.Errorf("folder of the Parquet sink: %w", err)
	}
	found, err := os.Stat(s.options.Dir)
	switch {
	case err != nil:
		return fmt.Errorf("folder of the Parquet sink: %w", err)
	case !os.SameFile(opened, found):
		return fmt.Errorf("folder of the Parquet sink: %s was replaced while it was in use", s.options.Dir)
	}
	return nil
}

// recover reads the state, finishes its last step and removes the files of a step that was not
// committed.
func (s *Sink) recover() error {
	s.stale = true
	s.changes = map[*schema.Table]*sinks.Changes{}
	s.parents = map[*schema.Table]*sinks.Parents{}
	state, err := s.readManifest()
	if err != nil {
		return err
	}
	s.state = state
	if err := s.finish(); err != nil {
		return err
	}
	if err := s.clean(); err != nil {
		return err
	}
	s.stale = false
	return nil
}

// clean reads all folders and removes leftovers of a killed process. From then on only this program adds
// files, so a publication need not read the folders again.
func (s *Sink) clean() error {
	for _, t := range slices.Concat(s.options.Tables, s.options.Ops) {
		names, err := s.list(t, isTemporary)
		if err != nil {
			return err
		}
		for _, name := range names {
			if err := s.remove(name); err != nil {
				return err
			}
		}
	}
	lists, err := s.readFolder(manifestFolder)
	if err != nil {
		return err
	}
	for _, e := range lists {
		table, _, _ := strings.Cut(e.Name(), "-")
		if isClosedList(e.Name()) && s.state.Tables[table].Closed != e.Name() {
			if err := s.remove(path.Join(manifestFolder, e.Name())); err != nil {
				return err
			}
		}
	}
	return s.removeReplaced(0)
}

// pending returns a table's files with unpublished rows, in the order of the journal.
func (s *Sink) pending(t *schema.Table) (names []string) {
	for _, f := range s.state.Tables[t.FileName()].Files {
		if isPending(f.Name) {
			names = append(names, path.Join(t.FileName(), f.Name))
		}
	}
	return names
}
