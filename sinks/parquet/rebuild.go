package parquet

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"outlierd/schema"
	"outlierd/sinks"
)

// Rebuild makes all files anew in a folder beside the old one, which it does not open, and exchanges
// the two in one step once fill has written and published everything there. Files of other programs in the
// old folder are in the new one too. After an error, or a kill, the old folder is as it was.
func Rebuild(ctx context.Context, o Options, fill func(s sinks.Sink, published string) error) error {
	made := o
	made.Dir = filepath.Clean(o.Dir) + ".rebuild"
	if err := os.RemoveAll(made.Dir); err != nil {
		return fmt.Errorf("remove what an earlier rebuild left: %w", err)
	}
	s, err := Open(made)
	if err == nil {
		err = errors.Join(fill(s, made.Dir), s.Close())
	}
	if err == nil {
		err = keepForeign(o.Dir, made.Dir, slices.Concat(o.Tables, o.Ops))
	}
	if err == nil {
		err = swap(made.Dir, o.Dir)
	}
	return errors.Join(err, os.RemoveAll(made.Dir)) // by now perhaps the old one
}

// swap lets two folders take each other's name, of which the second may not be there.
func swap(a, b string) error {
	err := unix.Renameat2(unix.AT_FDCWD, a, unix.AT_FDCWD, b, unix.RENAME_EXCHANGE)
	if errors.Is(err, unix.ENOENT) {
		err = os.Rename(a, b)
	}
	if err != nil {
		return fmt.Errorf("put the rebuilt Parquet folder in place of %s: %w", b, err)
	}
	parent, err := os.Open(filepath.Dir(b))
	if err != nil {
		return err
	}
	return errors.Join(parent.Sync(), parent.Close())
}

// keepForeign gives files that are not ours a second name.
func keepForeign(from, to string, tables []*schema.Table) error {
	return filepath.WalkDir(from, func(path string, entry fs.DirEntry, err error) error {
		if errors.Is(err, fs.ErrNotExist) || err == nil && entry.IsDir() {
			return nil
		}
		if err != nil {
			return err
		}
		name, err := filepath.Rel(from, path)
		if err != nil || ours(name, tables) {
			return err
		}
		if err := os.MkdirAll(filepath.Dir(filepath.Join(to, name)), 0o755); err != nil {
			return err
		}
		return os.Link(path, filepath.Join(to, name))
	})
}

// ours reports whether a sink made a file.
func ours(name string, tables []*schema.Table) bool {
	folder, rest, _ := strings.Cut(filepath.ToSlash(name), "/")
	if folder == manifestFolder || folder == compactedFolder {
		return true
	}
	return isOurs(filepath.Base(rest)) && slices.ContainsFunc(tables, func(t *schema.Table) bool { return t.FileName() == folder })
}
