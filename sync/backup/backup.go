// Package backup copies the state to another place and restores it. A backup contains the ledger
// and the journal; the sinks are rebuilt from the journal.
//
// A place has one backup: a copy of the state, and a manifest with its name and checksum. The
// manifest is replaced last, atomically, so that a killed backup leaves the previous one intact.
// Outdated files and remains of killed backups are removed afterwards.
package backup

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"time"

	"outlierd/internal/durable"
	"outlierd/sync/state"
)

// Manifest is the file of a backup that lists its contents. A backup without a matching manifest
// cannot be restored.
type Manifest struct {
	Version int       `json:"version"` // of this format
	Program string    `json:"program"` // the version of outlierd that wrote it
	At      time.Time `json:"at"`
	Answers int64     `json:"answers"` // the last one of the journal
	File    string    `json:"file"`    // the copy of the state, in the same place
	Bytes   int64     `json:"bytes"`
	Sum     string    `json:"sha256"`
}

const (
	formatVersion  = 1
	manifestName   = "backup.json"
	mostOfManifest = 64 << 10 // maximum number of bytes to read
	tempName       = ".look-" // prefix of the names of folders in which a copy is made
)

// ours matches the file names that backups create beside the manifest, complete or partial.
var ours = regexp.MustCompile(`^(state-\d{8}T\d{6}\.\d{6}Z\.db|` + regexp.QuoteMeta(tempName) + `)`)

// Write copies the state in a folder to another place; the state may be in use meanwhile. An
// earlier backup there is removed once the new one is complete.
func Write(ctx context.Context, from string, to Place, o state.Options) (m Manifest, err error) {
	release, err := to.Hold()
	if err != nil {
		return m, err
	}
	defer func() { err = errors.Join(err, release()) }()
	before, version, err := readManifest(ctx, to)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return m, err
	}
	// Existing files are removed after the manifest is replaced. Where there are no locks, another
	// backup may have written files too. It read the same manifest or an older one, so its Replace
	// fails.
	old, err := to.Names(ctx)
	if err != nil {
		return m, err
	}
	if m, err = putState(ctx, from, to, before, o); err != nil {
		return m, err
	}
	text, err := json.MarshalIndent(m, "", "  ")
	if err != nil {
		return m, err
	}
	err = to.Replace(ctx, manifestName, append(text, '\n'), version)
	if errors.Is(err, fs.ErrExist) {
		return m, errors.Join(fmt.Errorf("another backup to %s has ended meanwhile: that one is kept, "+
			"and this one is not", to),
			to.Remove(ctx, m.File))
	}
	if err != nil {
		return m, err
	}
	for _, name := range old {
		if ours.MatchString(name) {
			err = errors.Join(err, to.Remove(ctx, name))
		}
	}
	return m, err
}

// putState copies the state to a place. It refuses to replace a backup that has more answers.
func putState(ctx context.Context, from string, to Place, before Manifest, o state.Options) (m Manifest, err error) {
	temp, err := os.MkdirTemp(to.Temp(), tempName)
	if err != nil {
		return m, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(temp)) }()
	m = Manifest{Version: formatVersion, Program: o.Version, At: time.Now().UTC()}
	m.File = "state-" + m.At.Format("20060102T150405.000000Z") + ".db"
	path := filepath.Join(temp, "state.db")
	if err := state.Copy(ctx, from, path, o); err != nil {
		return m, err
	}
	if m.Answers, err = answersIn(ctx, temp, o); err != nil {
		return m, err
	}
	if m.Answers < before.Answers { // the journal only grows, so this is another state
		return m, fmt.Errorf("the backup in %s of %s has %d answers, and the state in %s has %d, "+
			"so it is another one or an older one: keep its backup in another place, "+
			"or move %s away from there", to, before.At.Format(time.RFC3339), before.Answers,
			from, m.Answers, manifestName)
	}
	if m.Bytes, m.Sum, err = sumFile(path); err != nil {
		return m, err
	}
	return m, to.Put(ctx, path, m.File)
}

// answersIn returns the id of the last answer in a copy of the state.
func answersIn(ctx context.Context, folder string, o state.Options) (answers int64, err error) {
	seen, err := state.Peek(ctx, folder, o)
	if err != nil {
		return 0, err
	}
	answers, err = seen.Journal.End()
	return answers, errors.Join(err, seen.Close())
}

// sumFile returns the size and the SHA-256 of a file.
func sumFile(path string) (bytes int64, sum string, err error) {
	file, err := os.Open(path)
	if err != nil {
		return 0, "", err
	}
	hash := sha256.New()
	bytes, err = io.Copy(hash, file)
	return bytes, hex.EncodeToString(hash.Sum(nil)), errors.Join(err, file.Close())
}

// readManifest returns the manifest of a place and the version of its content there.
func readManifest(ctx context.Context, from Place) (m Manifest, version string, err error) {
	file, version, err := from.Open(ctx, manifestName)
	if err != nil {
		return m, "", err
	}
	text, err := io.ReadAll(io.LimitReader(file, mostOfManifest))
	if err := errors.Join(err, file.Close()); err != nil {
		return m, "", err
	}
	err = json.Unmarshal(text, &m)
	switch {
	case err != nil:
		err = fmt.Errorf("%s in %s is damaged (%w): use another backup, or move it away to make a new one there",
			manifestName, from, err)
	case m.Version != formatVersion:
		err = fmt.Errorf("%s in %s is of version %d, and this program knows version %d: use the program that made it",
			manifestName, from, m.Version, formatVersion)
	case !ours.MatchString(m.File) || m.File != filepath.Base(m.File):
		err = fmt.Errorf("%s in %s names a file that is not of a backup: %q", manifestName, from, m.File)
	}
	return m, version, err
}

// findManifest reads the manifest of a place and fails if there is none.
func findManifest(ctx context.Context, from Place) (Manifest, error) {
	m, _, err := readManifest(ctx, from)
	if errors.Is(err, fs.ErrNotExist) {
		err = fmt.Errorf("there is no backup in %s: %w", from, err)
	}
	return m, err
}

// Verify reads a whole backup and compares it with its checksum.
func Verify(ctx context.Context, from Place) (Manifest, error) {
	m, err := findManifest(ctx, from)
	if err != nil {
		return m, err
	}
	return m, m.fetchState(ctx, from, io.Discard)
}

// fetchState copies the state out of a backup. After an error the copy must not be used.
func (m Manifest) fetchState(ctx context.Context, from Place, to io.Writer) error {
	file, _, err := from.Open(ctx, m.File)
	if errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("the backup in %s is damaged: %s is missing; "+
			"if another backup was made there meanwhile, run the command again, or else use another backup",
			from, m.File)
	}
	if err != nil {
		return err
	}
	hash := sha256.New()
	n, err := io.Copy(io.MultiWriter(hash, to), io.LimitReader(file, m.Bytes+1))
	if err := errors.Join(err, file.Close()); err != nil {
		return err
	}
	if n != m.Bytes || hex.EncodeToString(hash.Sum(nil)) != m.Sum {
		return fmt.Errorf("the backup in %s is damaged: %s does not match its checksum; use another backup",
			from, m.File)
	}
	return nil
}

// ExistsError is the error of a restore into a folder that already has a state.
type ExistsError struct{ Path string }

func (e *ExistsError) Error() string {
	return fmt.Sprintf("%s already exists and records what was spent: move it away before you restore", e.Path)
}

// Restore copies a backup into a state folder that must not exist yet. settle is called with the
// state before it is moved there; if it fails, or the process is killed, no state is created.
func Restore(ctx context.Context, from Place, to string, o state.Options,
	settle func(*state.Store, Manifest) error) (m Manifest, err error) {
	if _, err := os.Lstat(to); !errors.Is(err, fs.ErrNotExist) {
		return m, errors.Join(err, &ExistsError{Path: to})
	}
	if m, err = findManifest(ctx, from); err != nil {
		return m, err
	}
	above := filepath.Dir(to)
	if err := os.MkdirAll(above, 0o755); err != nil {
		return m, err
	}
	release, err := lockFolder(above)
	if err != nil {
		return m, err
	}
	defer func() { err = errors.Join(err, release()) }()
	made := to + ".restore"
	if err := os.RemoveAll(made); err != nil { // left by a restore that was killed
		return m, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(made)) }()
	if err := os.MkdirAll(made, 0o700); err != nil {
		return m, err
	}
	if err := m.fetchFile(ctx, from, filepath.Join(made, "state.db")); err != nil {
		return m, err
	}
	restored, err := state.Open(ctx, made, o)
	if err != nil {
		return m, err
	}
	_, err = restored.Check(ctx)
	if err == nil {
		err = restored.Restored()
	}
	if err == nil {
		err = settle(restored, m)
	}
	if err := errors.Join(err, restored.Close()); err != nil {
		return m, err
	}
	return m, durable.Rename(made, to)
}

// fetchFile writes the state of a backup to a file.
func (m Manifest) fetchFile(ctx context.Context, from Place, path string) error {
	return durable.Write(path, 0o600, func(to *os.File) error { return m.fetchState(ctx, from, to) })
}
