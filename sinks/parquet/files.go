package parquet

import (
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

	"outlierd/schema"
)

// folder is the folder of a copy. Names are paths below it, with slashes. Symbolic links that lead out of
// it are errors.
type folder struct {
	dir  string
	root *os.Root
}

func openFolder(dir string) (*folder, error) {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, err
	}
	return &folder{dir, root}, nil
}

// nameFull replaces the name in an error of [os.Root], which is relative to the folder, by the path.
func (f *folder) nameFull(err error) error {
	switch e := err.(type) {
	case *fs.PathError:
		return &fs.PathError{Op: e.Op, Path: filepath.Join(f.dir, e.Path), Err: e.Err}
	case *os.LinkError:
		return &os.LinkError{Op: e.Op, Old: filepath.Join(f.dir, e.Old), New: filepath.Join(f.dir, e.New), Err: e.Err}
	}
	return err
}

// readFile returns the content of a file. It refuses everything but regular files: opening a pipe may block
// forever.
func (f *folder) readFile(name string) ([]byte, error) {
	info, err := f.root.Lstat(name)
	if err != nil {
		return nil, f.nameFull(err)
	}
	if !info.Mode().IsRegular() {
		return nil, fmt.Errorf("%s is not a regular file: remove it", filepath.Join(f.dir, name))
	}
	text, err := f.root.ReadFile(name)
	return text, f.nameFull(err)
}

// entry is a file in the folder of a table, or something else that has the name of a part.
type entry struct {
	name string
	fs.FileInfo
}

// listFiles returns what is in the folders of tables.
func (f *folder) listFiles(tables []*schema.Table) (all []entry, err error) {
	for _, t := range tables {
		err := fs.WalkDir(f.root.FS(), t.FileName(), func(name string, e fs.DirEntry, err error) error {
			if err == nil && e.IsDir() && !partName().MatchString(name) {
				return nil
			}
			var info fs.FileInfo
			if err == nil {
				info, err = e.Info()
			}
			if err != nil {
				return ignoreMissing(err)
			}
			all = append(all, entry{name, info})
			if e.IsDir() {
				return fs.SkipDir
			}
			return nil
		})
		if err != nil {
			return nil, f.nameFull(err)
		}
	}
	return all, nil
}

func ignoreMissing(err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

// foreignFiles returns the files among entries which a reader's glob finds and which no copy writes.
func foreignFiles(all []entry) (names []string) {
	for _, e := range all {
		if strings.HasSuffix(e.name, ".parquet") && !partName().MatchString(e.name) {
			names = append(names, e.name)
		}
	}
	return names
}

// checksum returns the SHA-256 of the rest of a file, in hex, and its number of bytes.
func checksum(f *os.File) (sum string, bytes int64, err error) {
	hash := sha256.New()
	bytes, err = io.Copy(hash, f)
	return hex.EncodeToString(hash.Sum(nil)), bytes, err
}

// All functions that change the disk, each with its own call of step, so that tests can make it fail.

// createFile replaces a file by a new one, for writing and reading.
func (c *Copy) createFile(name string) (*os.File, error) {
	if err := c.step("write " + name); err != nil {
		return nil, err
	}
	if err := ignoreMissing(c.root.Remove(name)); err != nil {
		return nil, c.nameFull(err)
	}
	f, err := c.root.OpenFile(name, os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o644)
	return f, c.nameFull(err)
}

func (c *Copy) renameFile(from, to string) error {
	if _, err := c.root.Lstat(from); err != nil {
		return c.nameFull(err)
	}
	if err := c.step("rename " + from); err != nil {
		return err
	}
	return c.nameFull(c.root.Rename(from, to))
}

func (c *Copy) removeFile(name string) error {
	if err := c.step("remove " + name); err != nil {
		return err
	}
	return ignoreMissing(c.nameFull(c.root.Remove(name)))
}

// removePart removes a part, and its folder if that is empty then.
func (c *Copy) removePart(name string) error {
	err := c.removeFile(name)
	if err == nil {
		err = c.removeFile(path.Dir(name))
	}
	if errors.Is(err, fs.ErrExist) { // it has other files
		return nil
	}
	return err
}

// makeFolder creates a folder and those above it, durably.
func (c *Copy) makeFolder(name string) error {
	if _, err := c.root.Stat(name); err == nil {
		return nil
	}
	if err := c.step("create " + name); err != nil {
		return err
	}
	if err := c.root.MkdirAll(name, 0o755); err != nil {
		return c.nameFull(err)
	}
	for above := path.Dir(name); ; above = path.Dir(above) {
		if err := c.syncFolder(above); err != nil || above == "." {
			return err
		}
	}
}

func (c *Copy) syncFolder(name string) error {
	f, err := c.root.Open(name)
	if err != nil {
		return c.nameFull(err)
	}
	return errors.Join(c.syncFile(name, f), f.Close())
}

// syncFoldersOf makes the names of files durable.
func (c *Copy) syncFoldersOf(names []string) error {
	folders := map[string]bool{}
	for _, name := range names {
		folders[path.Dir(name)] = true
	}
	for _, folder := range slices.Sorted(maps.Keys(folders)) {
		if err := c.syncFolder(folder); err != nil {
			return err
		}
	}
	return nil
}

// syncFile makes the content of a file, or the names in a folder, durable.
func (c *Copy) syncFile(name string, f *os.File) error {
	if err := c.step("sync " + name); err != nil {
		return err
	}
	return f.Sync()
}
