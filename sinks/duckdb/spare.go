//go:build duckdb_arrow

package duckdb

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// The file that a publication replaces is kept beside the published one, as the spare. It lacks the
// changes that DuckDB made to the private file during two publications. DuckDB records every write,
// so the next publication writes only these changes to the spare, and then exchanges the names of
// the spare and the published file.
//
// A file that a program has open is never modified: the spare is written under a [lease]. If that
// is refused, or if a file has changed since, the spare is discarded and a whole copy is made. So
// the record of changes only saves work.

// copies describes the copies of the private file. It is invalid once one of the three files is not
// the recorded one.
type copies struct {
	Private, Published, Spare identity
	Declared                  string // the fingerprint of the declarations that the private file has
	Since                     spans  // parts of the private file that were written since it was published
	Behind                    spans  // parts of the published file that were written since the spare was published
}

// identity changes when the content of a file changes, or the file at a path is replaced.
type identity struct {
	Device, Inode uint64
	Size, Changed int64  // Changed is in nanoseconds
	Headers       string // SHA-256 of DuckDB's headers, one of which each checkpoint writes
}

// headersSize is where the headers of a DuckDB file end and its blocks begin, in bytes.
const headersSize = 3 * 4096

// identify returns the zero identity if there is no such file, or something else in its place.
func identify(path string) (identity, error) {
	if info, err := os.Stat(path); err == nil && !info.Mode().IsRegular() {
		return identity{}, nil
	}
	f, err := os.Open(path)
	if os.IsNotExist(err) {
		return identity{}, nil
	}
	if err != nil {
		return identity{}, err
	}
	defer f.Close()
	var stat unix.Stat_t
	if err := unix.Fstat(int(f.Fd()), &stat); err != nil {
		return identity{}, &os.PathError{Op: "stat", Path: path, Err: err}
	}
	head, err := io.ReadAll(io.NewSectionReader(f, 0, headersSize))
	if err != nil {
		return identity{}, err
	}
	sum := sha256.Sum256(head)
	return identity{
		Device: uint64(stat.Dev), Inode: stat.Ino, Size: stat.Size, Changed: stat.Ctim.Nano(), Headers: hex.EncodeToString(sum[:]),
	}, nil
}

// sparePath is beside the published file, as only files of one file system can exchange their names.
func (o Options) sparePath() string { return SpareOf(o.Published) }

// copiesPath is where [copies] are kept from one process to the next.
func (o Options) copiesPath() string { return o.Private + ".copies" }

// recordPath is where DuckDB records what it writes into the private file, until that is settled.
func (o Options) recordPath() string { return o.Private + ".writes.csv" }

// discardSpare removes the spare, so that the next publication makes a whole copy.
func (o Options) discardSpare() error {
	return errors.Join(remove(o.sparePath()), remove(o.copiesPath()))
}

// loadCopies reads what the process before knew. A record that cannot be read is as one that is missing.
func (s *Sink) loadCopies() {
	s.copies = nil
	text, err := os.ReadFile(s.options.copiesPath())
	if err != nil {
		return
	}
	var known copies
	if json.Unmarshal(text, &known) == nil {
		s.copies = &known
	}
}

func (s *Sink) saveCopies() error {
	text, err := json.Marshal(s.copies)
	if err != nil {
		return err
	}
	temp := s.options.copiesPath() + ".new"
	if err := os.WriteFile(temp, text, 0o600); err != nil {
		return err
	}
	return os.Rename(temp, s.options.copiesPath())
}

// checkPrivate forgets the copies if the private file, which is about to be attached, is not as it was
// left: a process that was killed has written into it, and its record of that is lost.
func (s *Sink) checkPrivate() error {
	if s.copies == nil {
		return nil
	}
	private, err := identify(s.options.Private)
	if err == nil && private != s.copies.Private {
		s.copies = nil
	}
	return err
}

// settle detaches the private file, and notes what DuckDB has written into it. The instance ends with
// that: it keeps more memory the longer it lives, and the record grows.
func (s *Sink) settle(ctx context.Context) error {
	if err := s.in.detach(ctx); err != nil {
		return s.abandon(err)
	}
	written, err := s.in.db.Written(ctx, s.options.recordPath(), s.options.Private)
	if err == nil {
		err = remove(s.options.recordPath())
	}
	if err != nil {
		return s.abandon(err)
	}
	if s.copies != nil {
		var parts spans
		for _, w := range written {
			parts = append(parts, span{From: w.At, To: w.At + w.Bytes})
		}
		s.copies.Since = s.copies.Since.with(parts)
		if s.copies.Private, err = identify(s.options.Private); err != nil {
			return s.abandon(err)
		}
	}
	return s.Close()
}

// show puts a copy of the private file, which is detached, in the place of the published one. If it is
// killed on the way, the record fits the files no longer, and the next copy is a whole one.
func (s *Sink) show() error {
	known := s.copies
	s.copies = nil
	spare, published := s.options.sparePath(), s.options.Published
	current, err := s.catchUp(known)
	if err == nil && !current {
		err = copyFile(s.options.Private, spare, 0o444)
	}
	if err != nil {
		return errors.Join(err, remove(spare))
	}
	shown, err := identify(published)
	if err != nil {
		return err
	}
	// A log beside the published file is not ours: a program that opened it for writing
	// left it, and DuckDB would replay it into the new one.
	if err := remove(published + ".wal"); err != nil {
		return err
	}
	if err := exchange(spare, published); err != nil {
		return errors.Join(err, remove(spare))
	}
	next := copies{Declared: s.fingerprint}
	if known != nil && known.Published == shown {
		next.Behind = known.Since
	} else if err := remove(spare); err != nil { // what it lacks is not known
		return err
	}
	if err := syncFolder(filepath.Dir(published)); err != nil {
		return err
	}
	return s.remember(next)
}

// remember records the identities of the files after a publication.
func (s *Sink) remember(next copies) (err error) {
	if err := os.Chmod(s.options.sparePath(), 0o600); err != nil && !os.IsNotExist(err) {
		return err
	}
	for path, id := range map[string]*identity{
		s.options.Private: &next.Private, s.options.Published: &next.Published, s.options.sparePath(): &next.Spare,
	} {
		if *id, err = identify(path); err != nil {
			return err
		}
	}
	s.copies = &next
	return s.saveCopies()
}

// mostCaughtUp is how many bytes are written into the spare at most, so that its [lease] is not broken.
const mostCaughtUp = 256 << 20

// catchUp writes into the spare what it lacks of the private file, and reports whether it could: then
// the two are the same.
func (s *Sink) catchUp(known *copies) (current bool, err error) {
	if known == nil {
		return false, nil
	}
	lacks := known.Behind.with(known.Since)
	spare, err := identify(s.options.sparePath())
	if err != nil || spare == (identity{}) || spare != known.Spare || lacks.bytes() > mostCaughtUp {
		return false, err
	}
	from, err := os.Open(s.options.Private)
	if err != nil {
		return false, err
	}
	defer from.Close()
	to, err := os.OpenFile(s.options.sparePath(), os.O_RDWR, 0)
	if err != nil {
		return false, err
	}
	defer func() { err = errors.Join(err, to.Close()) }()
	if !lease(to) {
		return false, nil
	}
	if err := copyParts(from, to, lacks); err != nil {
		return false, err
	}
	same, err := sameHeaders(from, to)
	if err != nil || !same {
		return false, err
	}
	if err := errors.Join(to.Chmod(0o444), to.Sync()); err != nil {
		return false, err
	}
	return leased(to), nil
}

func copyParts(from, to *os.File, parts spans) error {
	info, err := from.Stat()
	if err != nil {
		return err
	}
	if err := to.Truncate(info.Size()); err != nil {
		return err
	}
	buffer := make([]byte, 1<<20)
	for _, part := range parts {
		part.To = min(part.To, info.Size()) // the file may have become shorter
		for at := part.From; at < part.To; {
			n, err := from.ReadAt(buffer[:min(int64(len(buffer)), part.To-at)], at)
			if err != nil {
				return err
			}
			if _, err := to.WriteAt(buffer[:n], at); err != nil {
				return err
			}
			at += int64(n)
		}
	}
	return nil
}

// sameHeaders compares the headers. They differ if DuckDB has made a checkpoint that it did not record.
func sameHeaders(a, b *os.File) (bool, error) {
	var both [2][headersSize]byte
	for i, f := range []*os.File{a, b} {
		if _, err := f.ReadAt(both[i][:], 0); err != nil {
			return false, fmt.Errorf("compare headers: %w", err)
		}
	}
	return bytes.Equal(both[0][:], both[1][:]), nil
}
