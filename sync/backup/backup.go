// Package backup copies the state to another place and restores it. A backup contains the ledger
// and the journal; the sinks are rebuilt from the journal.
//
// A place has the newest backups of one state: copies, and a manifest with their names and checksums. The
// manifest is replaced last, atomically, so that a killed backup leaves the previous ones intact.
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
	"slices"
	"strings"
	"time"

	"outlierd/internal/durable"
	"outlierd/internal/sealed"
	"outlierd/sync/state"
)

// Manifest is the file of a place that lists its backups. It is written before the first of them, so that
// a copy that it does not list is what a killed backup left.
type Manifest struct {
	Version  int      `json:"version"`            // of this format
	Instance string   `json:"instance,omitempty"` // the name of the state, if it had one
	Keep     int      `json:"keep"`               // how many backups stay
	Backups  []Backup `json:"backups"`            // the newest is the last one
}

// Backup describes one copy of the state.
type Backup struct {
	Program string    `json:"program"` // the version of outlierd that wrote it
	At      time.Time `json:"at"`
	Answers int64     `json:"answers"` // the last one of the journal
	File    string    `json:"file"`    // the copy of the state, in the same place
	Bytes   int64     `json:"bytes"`
	Sum     string    `json:"sha256"`                 // of the file as it is stored
	Hints   []string  `json:"encrypted_to,omitempty"` // the beginnings of the recipients' keys

	instance string
}

const (
	formatVersion  = 1
	manifestName   = "backup.json"
	mostOfManifest = 1 << 20  // maximum number of bytes to read
	tempName       = ".look-" // prefix of the names of folders in which a copy is made
)

// ours matches the file names that backups create beside the manifest, complete or partial.
var ours = regexp.MustCompile(`^(state-\d{8}T\d{6}\.\d{6}Z\.db(\.age)?|` + regexp.QuoteMeta(tempName) + `)`)

// Options say how a backup is made.
type Options struct {
	State      state.Options
	Recipients []string // to which it is encrypted; none for a plain copy
	Temp       string   // a folder of the data, where the copy is made that is then encrypted
	Keep       int      // how many backups stay; 0 for as many as before, at first one
	Known      bool     // earlier backups were made there, so they must still be there
}

// Write copies the state in a folder to another place; the state may be in use meanwhile. Once the new
// backup was read back, the oldest ones beyond those to keep are removed.
func Write(ctx context.Context, from string, to Place, o Options) (made Backup, err error) {
	_, _, err = readManifest(ctx, to)
	if errors.Is(err, fs.ErrNotExist) && o.Known { // before Hold makes the folder
		return made, fmt.Errorf("%s has no %s, although backups were made there: mount its disk or correct the "+
			"address; if they are gone for good, 'outlierd backup' by hand begins anew", to, manifestName)
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return made, err
	}
	release, err := to.Hold()
	if err != nil {
		return made, err
	}
	defer func() { err = errors.Join(err, release()) }()
	m, version, err := claim(ctx, to)
	if err != nil {
		return made, err
	}
	// Existing files are removed after the manifest is replaced. Where there are no locks, another
	// backup may have written files too. It read the same manifest or an older one, so its Replace
	// fails.
	old, err := to.Names(ctx)
	if err != nil {
		return made, err
	}
	if made, err = putState(ctx, from, to, m, o); err != nil {
		return made, err
	}
	m.Keep = max(1, m.Keep)
	if o.Keep > 0 {
		m.Keep = o.Keep
	}
	if m.Instance == "" {
		m.Instance = made.instance
	}
	m.Backups = append(m.Backups, made)
	m.Backups = m.Backups[max(0, len(m.Backups)-m.Keep):]
	if err := made.fetch(ctx, to, nil, io.Discard); err != nil {
		return made, errors.Join(err, to.Remove(ctx, made.File))
	}
	err = m.replace(ctx, to, version)
	if _, overtaken := errors.AsType[*overtakenError](err); overtaken {
		err = errors.Join(err, to.Remove(ctx, made.File))
	}
	if err != nil { // otherwise the manifest may have been replaced, so the file stays
		return made, err
	}
	for _, name := range old {
		if ours.MatchString(name) && !slices.ContainsFunc(m.Backups, func(b Backup) bool { return b.File == name }) {
			err = errors.Join(err, to.Remove(ctx, name))
		}
	}
	if err != nil {
		err = &LeftError{err}
	}
	return made, err
}

// LeftError is the error of a complete backup after which old files could not be removed.
type LeftError struct{ Err error }

func (e *LeftError) Error() string {
	return "the backup is complete, but old files beside it could not be removed: " + e.Err.Error()
}

func (e *LeftError) Unwrap() error { return e.Err }

// claim reads the manifest of a place, or writes the first one. It refuses copies without a manifest.
func claim(ctx context.Context, to Place) (m Manifest, version string, err error) {
	m, version, err = readManifest(ctx, to)
	if !errors.Is(err, fs.ErrNotExist) {
		return m, version, err
	}
	names, err := to.Names(ctx)
	if err != nil {
		return m, "", err
	}
	for _, name := range names {
		if ours.MatchString(name) && !strings.HasPrefix(name, tempName) {
			return m, "", fmt.Errorf("%s has %s, but no %s: put it back, or use another place", to, name, manifestName)
		}
	}
	if err := (Manifest{Version: formatVersion}).replace(ctx, to, ""); err != nil {
		return m, "", err
	}
	return readManifest(ctx, to)
}

// replace writes the manifest, if the present one still has a version.
func (m Manifest) replace(ctx context.Context, to Place, version string) error {
	text, err := json.MarshalIndent(m, "", "  ")
	if err != nil {
		return err
	}
	_, err = to.Replace(ctx, manifestName, append(text, '\n'), version)
	if errors.Is(err, fs.ErrExist) {
		return &overtakenError{to.String()}
	}
	return err
}

// overtakenError is the error of a backup whose place has got another one meanwhile.
type overtakenError struct{ place string }

func (e *overtakenError) Error() string {
	return fmt.Sprintf("another backup to %s has ended meanwhile: that one is kept, and this one is not", e.place)
}

// putState copies the state to a place. It refuses a place with backups of another state, or of a newer one.
func putState(ctx context.Context, from string, to Place, before Manifest, o Options) (b Backup, err error) {
	temp, err := os.MkdirTemp(to.Temp(), tempName)
	if err != nil {
		return b, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(temp)) }()
	plain := temp
	if len(o.Recipients) > 0 { // only what is encrypted may leave the disk of the data
		if plain, err = os.MkdirTemp(o.Temp, tempName); err != nil {
			return b, err
		}
		defer func() { err = errors.Join(err, os.RemoveAll(plain)) }()
	}
	b = Backup{Program: o.State.Version, At: time.Now().UTC()}
	b.File = "state-" + b.At.Format("20060102T150405.000000Z") + ".db"
	path := filepath.Join(plain, "state.db")
	if err := state.Copy(ctx, from, path, o.State); err != nil {
		return b, err
	}
	if err = b.describe(ctx, plain, o.State); err != nil {
		return b, err
	}
	if before.Instance != "" && b.instance != "" && before.Instance != b.instance {
		return b, fmt.Errorf("%s has the backups of another data folder: keep those of %s in another place", to, from)
	}
	if n := len(before.Backups); n > 0 && b.Answers < before.Backups[n-1].Answers { // the journal only grows, so this is another state
		last := before.Backups[n-1]
		return b, fmt.Errorf("the backup in %s of %s has %d answers, and the state in %s has %d, "+
			"so it is another one or an older one: keep its backup in another place, "+
			"or move what is there away", to, last.At.Format(time.RFC3339), last.Answers, from, b.Answers)
	}
	if len(o.Recipients) > 0 {
		path, b.File = filepath.Join(temp, "state.db.age"), b.File+".age"
		for _, r := range o.Recipients {
			b.Hints = append(b.Hints, sealed.Hint(r))
		}
		if err := seal(filepath.Join(plain, "state.db"), path, o.Recipients); err != nil {
			return b, err
		}
	}
	if b.Bytes, b.Sum, err = sumFile(path); err != nil {
		return b, err
	}
	return b, to.Put(ctx, path, b.File)
}

// seal encrypts a file.
func seal(from, to string, recipients []string) error {
	plain, err := os.Open(from)
	if err != nil {
		return err
	}
	err = durable.Write(to, 0o600, func(file *os.File) error {
		sealing, err := sealed.Writer(file, recipients)
		if err != nil {
			return err
		}
		_, err = io.Copy(sealing, plain)
		return errors.Join(err, sealing.Close())
	})
	return errors.Join(err, plain.Close())
}

// describe sets what is known of a copy of the state: its last answer, and its name.
func (b *Backup) describe(ctx context.Context, folder string, o state.Options) error {
	seen, err := state.Peek(ctx, folder, o)
	if err != nil {
		return err
	}
	b.Answers, err = seen.Journal.End()
	if err == nil {
		b.instance, err = seen.Instance()
	}
	return errors.Join(err, seen.Close())
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
	}
	for _, b := range m.Backups {
		if !ours.MatchString(b.File) || b.File != filepath.Base(b.File) {
			return m, "", fmt.Errorf("%s in %s names a file that is not of a backup: %q", manifestName, from, b.File)
		}
	}
	return m, version, err
}

// Which says which backup of a place to read, and with what.
type Which struct {
	File     string           // "" for the newest
	Identity *sealed.Identity // nil without one

	// Ask asks a person for the identity of an encrypted backup, of which it gets the beginnings of the recipients'
	// keys; nil where that is not possible.
	Ask func(hints []string) (*sealed.Identity, error)
}

// find returns a backup of a place.
func (w Which) find(ctx context.Context, from Place) (b Backup, err error) {
	m, _, err := readManifest(ctx, from)
	if err == nil && len(m.Backups) == 0 {
		err = fs.ErrNotExist
	}
	if errors.Is(err, fs.ErrNotExist) {
		err = fmt.Errorf("there is no backup in %s: %w", from, err)
	}
	if err != nil {
		return b, err
	}
	i := len(m.Backups) - 1
	if w.File != "" {
		i = slices.IndexFunc(m.Backups, func(b Backup) bool { return b.File == w.File })
	}
	if i < 0 {
		var names []string
		for _, b := range m.Backups {
			names = append(names, b.File)
		}
		return b, fmt.Errorf("%s has no complete backup %q, only %s", from, w.File, strings.Join(names, ", "))
	}
	return m.Backups[i], nil
}

// Newest returns the newest backup of a place, without reading it.
func Newest(ctx context.Context, from Place) (Backup, error) { return Which{}.find(ctx, from) }

// Verify reads a whole backup and compares it with its checksum. With an identity it is decrypted, too.
func Verify(ctx context.Context, from Place, which Which) (Backup, error) {
	b, err := which.find(ctx, from)
	if err != nil {
		return b, err
	}
	return b, b.fetch(ctx, from, which.Identity, io.Discard)
}

// fetch copies the state out of a backup. Without an identity it stays encrypted. After an error the copy
// must not be used.
func (b Backup) fetch(ctx context.Context, from Place, identity *sealed.Identity, to io.Writer) error {
	file, _, err := from.Open(ctx, b.File)
	if errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("the backup in %s is damaged: %s is missing; "+
			"if another backup was made there meanwhile, try again, or else use another backup",
			from, b.File)
	}
	if err != nil {
		return err
	}
	hash, limited := sha256.New(), &io.LimitedReader{R: file, N: b.Bytes + 1}
	stored := &attempt{from: io.TeeReader(limited, hash)}
	plain := io.Reader(stored)
	if identity != nil && len(b.Hints) > 0 {
		plain, err = identity.Reader(stored)
	}
	if err == nil {
		_, err = io.Copy(to, plain)
	}
	_, rest := io.Copy(io.Discard, stored) // what was not decrypted counts, too
	switch unread := errors.Join(stored.err, file.Close()); {
	case unread != nil:
		return unread
	case rest != nil || limited.N != 1 || hex.EncodeToString(hash.Sum(nil)) != b.Sum:
		return fmt.Errorf("the backup in %s is damaged: %s does not match its checksum; use another backup",
			from, b.File)
	case errors.Is(err, sealed.ErrOther):
		return b.lockedError(from, err.Error())
	}
	return err
}

// attempt remembers why a file could not be read, whatever its reader makes of that.
type attempt struct {
	from io.Reader
	err  error
}

func (a *attempt) Read(p []byte) (n int, err error) {
	if a.err != nil {
		return 0, a.err
	}
	if n, err = a.from.Read(p); err != nil && err != io.EOF {
		a.err = err
	}
	return n, err
}

// lockedError returns the error that an encrypted backup cannot be read.
func (b Backup) lockedError(from Place, why string) error {
	return fmt.Errorf("%s in %s cannot be read: %s; it is encrypted to %s: pass the identity file of one of them "+
		"as --identity FILE", b.File, from, why, strings.Join(b.Hints, ", "))
}

// ExistsError is the error of a restore into a folder that already has a state.
type ExistsError struct{ Path string }

func (e *ExistsError) Error() string {
	return fmt.Sprintf("%s already exists and records what was spent: move it away before you restore", e.Path)
}

// Restore copies a backup into a state folder that must not exist yet. settle is called with the
// state before it is moved there; if it fails, or the process is killed, no state is created.
func Restore(ctx context.Context, from Place, which Which, to string, o state.Options,
	settle func(*state.Store, Backup) error) (b Backup, err error) {
	if _, err := os.Lstat(to); !errors.Is(err, fs.ErrNotExist) {
		return b, errors.Join(err, &ExistsError{Path: to})
	}
	if b, err = which.find(ctx, from); err != nil {
		return b, err
	}
	if len(b.Hints) > 0 && which.Identity == nil {
		if which.Ask == nil {
			return b, b.lockedError(from, "no identity was given")
		}
		if which.Identity, err = which.Ask(b.Hints); err != nil {
			return b, err
		}
	}
	above := filepath.Dir(to)
	if err := os.MkdirAll(above, 0o755); err != nil {
		return b, err
	}
	release, err := lockFolder(above)
	if err != nil {
		return b, err
	}
	defer func() { err = errors.Join(err, release()) }()
	made := to + ".restore"
	if err := os.RemoveAll(made); err != nil { // left by a restore that was killed
		return b, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(made)) }()
	if err := os.MkdirAll(made, 0o700); err != nil {
		return b, err
	}
	err = durable.Write(filepath.Join(made, "state.db"), 0o600, func(to *os.File) error {
		return b.fetch(ctx, from, which.Identity, to)
	})
	if err != nil {
		return b, err
	}
	restored, err := state.Open(ctx, made, o)
	if err != nil {
		return b, err
	}
	_, err = restored.Check(ctx)
	if err == nil {
		err = restored.Restored()
	}
	if err == nil {
		err = settle(restored, b)
	}
	if err := errors.Join(err, restored.Close()); err != nil {
		return b, err
	}
	return b, durable.Rename(made, to)
}
