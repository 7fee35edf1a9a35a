// Package backup copies the state to another place and restores it. A backup contains the ledger
// and the journal; the sinks are rebuilt from the journal.
//
// A place has the newest backups of one state. The name of a copy says all that is known of it, with its
// checksum, and a copy appears under its name once it is complete. So a killed backup leaves the previous
// ones intact. Outdated copies and remains of killed backups are removed afterwards.
package backup

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"outlierd/internal/durable"
	"outlierd/internal/sealed"
	"outlierd/sync/state"
)

// Backup is one copy of the state, as its name describes it.
type Backup struct {
	At      time.Time `json:"at"`
	Answers int64     `json:"answers"`         // the last one of the journal
	File    string    `json:"file"`            // the copy of the state
	Bytes   int64     `json:"bytes,omitempty"` // of the file; 0 before it was read
	Sum     string    `json:"sum"`             // the first half of the SHA-256 of the file as it is stored

	instance string // the name of the state; "" if it had none
}

const timeForm = "20060102T150405.000000Z"

// named matches the names of backups: state-TIME-INSTANCE-ANSWERS-SUM.db, with .age if it is encrypted.
var named = regexp.MustCompile(`^state-(\d{8}T\d{6}\.\d{6}Z)-([0-9a-f]*)-(\d{1,18})-([0-9a-f]{32})\.db(\.age)?$`)

// Encrypted reports whether a backup is encrypted.
func (b *Backup) Encrypted() bool { return strings.HasSuffix(b.File, ".age") }

// isOther reports whether two backups are of different states.
func (b *Backup) isOther(than Backup) bool {
	return b.instance != "" && than.instance != "" && b.instance != than.instance
}

// parseName returns the backup with a name, and whether it is the name of one.
func parseName(name string) (b Backup, ok bool) {
	part := named.FindStringSubmatch(name)
	if part == nil {
		return b, false
	}
	at, err := time.Parse(timeForm, part[1])
	answers, _ := strconv.ParseInt(part[3], 10, 64) // it has digits only
	return Backup{At: at, Answers: answers, File: name, Sum: part[4], instance: part[2]}, err == nil
}

// listBackups returns the backups of a place, the newest as the last one, and what killed ones have left.
func listBackups(ctx context.Context, in Place) (all []Backup, remains []string, err error) {
	names, remains, err := in.Names(ctx)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, nil, err
	}
	for _, name := range names {
		if b, ok := parseName(name); ok {
			all = append(all, b)
		}
	}
	slices.SortFunc(all, func(a, b Backup) int { return cmp.Or(a.At.Compare(b.At), cmp.Compare(a.File, b.File)) })
	return all, remains, nil
}

// Options say how a backup is made.
type Options struct {
	State      state.Options
	Recipients []string // to which it is encrypted; none for a plain copy
	Temp       string   // a folder of the data, where the copy is made that is then encrypted
	Keep       int      // how many backups stay; 0 for as many as there were, at first one
	Known      bool     // earlier backups were made there, so they must still be there
}

// Write copies the state in a folder to another place; the state may be in use meanwhile. Once the new
// backup was read back, the oldest ones beyond those to keep are removed.
func Write(ctx context.Context, from string, to Place, o Options) (made Backup, err error) {
	before, _, err := listBackups(ctx, to) // before Hold makes the folder
	if err == nil && len(before) == 0 && o.Known {
		err = fmt.Errorf("%s has no backup, although backups were made there: mount its disk or correct the "+
			"address; if they are gone for good, 'outlierd backup' by hand begins anew", to)
	}
	if err != nil {
		return made, err
	}
	release, err := to.Hold()
	if err != nil {
		return made, err
	}
	defer func() { err = errors.Join(err, release()) }()
	before, remains, err := listBackups(ctx, to)
	if err != nil {
		return made, err
	}
	if made, err = putState(ctx, from, to, before, o); err != nil {
		return made, err
	}
	if made.Bytes, err = made.fetch(ctx, to, nil, io.Discard); err != nil {
		return made, errors.Join(err, to.Remove(ctx, made.File))
	}
	older, _, err := listBackups(ctx, to) // another backup may have ended meanwhile
	older = slices.DeleteFunc(older, func(b Backup) bool { return !b.At.Before(made.At) || b.isOther(made) })
	keep := max(1, cmp.Or(o.Keep, len(before)))
	for _, b := range older[:max(0, len(older)+1-keep)] {
		remains = append(remains, b.File)
	}
	for _, name := range remains {
		err = errors.Join(err, to.Remove(ctx, name))
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

// putState copies the state to a place. It refuses a place with backups of another state, or of a newer one.
func putState(ctx context.Context, from string, to Place, before []Backup, o Options) (b Backup, err error) {
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
	b.At = time.Now().UTC().Truncate(time.Microsecond)
	path := filepath.Join(plain, "state.db")
	if err := state.Copy(ctx, from, path, o.State); err != nil {
		return b, err
	}
	if err = b.describe(ctx, plain, o.State); err != nil {
		return b, err
	}
	if err := b.checkPlace(from, to, before); err != nil {
		return b, err
	}
	if len(o.Recipients) > 0 {
		path = filepath.Join(temp, "state.db.age")
		if err := seal(filepath.Join(plain, "state.db"), path, o.Recipients); err != nil {
			return b, err
		}
	}
	if b.Sum, err = sumFile(path); err != nil {
		return b, err
	}
	b.File = fmt.Sprintf("state-%s-%s-%d-%s%s", b.At.Format(timeForm), b.instance, b.Answers, b.Sum,
		strings.TrimPrefix(filepath.Base(path), "state"))
	if err = to.Put(ctx, path, b.File); err != nil {
		_ = to.Remove(ctx, b.File) // else the next backup does
	}
	return b, err
}

// checkPlace returns an error for a place with backups of another state, or of a newer one. If the clock was set back,
// it moves the time of the backup behind that of the last one.
func (b *Backup) checkPlace(from string, to Place, before []Backup) error {
	if len(before) == 0 {
		return nil
	}
	last := before[len(before)-1]
	if !b.At.After(last.At) {
		b.At = last.At.Add(time.Microsecond)
	}
	switch {
	case slices.ContainsFunc(before, b.isOther):
		return fmt.Errorf("%s has the backups of another data folder: keep those of %s in another place", to, from)
	case b.Answers < last.Answers: // the journal only grows, so this is another state
		return fmt.Errorf("the backup in %s of %s has %d answers, and the state in %s has %d, "+
			"so it is another one or an older one: keep its backup in another place, "+
			"or move what is there away", to, last.At.Format(time.RFC3339), last.Answers, from, b.Answers)
	}
	return nil
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

// sumOf returns the first half of a SHA-256, which suffices against damage.
func sumOf(h hash.Hash) string { return hex.EncodeToString(h.Sum(nil)[:16]) }

// sumFile returns the checksum of a file.
func sumFile(path string) (sum string, err error) {
	file, err := os.Open(path)
	if err != nil {
		return "", err
	}
	hash := sha256.New()
	_, err = io.Copy(hash, file)
	return sumOf(hash), errors.Join(err, file.Close())
}

// Which says which backup of a place to read, and with what.
type Which struct {
	File     string           // "" for the newest
	Identity *sealed.Identity // nil without one

	// Ask asks a person for the identity of an encrypted backup; nil where that is not possible.
	Ask func() (*sealed.Identity, error)
}

// find returns a backup of a place.
func (w Which) find(ctx context.Context, from Place) (b Backup, err error) {
	all, _, err := listBackups(ctx, from)
	if err == nil && len(all) == 0 {
		err = fmt.Errorf("there is no backup in %s: %w", from, fs.ErrNotExist)
	}
	if err != nil {
		return b, err
	}
	i := len(all) - 1
	if w.File != "" {
		i = slices.IndexFunc(all, func(b Backup) bool { return b.File == w.File })
	}
	if i < 0 {
		var names []string
		for _, b := range all {
			names = append(names, b.File)
		}
		return b, fmt.Errorf("%s has no backup %q, only %s", from, w.File, strings.Join(names, ", "))
	}
	return all[i], nil
}

// Newest returns the newest backup of a place, without reading it.
func Newest(ctx context.Context, from Place) (Backup, error) { return Which{}.find(ctx, from) }

// Verify reads a whole backup and compares it with its checksum. With an identity it is decrypted, too.
func Verify(ctx context.Context, from Place, which Which) (Backup, error) {
	b, err := which.find(ctx, from)
	if err != nil {
		return b, err
	}
	b.Bytes, err = b.fetch(ctx, from, which.Identity, io.Discard)
	return b, err
}

// fetch copies the state out of a backup, and returns the size of that. Without an identity it stays encrypted. After
// an error the copy must not be used.
func (b Backup) fetch(ctx context.Context, from Place, identity *sealed.Identity, to io.Writer) (size int64, err error) {
	file, _, err := from.Open(ctx, b.File)
	if errors.Is(err, fs.ErrNotExist) {
		return 0, fmt.Errorf("%s in %s is missing: if another backup was made there meanwhile, try again, "+
			"or else use another backup", b.File, from)
	}
	if err != nil {
		return 0, err
	}
	hash := sha256.New()
	stored := &attempt{from: io.TeeReader(file, hash)}
	plain := io.Reader(stored)
	if identity != nil && b.Encrypted() {
		plain, err = identity.Reader(stored)
	}
	if err == nil {
		_, err = io.Copy(to, plain)
	}
	_, rest := io.Copy(io.Discard, stored) // what was not decrypted counts, too
	switch unread := errors.Join(stored.err, file.Close()); {
	case unread != nil:
		return 0, unread
	case rest != nil || sumOf(hash) != b.Sum:
		return 0, fmt.Errorf("the backup in %s is damaged: %s does not match its checksum; use another backup",
			from, b.File)
	case errors.Is(err, sealed.ErrOther):
		return 0, b.lockedError(from, err.Error())
	}
	return stored.size, err
}

// attempt remembers how much of a file was read, and why it could not be read, whatever its reader makes of that.
type attempt struct {
	from io.Reader
	size int64
	err  error
}

func (a *attempt) Read(p []byte) (n int, err error) {
	if a.err != nil {
		return 0, a.err
	}
	n, err = a.from.Read(p)
	if a.size += int64(n); err != nil && err != io.EOF {
		a.err = err
	}
	return n, err
}

// lockedError returns the error that an encrypted backup cannot be read.
func (b Backup) lockedError(from Place, why string) error {
	return fmt.Errorf("%s in %s cannot be read: %s: pass the identity file of one of its recipients as --identity FILE",
		b.File, from, why)
}

// Restore copies a backup into a state folder that must not exist yet. settle is called with the
// state before it is moved there; if it fails, or the process is killed, no state is created.
func Restore(ctx context.Context, from Place, which Which, to string, o state.Options,
	settle func(*state.Store, Backup) error) (b Backup, err error) {
	if _, err := os.Lstat(to); !errors.Is(err, fs.ErrNotExist) {
		return b, errors.Join(err,
			fmt.Errorf("%s already exists and records what was spent: move it away before you restore", to))
	}
	if b, err = which.find(ctx, from); err != nil {
		return b, err
	}
	if b.Encrypted() && which.Identity == nil {
		if which.Ask == nil {
			return b, b.lockedError(from, "it is encrypted, and no identity was given")
		}
		if which.Identity, err = which.Ask(); err != nil {
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
		b.Bytes, err = b.fetch(ctx, from, which.Identity, to)
		return err
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
