package parquet

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"outlierd/schema"
)

// Folder is a snapshot of a folder of tables.
type Folder struct {
	Watermark, OpsVersion int64

	Dir   string              // where the files of the snapshot are
	Files map[string][]string // published files by the table's folder, relative to Dir

	// Waiting has the folders of tables with rows that are not published yet.
	Waiting map[string]bool

	Problems []string // files that differ from the manifest

	// Foreign has the Parquet files of other programs in the folders of tables, relative to the sink's folder.
	// Readers that use a glob find their rows among those of the table.
	Foreign []string

	listed map[string]File // by name relative to Dir; empty for a manifest of the first version
}

// Paths returns the files of a table.
func (f *Folder) Paths(t *schema.Table) (paths []string) {
	for _, name := range f.Files[t.FileName()] {
		paths = append(paths, filepath.Join(f.Dir, name))
	}
	return paths
}

// Within returns the files of a table that may contain rows of the answers (lo, hi].
func (f *Folder) Within(t *schema.Table, lo, hi int64) (paths []string) {
	for _, name := range f.Files[t.FileName()] {
		if file, listed := f.listed[name]; !listed || file.Hi > lo && file.Lo < hi {
			paths = append(paths, filepath.Join(f.Dir, name))
		}
	}
	return paths
}

// looks is the number of attempts to read a folder that changes meanwhile.
const looks = 20

// Look reads the manifest of a folder and finds the files that it lists, even while another process
// writes there. It does not change the folder. If keep is set and on the same disk, the files are
// hard-linked into that empty folder, where they do not change.
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
		if err != nil && !errors.Is(err, os.ErrNotExist) { // a file that was removed meanwhile
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
	return nil, fmt.Errorf("%s changes faster than it can be read: try again", dir)
}

func (s *Sink) manifestText() ([]byte, error) { return s.read(manifestName) }

// look finds the files that a manifest lists.
func (s *Sink) look(text []byte, keep string) (*Folder, error) {
	m, err := parseManifest(text)
	if err != nil {
		return nil, fmt.Errorf("%s/%s: %w", s.options.Dir, manifestName, err)
	}
	if m.Version > manifestVersion {
		return nil, fmt.Errorf("%s/%s is of version %d, this program knows %d",
			s.options.Dir, manifestName, m.Version, manifestVersion)
	}
	f := &Folder{Watermark: m.Watermark, OpsVersion: m.OpsVersion, Dir: s.options.Dir,
		Files: map[string][]string{}, Waiting: map[string]bool{}}
	if f.listed, err = s.listed(m); err != nil {
		return nil, err
	}
	for _, name := range slices.Sorted(maps.Keys(f.listed)) {
		if problem := s.lacks(m, name, f.listed[name].Bytes); problem != "" {
			f.Problems = append(f.Problems, problem)
		}
	}
	for _, t := range s.options.Tables {
		names, err := s.list(t, func(name string) bool {
			return isPart(name) || isPending(name) || name == currentName || name == openName
		})
		if err != nil {
			return nil, err
		}
		f.Waiting[t.FileName()] = slices.ContainsFunc(names,
			func(name string) bool { return isPending(path.Base(name)) })
		f.Files[t.FileName()] = slices.DeleteFunc(names, func(name string) bool { return isPending(path.Base(name)) })
		foreign, err := s.foreign(t, f.Files[t.FileName()])
		if err != nil {
			return nil, err
		}
		f.Foreign = append(f.Foreign, foreign...)
	}
	if keep == "" {
		return f, nil
	}
	f.Dir = keep
	err = f.link(s.options.Dir)
	if errors.Is(err, unix.EXDEV) || errors.Is(err, unix.EPERM) || errors.Is(err, errors.ErrUnsupported) {
		// The files cannot be linked there.
		f.Dir, err = s.options.Dir, nil
	}
	return f, err
}

// Foreign returns the Parquet files of other programs in the folders of tables, relative to dir.
func Foreign(dir string, tables []*schema.Table) (names []string, err error) {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, ignoreMissing(err)
	}
	defer root.Close()
	s := &Sink{options: Options{Dir: dir}, root: root}
	for _, t := range tables {
		own, err := s.list(t, isOurs)
		if err != nil {
			return nil, err
		}
		some, err := s.foreign(t, own)
		if err != nil {
			return nil, err
		}
		names = append(names, some...)
	}
	return names, nil
}

// foreign returns the Parquet files below a table's folder other than the table's own.
func (s *Sink) foreign(t *schema.Table, own []string) (names []string, err error) {
	known := map[string]bool{}
	for _, name := range own {
		known[name] = true
	}
	err = fs.WalkDir(s.root.FS(), t.FileName(), func(name string, entry fs.DirEntry, err error) error {
		if err == nil && !entry.IsDir() && strings.HasSuffix(name, ".parquet") && !known[name] {
			names = append(names, name)
		}
		return ignoreMissing(err)
	})
	return names, s.named(err)
}

// listed returns the files that a manifest lists, by name relative to the sink's folder.
func (s *Sink) listed(m manifest) (map[string]File, error) {
	all := map[string]File{}
	for table, l := range m.Tables {
		closed, err := s.readClosed(table, l)
		if err != nil {
			return nil, err
		}
		for _, f := range slices.Concat(l.Files, closed) {
			all[path.Join(table, f.Name)] = f
		}
	}
	return all, nil
}

// lacks returns what is wrong with a file of the given size; "" if nothing is. The last step of the
// manifest may not be applied to the files yet.
func (s *Sink) lacks(m manifest, name string, size int64) string {
	for _, place := range []string{name, temporary(name, m.Step), path.Join(compactedFolder, name)} {
		info, err := s.root.Lstat(place)
		switch {
		case errors.Is(err, fs.ErrNotExist):
			continue
		case err != nil:
			return err.Error()
		case !info.Mode().IsRegular():
			return name + " is not a regular file"
		case info.Size() == size:
			return ""
		case place == name && !slices.Contains(m.Moves, name):
			return fmt.Sprintf("%s has %d bytes in place of %d", name, info.Size(), size)
		}
	}
	return name + " is missing"
}

// Verify reads the files and returns those whose content has changed since they were written.
func (f *Folder) Verify(ctx context.Context) (problems []string, err error) {
	for _, names := range f.Files {
		for _, name := range names {
			want, ok := f.listed[name]
			if !ok {
				if len(f.listed) > 0 {
					problems = append(problems, name+" is not of this folder: readers find its rows beside the others")
				}
				continue
			}
			if err := context.Cause(ctx); err != nil {
				return nil, err
			}
			sum, err := checksum(filepath.Join(f.Dir, name))
			if err != nil {
				problems = append(problems, err.Error())
			} else if sum != want.SHA256 {
				problems = append(problems, name+" is damaged: it does not have the checksum that it was written with")
			}
		}
	}
	slices.Sort(problems)
	return problems, nil
}

func checksum(path string) (string, error) {
	f, err := os.Open(path)
	if err != nil {
		return "", err
	}
	defer f.Close()
	sum := sha256.New()
	if _, err := io.Copy(sum, f); err != nil {
		return "", err
	}
	return hex.EncodeToString(sum.Sum(nil)), nil
}

// link creates hard links to the files, which remain when the originals are removed.
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
