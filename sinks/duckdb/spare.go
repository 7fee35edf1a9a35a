//go:build duckdb_arrow

package duckdb

import (
	"bytes"
	"cmp"
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

	"outlierd/sinks/duckdb/database"
)

// A publication keeps the file that it replaces as the spare, beside the published one. The spare lacks
// the changes that DuckDB made to the private file for two publications. DuckDB records every write, so
// the next publication writes only these changes to the spare, and then exchanges the names of the spare
// and the published file.
//
// A file that a program has open is never modified: the spare is written under a [lease]. If that is not
// granted, or if a file has changed in the meantime, the spare is discarded and a whole copy is made. So
// the record of changes only saves work, and correctness never depends on it.

// copies records the state of the private file, the published one and the spare. It is invalid once one
// of them differs from its recorded identity.
type copies struct {
	Private, Published, Spare identity
	Declared                  string // fingerprint of the declarations that the private file has
	Since                     spans  // ranges of the private file that were written since it was published
	Behind                    spans  // ranges of the published file that were written since the spare was published
}

// identity identifies the content of a file: it changes when the content does, or when another file takes
// its path.
type identity struct {
	Device, Inode uint64
	Size, Changed int64  // Changed is in nanoseconds
	Headers       string // SHA-256 of DuckDB's headers; each checkpoint writes one of them
}

// headersSize is the size of the headers at the start of a DuckDB file, in bytes. Blocks follow.
const headersSize = 3 * 4096

// identify returns the identity of a regular file; the zero identity if there is none at path.
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
		Device: uint64(stat.Dev), Inode: stat.Ino, Size: stat.Size, Changed: stat.Ctim.Nano(),
		Headers: hex.EncodeToString(sum[:]),
	}, nil
}

// sparePath is beside the published file, because only files of one file system can exchange their names.
func (o Options) sparePath() string { return SpareOf(o.Published) }

// copiesPath returns the path of the stored [copies].
func (o Options) copiesPath() string { return o.Private + ".copies" }

// recordPath returns the path of the file in which DuckDB records its writes to the private file until
// [Sink.settle].
func (o Options) recordPath() string { return o.Private + ".writes.csv" }

// discardSpare removes the spare, so the next publication makes a whole copy.
func (o Options) discardSpare() error {
	return errors.Join(remove(o.sparePath()), remove(o.copiesPath()))
}

// loadCopies reads what an earlier process has recorded. An unreadable record counts as missing.
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

// checkPrivate forgets the copies if the private file, which is about to be attached, was changed since this
// instance detached it or, before that, since its writes were last noted: an instance wrote to it and was
// killed or discarded, so the record of its writes is lost.
func (s *Sink) checkPrivate() error {
	if s.copies == nil {
		return nil
	}
	private, err := identify(s.options.Private)
	if err == nil && private != cmp.Or(s.in.left, s.copies.Private) {
		s.copies = nil
	}
	return err
}

// detach detaches the private file. The instance stays, and with it the record of its writes.
func (s *Sink) detach(ctx context.Context) error {
	err := s.in.detach(ctx)
	if err == nil {
		s.in.left, err = identify(s.options.Private)
	}
	if err != nil {
		return s.abandon(err)
	}
	return nil
}

// settle detaches the private file, notes what the instance has written to it and closes the instance: its
// memory and the record of its writes grow the longer it runs.
func (s *Sink) settle(ctx context.Context) error {
	if err := s.detach(ctx); err != nil {
		return err
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
		s.copies.Since, s.copies.Private = s.copies.Since.with(parts), s.in.left
	}
	return s.Close()
}

// show publishes a copy of the private file, which must be detached. If the process is killed meanwhile,
// the record no longer matches the files, and the next publication makes a whole copy.
func (s *Sink) show() error {
	spare, published := s.options.sparePath(), s.options.Published
	if err := checkFile(published, elsewhere); err != nil { // before a large file is copied for nothing
		return err
	}
	known := s.copies
	s.copies = nil
	current, err := s.catchUp(known)
	if err == nil && !current {
		err = copyVerified(s.options.Private, spare, 0o444)
	}
	if err != nil {
		return errors.Join(err, remove(spare))
	}
	shown, err := identify(published)
	if err != nil {
		return err
	}
	// A log beside the published file comes from a program that opened it for writing. DuckDB would
	// replay it into the new file.
	if err := remove(published + ".wal"); err != nil {
		return err
	}
	if err := exchange(spare, published); err != nil {
		return errors.Join(err, remove(spare))
	}
	if info, err := os.Lstat(spare); err == nil && !info.Mode().IsRegular() { // put there since the check
		return errors.Join(fmt.Errorf("it was replaced by a %s meanwhile", describe(info.Mode())),
			exchange(spare, published), remove(spare))
	}
	next := copies{Declared: s.fingerprint}
	if known != nil && known.Published == shown {
		next.Behind = known.Since
	} else if err := remove(spare); err != nil { // what it lacks is unknown
		return err
	}
	if err := syncFolder(filepath.Dir(published)); err != nil {
		return err
	}
	return s.remember(next)
}

// remember records the identities of the files after a publication.
func (s *Sink) remember(next copies) (err error) {
	err = os.Chmod(s.options.sparePath(), 0o600)
	if errors.Is(err, unix.EPERM) { // made by another user, on a volume that belongs to a group
		err = remove(s.options.sparePath())
	}
	if err != nil && !os.IsNotExist(err) {
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

// maxCatchUp is the maximum number of bytes written to the spare: longer writes might outlast the
// [lease].
const maxCatchUp = 256 << 20

// catchUp writes to the spare what it lacks of the private file. It reports whether the spare is now
// identical to the private file.
func (s *Sink) catchUp(known *copies) (current bool, err error) {
	if known == nil {
		return false, nil
	}
	lacks := known.Behind.with(known.Since)
	spare, err := identify(s.options.sparePath())
	if err != nil || spare == (identity{}) || spare != known.Spare || lacks.bytes() > maxCatchUp {
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
	if err := database.Verify(from, lacks.overlap); err != nil {
		return false, err
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

// sameHeaders reports whether the headers are equal. They differ if DuckDB made a checkpoint without
// recording it.
func sameHeaders(a, b *os.File) (bool, error) {
	var both [2][headersSize]byte
	for i, f := range []*os.File{a, b} {
		if _, err := f.ReadAt(both[i][:], 0); err != nil {
			return false, fmt.Errorf("compare headers: %w", err)
		}
	}
	return bytes.Equal(both[0][:], both[1][:]), nil
}
