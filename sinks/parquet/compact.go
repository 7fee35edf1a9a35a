package parquet

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"path"
	"slices"
	"time"

	"github.com/apache/arrow-go/v18/arrow"
	"golang.org/x/sys/unix"

	"outlierd/schema"
)

// # Compaction
//
// Each batch adds a small part to the folder of its day. Once a day is over its parts are merged
// into one, in a folder below _compacted, which is then exchanged atomically with that of the day:
// a reader that lists the day's folder finds either the small parts or the merged one. At the
// moment of the exchange, files listed before are gone, which most readers report as an error;
// DuckDB's glob, which checks each listed file, skips the day. Any other order of changes would
// show rows twice, and for longer. The small parts stay below _compacted for an hour, for readers
// that have them open on a network file system.
//
// A publication compacts a limited amount, and finds what to compact from the manifest, without
// reading the folders. A day whose folder has a foreign file, or lacks a file, is not compacted,
// nor is one with an unreadable part, which 'outlierd check' reports.

const (
	compactedFolder = "_compacted"

	// settled is how long after its end a day is compacted: an answer around midnight may be loaded late.
	// A still later one is compacted with the rest of its day.
	settled = 6 * time.Hour

	// kept is how long parts that were compacted are kept.
	kept = time.Hour

	// compactGroup is the number of rows in a row group of a compacted file. One group is in memory
	// at a time.
	compactGroup = 122_880

	// compactAtOnce is the approximate number of bytes of parts that a publication compacts.
	compactAtOnce = 64 << 20

	// An operations table with manyParts parts has all but the newestParts newest listed as closed.
	manyParts, newestParts = 64, 16
)

// replaced is a folder of parts that was replaced by one compacted file.
type replaced struct {
	folder string
	at     time.Time
}

// exchange is a day's folder and its new part: the folder is exchanged with the one of the same name
// below _compacted, which contains the part.
type exchange struct {
	Folder string `json:"folder"`
	Part   string `json:"part"`
}

// compact compacts days that are over, and removes the parts that were replaced over an hour ago.
func (s *Sink) compact(ctx context.Context) error {
	if err := s.removeReplaced(kept); err != nil {
		return err
	}
	room := int64(compactAtOnce)
	for _, t := range s.options.Tables {
		days := s.closing(t)
		for len(days) > 0 && room > 0 {
			n, bytes, err := s.closeDays(ctx, t, days, room)
			if err != nil {
				return fmt.Errorf("compact table %s: %w", t.Name, err)
			}
			days, room = days[n:], room-bytes
		}
	}
	for _, t := range s.options.Ops {
		if err := s.closeParts(t); err != nil {
			return fmt.Errorf("list the files of table %s: %w", t.Name, err)
		}
	}
	return nil
}

// closing returns the days of a table that are over but not compacted yet, oldest first.
func (s *Sink) closing(t *schema.Table) []string {
	today := dateOf(s.now().Add(-settled))
	days := map[string]bool{}
	for _, f := range s.state.Tables[t.FileName()].Files {
		if day := path.Dir(f.Name); dateName().MatchString(day) && day < today {
			days[day] = true
		}
	}
	return slices.Sorted(maps.Keys(days))
}

// closeDays compacts days as one step, until it has read enough bytes, and returns how many days it has
// compacted.
func (s *Sink) closeDays(ctx context.Context, t *schema.Table, days []string,
	room int64) (n int, bytes int64, err error) {
	p, table := s.begin(), t.FileName()
	closed, err := p.closedOf(table)
	if err != nil {
		return 0, 0, err
	}
	for n < len(days) && bytes < room {
		ofDay := func(f File) bool { return path.Dir(f.Name) == days[n] }
		l := p.next.Tables[table]
		parts := slices.Concat(only(closed, ofDay), only(l.Files, ofDay))
		slices.SortFunc(parts, func(a, b File) int { return int(a.Lo - b.Lo) })
		merged, err := p.merge(ctx, t, days[n], parts)
		if err != nil {
			return 0, 0, err
		}
		if merged != nil {
			for _, f := range parts {
				bytes += f.Bytes
			}
			parts = []File{*merged}
		}
		closed = append(slices.DeleteFunc(closed, ofDay), parts...)
		l.Files = slices.DeleteFunc(l.Files, ofDay)
		p.next.Tables[table] = l
		n++
	}
	p.closed[table] = closed
	if err := p.commit(); err != nil {
		return 0, 0, err
	}
	for _, e := range p.next.Exchanges {
		old := path.Join(compactedFolder, e.Folder)
		s.replaced = slices.DeleteFunc(s.replaced, func(r replaced) bool { return r.folder == old })
		s.replaced = append(s.replaced, replaced{old, s.now()})
	}
	return n, bytes, nil
}

func only(files []File, is func(File) bool) (some []File) {
	for _, f := range files {
		if is(f) {
			some = append(some, f)
		}
	}
	return some
}

// merge merges the parts of a day into one file, which will replace them; nil if the day stays as it is.
func (p *step) merge(ctx context.Context, t *schema.Table, day string, parts []File) (*File, error) {
	folder := path.Join(t.FileName(), day)
	if whole, err := p.sink.mergeable(folder, parts); err != nil || !whole {
		return nil, err
	}
	made := path.Join(compactedFolder, folder)
	if err := p.sink.removeFolder(made); err != nil { // of a compaction less than an hour ago
		return nil, err
	}
	if err := p.makeFolder(made); err != nil {
		return nil, err
	}
	f := File{Lo: parts[0].Lo, Hi: parts[len(parts)-1].Hi}
	f.Name = path.Join(day, partOf(f.Lo, f.Hi))
	unreadable := false
	var err error
	f.Bytes, f.SHA256, err = p.sink.create(path.Join(made, path.Base(f.Name)), func(w io.Writer) (err error) {
		f.Rows, err = p.sink.encode(w, t, f, compactGroup, func(put func(arrow.RecordBatch) error) error {
			unwritten := false
			for _, part := range parts {
				if err := p.sink.verifyFile(t, part); err != nil {
					unreadable = true
					return err
				}
				err := p.sink.decode(ctx, t, path.Join(t.FileName(), part.Name), nil, func(rows arrow.RecordBatch) error {
					err := put(rows)
					unwritten = unwritten || err != nil
					return err
				})
				if err != nil {
					unreadable = !unwritten && ctx.Err() == nil
					return err
				}
			}
			return nil
		})
		return err
	})
	if unreadable || err == nil && !p.sink.movable(folder, made) {
		delete(p.folders, made)
		return nil, p.sink.removeFolder(made)
	}
	if err != nil {
		return nil, err
	}
	p.next.Exchanges = append(p.next.Exchanges, exchange{Folder: folder, Part: path.Base(f.Name)})
	return &f, nil
}

// movable reports whether a folder can be renamed, which overlayfs refuses for one in a lower layer. It tries to
// rename it to one that is not empty, which no file system does.
func (s *Sink) movable(folder, full string) bool {
	here, err := s.root.Open(".")
	if err != nil {
		return false
	}
	defer here.Close()
	return !errors.Is(unix.Renameat(int(here.Fd()), folder, int(here.Fd()), full), unix.EXDEV)
}

// mergeable reports whether a day has several parts, and its folder contains exactly these.
func (s *Sink) mergeable(folder string, parts []File) (bool, error) {
	if len(parts) < 2 {
		return false, nil
	}
	if info, err := s.root.Lstat(folder); err != nil || !info.IsDir() {
		return false, ignoreMissing(err)
	}
	entries, err := s.readFolder(folder)
	if err != nil || len(entries) != len(parts) {
		return false, err
	}
	for _, f := range parts {
		isFile := func(e fs.DirEntry) bool { return e.Name() == path.Base(f.Name) && e.Type().IsRegular() }
		if !slices.ContainsFunc(entries, isFile) {
			return false, nil
		}
	}
	return s.exchanges(path.Dir(folder))
}

// exchanges reports whether folders of a table can be exchanged with those below _compacted. Some network
// file systems do not support it, and it is impossible if the table is on another disk.
func (s *Sink) exchanges(table string) (able bool, err error) {
	if able, known := s.able[table]; known {
		return able, nil
	}
	a, b := path.Join(compactedFolder, table, "probe"), path.Join(table, "probe")
	if err := errors.Join(s.folder(a), s.folder(b)); err != nil {
		return false, err
	}
	err = s.exchange(a, b)
	if able = err == nil; cannotExchange(err) {
		err = nil
	}
	if err = errors.Join(err, s.removeFolder(a), s.removeFolder(b)); err == nil {
		s.able[table] = able
	}
	return able, err
}

// cannotExchange reports whether err means that folders cannot exchange their names: the file system does not
// support it (NFS, older ZFS, many of FUSE), they are on different disks, or one is in a lower layer of overlayfs.
func cannotExchange(err error) bool {
	return errors.Is(err, unix.EINVAL) || errors.Is(err, unix.ENOSYS) || errors.Is(err, unix.EOPNOTSUPP) ||
		errors.Is(err, unix.EXDEV)
}

// closeParts moves the older parts of an operations table to the list of closed files, which is
// rarely rewritten.
func (s *Sink) closeParts(t *schema.Table) error {
	table := t.FileName()
	if len(s.state.Tables[table].Files) < manyParts {
		return nil
	}
	p := s.begin()
	closed, err := p.closedOf(table)
	if err != nil {
		return err
	}
	l := p.next.Tables[table]
	older := only(l.Files, func(f File) bool { return isPart(f.Name) })
	older = older[:max(0, len(older)-newestParts)]
	if len(older) == 0 {
		return nil
	}
	l.Files = slices.DeleteFunc(l.Files, func(f File) bool { return indexOf(older, f.Name) >= 0 })
	p.next.Tables[table] = l
	p.closed[table] = append(closed, older...)
	return p.commit()
}

// removeReplaced removes the parts that were replaced at least the given time ago. For 0 it removes all
// of them, and what an interrupted compaction has left.
func (s *Sink) removeReplaced(ago time.Duration) error {
	if ago == 0 {
		s.replaced = nil
		tables, err := s.readFolder(compactedFolder)
		if err != nil {
			return err
		}
		for _, t := range tables {
			days, err := s.readFolder(path.Join(compactedFolder, t.Name()))
			if err != nil {
				return err
			}
			for _, day := range days {
				if err := s.removeFolder(path.Join(compactedFolder, t.Name(), day.Name())); err != nil {
					return err
				}
			}
		}
		return nil
	}
	for len(s.replaced) > 0 && s.now().Sub(s.replaced[0].at) >= ago {
		if err := s.removeFolder(s.replaced[0].folder); err != nil {
			return err
		}
		s.replaced = s.replaced[1:]
	}
	return nil
}

// removeFolder removes a folder of parts, except files of other programs.
func (s *Sink) removeFolder(name string) error {
	entries, err := s.readFolder(name)
	if err != nil {
		return err
	}
	for _, e := range entries {
		if isPart(e.Name()) {
			if err := s.remove(path.Join(name, e.Name())); err != nil {
				return err
			}
		}
	}
	if err := s.step("remove " + name); err != nil {
		return err
	}
	if err := s.root.Remove(name); err != nil && !errors.Is(err, unix.ENOTEMPTY) {
		return ignoreMissing(s.named(err))
	}
	return nil
}

func ignoreMissing(err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}
