package parquet

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"outlierd/schema"
	"outlierd/sinks"
)

// # Rebuilding
//
// A rebuild writes all files again into a folder beside the old one, and exchanges the two atomically.
// That is impossible for a mount point, and for a symbolic link, the folder that contains the target may
// belong to others. There the files are written to _rebuild within the folder. When they are complete, that
// folder is renamed to _rebuilt, which is the commit; so is one beside the old folder if the file system
// cannot exchange the two. Then each entry of _rebuilt replaces the one of the same name, and the old entry
// is moved to _replaced before it is removed. After a kill, opening the folder completes the replacement.
const (
	rebuildFolder  = "_rebuild"
	rebuiltFolder  = "_rebuilt"
	replacedFolder = "_replaced"
)

// Rebuild writes all files again without opening the old ones, which it replaces once fill has written
// and published everything. Files of other programs are kept. After an error or a kill, the old folder is
// unchanged, except that a kill while entry by entry is replaced leaves the rest of it to the next [Open].
func Rebuild(o Options, fill func(s sinks.Sink, published string) error) error {
	return rebuildBy(func(string) error { return nil }, o, fill)
}

// rebuildBy is Rebuild. It calls step before the folders are exchanged, and before each change of a folder that is
// replaced entry by entry.
func rebuildBy(step func(what string) error, o Options, fill func(s sinks.Sink, published string) error) error {
	within, err := cannotMove(o.Dir)
	if err != nil {
		return fmt.Errorf("folder of the Parquet sink: %w", err)
	}
	if err := finishRebuild(o.Dir, step); err != nil {
		return err
	}
	made := o
	made.Dir = filepath.Clean(o.Dir) + ".rebuild"
	if within {
		made.Dir = filepath.Join(o.Dir, rebuildFolder)
	}
	if err := os.RemoveAll(made.Dir); err != nil {
		return fmt.Errorf("remove what an earlier rebuild left: %w", err)
	}
	if err := makeLike(o.Dir, made.Dir); err != nil {
		return err
	}
	s, err := Open(made)
	if err == nil {
		err = errors.Join(fill(s, made.Dir), s.Close())
	}
	tables := slices.Concat(o.Tables, o.Ops)
	switch {
	case err == nil && within:
		for _, t := range tables {
			err = errors.Join(err, keepForeign(o.Dir, made.Dir, t.FileName(), tables))
		}
		if err == nil {
			err = replaceWithin(o.Dir, made.Dir, tables, step)
		}
	case err == nil:
		if err = keepForeign(o.Dir, made.Dir, ".", tables); err == nil {
			err = swap(made.Dir, o.Dir, step)
		}
		if cannotExchange(err) {
			err = replaceWithin(o.Dir, made.Dir, tables, step)
		}
	}
	return errors.Join(err, os.RemoveAll(made.Dir)) // which may be the old folder now
}

// cannotMove reports whether a folder cannot be exchanged with one beside it.
func cannotMove(dir string) (bool, error) {
	info, err := os.Lstat(dir)
	switch {
	case err != nil:
		return false, ignoreMissing(err)
	case info.Mode()&fs.ModeSymlink != 0:
		_, err := os.Stat(dir)
		return true, err
	}
	var found unix.Statx_t
	if err := unix.Statx(unix.AT_FDCWD, dir, unix.AT_SYMLINK_NOFOLLOW, 0, &found); err != nil {
		return false, &os.PathError{Op: "statx", Path: dir, Err: err}
	}
	return found.Attributes&unix.STATX_ATTR_MOUNT_ROOT != 0, nil // 0 before Linux 5.8
}

// makeLike creates a folder with the permissions of the one that it will replace, if that exists. If this
// user may set them, it also copies the owner, the group and extended attributes, such as access control
// lists. Folders within it inherit the group and the lists, as in the old one.
func makeLike(old, dir string) error {
	info, err := os.Stat(old)
	if err != nil {
		return ignoreMissing(err)
	}
	if err := os.Mkdir(dir, 0o700); err != nil {
		return err
	}
	var found unix.Stat_t
	if err := unix.Stat(old, &found); err != nil {
		return &os.PathError{Op: "stat", Path: old, Err: err}
	}
	// The owner comes last: after that, this user may be unable to change the rest.
	if err := os.Chmod(dir, info.Mode()&(fs.ModePerm|fs.ModeSetgid|fs.ModeSticky)); err != nil {
		return err
	}
	if err := copyAttributes(old, dir); err != nil {
		return err
	}
	for _, owner := range []int{int(found.Uid), -1} { // only root may set another owner
		err = os.Chown(dir, owner, int(found.Gid))
		if !errors.Is(err, fs.ErrPermission) {
			break
		}
	}
	return ignoreDenied(err)
}

// copyAttributes copies the extended attributes of a folder, as far as the file system supports them and
// this user may set them.
func copyAttributes(from, to string) error {
	names := make([]byte, 64<<10) // the maximum that Linux returns
	n, err := unix.Listxattr(from, names)
	if err != nil {
		return ignoreDenied(&os.PathError{Op: "list the extended attributes of", Path: from, Err: err})
	}
	value := make([]byte, 64<<10)
	for name := range strings.SplitSeq(strings.TrimSuffix(string(names[:n]), "\x00"), "\x00") {
		if name == "" {
			continue
		}
		n, err := unix.Getxattr(from, name, value)
		if err == nil {
			err = unix.Setxattr(to, name, value[:n], 0)
		}
		if ignoreDenied(err) != nil {
			return fmt.Errorf("copy the extended attribute %s from %s to %s: %w", name, from, to, err)
		}
	}
	return nil
}

// ignoreDenied drops the error of an operation that this user may not do, or that the file system does
// not support.
func ignoreDenied(err error) error {
	if errors.Is(err, fs.ErrPermission) || errors.Is(err, errors.ErrUnsupported) {
		return nil
	}
	return err
}

// swap exchanges the names of two folders; the second one may be missing.
func swap(a, b string, step func(what string) error) error {
	if err := step("exchange " + b); err != nil {
		return err
	}
	err := unix.Renameat2(unix.AT_FDCWD, a, unix.AT_FDCWD, b, unix.RENAME_EXCHANGE)
	if errors.Is(err, unix.ENOENT) {
		err = os.Rename(a, b)
	}
	if err != nil {
		return fmt.Errorf("put the rebuilt Parquet folder in place of %s: %w", b, err)
	}
	return syncDir(filepath.Dir(b))
}

// replaceWithin replaces entries of a folder by those that were made within it. Other entries, such as
// lost+found, stay.
func replaceWithin(dir, made string, tables []*schema.Table, step func(what string) error) error {
	folders := []string{compactedFolder}
	for _, t := range tables {
		folders = append(folders, t.FileName())
	}
	for _, folder := range folders { // an empty folder replaces one that has no rows any more
		_, err := os.Lstat(filepath.Join(dir, folder))
		if err == nil {
			err = os.MkdirAll(filepath.Join(made, folder), 0o755)
		}
		if ignoreMissing(err) != nil {
			return err
		}
	}
	if err := syncDir(made); err != nil {
		return err
	}
	if err := step("rename " + made); err != nil {
		return err
	}
	if err := os.Rename(made, filepath.Join(dir, rebuiltFolder)); err != nil {
		return err
	}
	if err := syncDir(dir); err != nil {
		return err
	}
	return finishRebuild(dir, step)
}

// finishRebuild moves the remaining entries of _rebuilt to their places, and removes leftovers of
// rebuilds.
func finishRebuild(dir string, step func(what string) error) error {
	rebuilt, replaced := filepath.Join(dir, rebuiltFolder), filepath.Join(dir, replacedFolder)
	entries, err := os.ReadDir(rebuilt)
	if ignoreMissing(err) != nil {
		return err
	}
	if err == nil {
		if err := os.MkdirAll(replaced, 0o700); err != nil {
			return err
		}
	}
	move := func(from, to string) error {
		if err := step("rename " + from); err != nil {
			return err
		}
		return os.Rename(from, to)
	}
	for _, e := range entries {
		at := filepath.Join(dir, e.Name())
		err := ignoreMissing(move(at, filepath.Join(replaced, e.Name())))
		if errors.Is(err, unix.EXDEV) { // a folder of a lower layer of overlayfs, which can only be removed
			err = os.RemoveAll(at)
		}
		if err != nil {
			return err
		}
		if err := move(filepath.Join(rebuilt, e.Name()), at); err != nil {
			return err
		}
	}
	if len(entries) > 0 {
		if err := syncDir(dir); err != nil {
			return err
		}
	}
	for _, left := range []string{rebuilt, replaced, filepath.Join(dir, rebuildFolder)} {
		if _, err := os.Lstat(left); errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err := step("remove " + left); err != nil {
			return err
		}
		if err := os.RemoveAll(left); err != nil {
			return err
		}
	}
	return nil
}

// syncDir makes the names in a folder durable.
func syncDir(name string) error {
	dir, err := os.Open(name)
	if err != nil {
		return err
	}
	return errors.Join(dir.Sync(), dir.Close())
}

// keepForeign hard-links files of other programs from one folder to another. It copies them if the file system has
// no hard links.
func keepForeign(from, to, folder string, tables []*schema.Table) error {
	return filepath.WalkDir(filepath.Join(from, folder), func(path string, entry fs.DirEntry, err error) error {
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
		kept := filepath.Join(to, name)
		if err := os.MkdirAll(filepath.Dir(kept), 0o755); err != nil {
			return err
		}
		err = os.Link(path, kept)
		if ignoreDenied(err) == nil && err != nil && entry.Type().IsRegular() {
			err = copyFile(path, kept)
		}
		return err
	})
}

func copyFile(from, to string) error {
	in, err := os.Open(from)
	if err != nil {
		return err
	}
	defer in.Close()
	out, err := os.OpenFile(to, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
	if err != nil {
		return err
	}
	_, err = io.Copy(out, in)
	if err == nil {
		err = out.Sync()
	}
	return errors.Join(err, out.Close())
}

// ours reports whether a file belongs to a sink.
func ours(name string, tables []*schema.Table) bool {
	folder, rest, _ := strings.Cut(filepath.ToSlash(name), "/")
	if folder == manifestFolder || folder == compactedFolder {
		return true
	}
	return isOurs(filepath.Base(rest)) && slices.ContainsFunc(tables,
		func(t *schema.Table) bool { return t.FileName() == folder })
}
