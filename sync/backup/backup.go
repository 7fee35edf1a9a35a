// Package backup keeps copies of the state elsewhere, and brings them back. A backup has the
// ledger and the journal; the sinks follow from the journal and are built anew.
package backup

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"

	"outlierd/sync/state"
)

// Manifest is the file of a backup that says what belongs to it. A backup without it, or that
// does not match it, is of no use.
type Manifest struct {
	Version int       `json:"version"` // of this format
	Program string    `json:"program"` // the version of outlierd that wrote it
	At      time.Time `json:"at"`
	Answers int64     `json:"answers"` // the last one of the journal
	File    string    `json:"file"`    // the copy of the state, in the same folder
	Bytes   int64     `json:"bytes"`
	Sum     string    `json:"sha256"`
}

const (
	formatVersion = 1
	manifestName  = "backup.json"
	lookName      = ".look-" // begins the names of folders in which a copy is opened
)

// Write copies the state in a folder into another folder, also while a process works with it. An
// earlier backup there stays until the new one is whole, and then goes.
func Write(ctx context.Context, from, to string, o state.Options) (m Manifest, err error) {
	if err := os.MkdirAll(to, 0o700); err != nil {
		return m, fmt.Errorf("create the folder of the backup: %w", err)
	}
	held, err := hold(to)
	if err != nil {
		return m, err
	}
	defer func() { err = errors.Join(err, held.Close()) }()
	if _, err := read(to); err != nil && !errors.Is(err, os.ErrNotExist) {
		return m, err
	}
	m = Manifest{Version: formatVersion, Program: o.Version, At: time.Now().UTC()}
	m.File = "state-" + m.At.Format("20060102T150405.000000Z") + ".db"
	path := filepath.Join(to, m.File)
	if err := state.Copy(ctx, from, path, o); err != nil {
		return m, err
	}
	if m.Answers, err = answersIn(ctx, path, o); err != nil {
		return m, err
	}
	if m.Bytes, m.Sum, err = sum(path); err != nil {
		return m, err
	}
	if err := m.write(to); err != nil {
		return m, err
	}
	return m, removeOthers(to, m.File)
}

// hold keeps other backups and restores out of a folder until it is closed: they would remove what
// this one is writing. The kernel lets go when the process ends, however it ends. A network file
// system may have no locks for folders: a backup there goes on without.
func hold(folder string) (*os.File, error) {
	file, err := os.Open(folder)
	if err != nil {
		return nil, err
	}
	if errors.Is(unix.Flock(int(file.Fd()), unix.LOCK_EX|unix.LOCK_NB), unix.EWOULDBLOCK) {
		return nil, errors.Join(fmt.Errorf("another backup or restore is using %s: wait until it has ended", folder), file.Close())
	}
	return file, nil
}

// removeOthers removes the copy of the backup before, and what backups that were killed have left.
func removeOthers(folder, keep string) error {
	var errs []error
	for _, pattern := range []string{"state-*.db*", lookName + "*"} {
		names, err := filepath.Glob(filepath.Join(folder, pattern))
		errs = append(errs, err)
		for _, name := range names {
			if filepath.Base(name) != keep {
				errs = append(errs, os.RemoveAll(name))
			}
		}
	}
	return errors.Join(errs...)
}

// answersIn asks a copy of the state for the last answer of its journal.
func answersIn(ctx context.Context, path string, o state.Options) (answers int64, err error) {
	folder, err := os.MkdirTemp(filepath.Dir(path), lookName)
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(folder)) }()
	if err := os.Link(path, filepath.Join(folder, "state.db")); err != nil {
		return 0, err
	}
	seen, err := state.Peek(ctx, folder, o)
	if err != nil {
		return 0, err
	}
	answers, err = seen.Journal.Seen()
	return answers, errors.Join(err, seen.Close())
}

func (m Manifest) write(folder string) error {
	text, err := json.MarshalIndent(m, "", "  ")
	if err != nil {
		return err
	}
	temp := filepath.Join(folder, manifestName+".new")
	file, err := os.OpenFile(temp, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	_, err = file.Write(append(text, '\n'))
	if err := errors.Join(err, file.Sync(), file.Close()); err != nil {
		return err
	}
	if err := os.Rename(temp, filepath.Join(folder, manifestName)); err != nil {
		return err
	}
	return syncFolder(folder)
}

// syncFolder makes the names in a folder durable.
func syncFolder(path string) error {
	folder, err := os.Open(path)
	if err != nil {
		return err
	}
	return errors.Join(folder.Sync(), folder.Close())
}

func read(folder string) (m Manifest, err error) {
	path := filepath.Join(folder, manifestName)
	text, err := os.ReadFile(path)
	if err != nil {
		return m, err
	}
	if err := json.Unmarshal(text, &m); err != nil {
		return m, fmt.Errorf("%s: %w", path, err)
	}
	if m.Version != formatVersion {
		return m, fmt.Errorf("%s is of version %d, and this program knows version %d", path, m.Version, formatVersion)
	}
	if m.File != filepath.Base(m.File) {
		return m, fmt.Errorf("%s names a file elsewhere: %q", path, m.File)
	}
	return m, nil
}

// Verify reads a backup whole and reports whether it is as it was written.
func Verify(folder string) (Manifest, error) {
	m, err := read(folder)
	if errors.Is(err, os.ErrNotExist) {
		return m, fmt.Errorf("there is no backup in %s: %w", folder, err)
	}
	if err != nil {
		return m, err
	}
	bytes, found, err := sum(filepath.Join(folder, m.File))
	if err == nil && (bytes != m.Bytes || found != m.Sum) {
		err = fmt.Errorf("the backup in %s is damaged: %s does not match its checksum; use another backup", folder, m.File)
	}
	return m, err
}

// sum is the size and the SHA-256 of a file.
func sum(path string) (bytes int64, sum string, err error) {
	file, err := os.Open(path)
	if err != nil {
		return 0, "", err
	}
	hash := sha256.New()
	bytes, err = io.Copy(hash, file)
	return bytes, hex.EncodeToString(hash.Sum(nil)), errors.Join(err, file.Close())
}

// ExistsError says that a state is in the place of the one to be restored.
type ExistsError struct{ Path string }

func (e *ExistsError) Error() string {
	return fmt.Sprintf("%s already exists and records what was spent: move it away before you restore", e.Path)
}

// Restore brings a backup back into a state folder that must not exist. settle is called with the
// state before it takes its place; if it fails, or the process is killed, there is none.
func Restore(ctx context.Context, from, to string, o state.Options, settle func(*state.Store, Manifest) error) (m Manifest, err error) {
	if _, err := os.Lstat(to); !errors.Is(err, os.ErrNotExist) {
		return m, errors.Join(err, &ExistsError{Path: to})
	}
	if m, err = Verify(from); err != nil {
		return m, err
	}
	above := filepath.Dir(to)
	if err := os.MkdirAll(above, 0o755); err != nil {
		return m, err
	}
	held, err := hold(above)
	if err != nil {
		return m, err
	}
	defer func() { err = errors.Join(err, held.Close()) }()
	made := to + ".restore"
	if err := os.RemoveAll(made); err != nil { // of a restore that was killed
		return m, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(made)) }()
	if err := os.MkdirAll(made, 0o700); err != nil {
		return m, err
	}
	if err := copyFile(filepath.Join(from, m.File), filepath.Join(made, "state.db")); err != nil {
		return m, fmt.Errorf("copy the backup: %w", err)
	}
	restored, err := state.Open(ctx, made, o)
	if err != nil {
		return m, err
	}
	_, err = restored.Check(ctx)
	if err == nil {
		err = settle(restored, m)
	}
	if err := errors.Join(err, restored.Close()); err != nil {
		return m, err
	}
	if err := os.Rename(made, to); err != nil {
		return m, err
	}
	return m, syncFolder(above)
}

func copyFile(from, to string) error {
	in, err := os.Open(from)
	if err != nil {
		return err
	}
	defer in.Close()
	out, err := os.OpenFile(to, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	_, err = io.Copy(out, in)
	return errors.Join(err, out.Sync(), out.Close())
}
