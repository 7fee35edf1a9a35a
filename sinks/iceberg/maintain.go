//go:build iceberg

package iceberg

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/apache/iceberg-go"
	"github.com/apache/iceberg-go/table"
)

const (
	// mostOfFile is about how large a file becomes, in bytes, before another one is started.
	mostOfFile = 128 << 20

	// fewFiles and manyFiles bound when the files of a table that is replaced are merged: never below the
	// first, always above the second, and in between once the small files are worth it.
	fewFiles, manyFiles = 20, 200

	// settled is how long after its end a day's files are merged, since answers may arrive late.
	settled = time.Hour

	// orphansKept is how old a file without a snapshot must be: it may belong to a commit under way.
	orphansKept = 3 * 24 * time.Hour

	maintainedName = "maintained" // of outlierd_writers: the last day on which this writer has maintained the tables
)

// maintain merges files, so that the cost of commits and of reading does not grow with the number of commits.
// Tables that this process has written to are looked at each time, which costs nothing. The rest is done once
// a day: days that are over, expired snapshots, and files that no snapshot has.
func (s *Sink) maintain(ctx context.Context) error {
	all := slices.Concat(s.options.Tables, s.options.Ops)
	for _, t := range all {
		if l := s.tables[t]; !l.byDay() && l.crowded() {
			if err := l.merge(ctx, l.own.inOrder(l.orderID()), l.own.tombs()); err != nil {
				return fmt.Errorf("merge the files of table %s: %w", l.name(), err)
			}
		}
	}
	if err := s.writers.load(ctx); err != nil {
		return err
	}
	today := s.now().UTC().Format(time.DateOnly)
	if s.writers.table.Properties()[s.property(maintainedName)] == today {
		return nil
	}
	for _, t := range all {
		if err := s.tables[t].maintainDaily(ctx); err != nil {
			return fmt.Errorf("maintain table %s: %w", t.Name, err)
		}
	}
	if err := s.writers.expire(ctx, snapshotsKept); err != nil {
		return err
	}
	if err := s.writers.removeOrphans(ctx, orphansKept); err != nil {
		return fmt.Errorf("maintain table %s: %w", s.writers.name(), err)
	}
	return s.writers.commit(ctx, func(*table.Transaction) (iceberg.Properties, error) {
		return iceberg.Properties{s.property(maintainedName): today}, nil
	})
}

// crowded reports whether the files of this writer should be merged into one. A large file is not written
// anew for a few small ones, so that each row is written a few times at most, however often the table changes.
func (l *lakeTable) crowded() bool {
	if l.own == nil {
		return false
	}
	var bytes, largest, rows, dead int64
	for _, f := range l.own.data {
		bytes, largest = bytes+f.FileSizeBytes(), max(largest, f.FileSizeBytes())
		rows, dead = rows+f.Count(), dead+int64(len(f.dead))
	}
	files := len(l.own.data) + len(l.own.deletes)
	return files > fewFiles && (4*(bytes-largest) >= bytes || 2*dead >= rows || files > manyFiles)
}

// maintainDaily does what is due once a day.
func (l *lakeTable) maintainDaily(ctx context.Context) error {
	if err := l.load(ctx); err != nil {
		return err
	}
	if l.byDay() {
		if err := l.closeDays(ctx); err != nil {
			return err
		}
	}
	if err := l.expire(ctx, snapshotsKept); err != nil {
		return err
	}
	return l.removeOrphans(ctx, orphansKept)
}

// closeDays merges the files of each day that is over.
func (l *lakeTable) closeDays(ctx context.Context) error {
	if err := l.look(ctx); err != nil {
		return err
	}
	over := dayOfTime(l.sink.now().Add(-settled))
	files, tombs := map[iceberg.Date][]*dataFile{}, map[iceberg.Date][]iceberg.DataFile{}
	for _, f := range l.own.inOrder(l.orderID()) {
		if day := l.dayOf(f); day != nil && *day < over {
			files[*day] = append(files[*day], f)
		}
	}
	for _, tomb := range l.own.deletes {
		if day := l.dayOf(tomb); day != nil {
			tombs[*day] = append(tombs[*day], tomb)
		}
	}
	for _, day := range sortedKeys(files) {
		some := files[day]
		if len(tombs[day]) == 0 { // a position delete may be about any file of its day
			some = slices.DeleteFunc(some, func(f *dataFile) bool { return f.FileSizeBytes() > mostOfFile/2 })
		}
		if len(some) < 2 {
			continue
		}
		if err := l.merge(ctx, some, tombs[day]); err != nil {
			return fmt.Errorf("merge the files of %s: %w", dayName(&day), err)
		}
		if err := l.look(ctx); err != nil {
			return err
		}
	}
	return nil
}

func dayOfTime(t time.Time) iceberg.Date {
	return iceberg.Date(floor(t.UnixMicro(), (24 * time.Hour).Microseconds()))
}

// merge writes the live rows of files, in their order, into as few files as possible, which take their place
// in one commit. The tombs are all the position deletes of these files.
func (l *lakeTable) merge(ctx context.Context, files []*dataFile, tombs []iceberg.DataFile) error {
	into := &dailyWriter{table: l, open: map[string]*fileWriter{}}
	var old []iceberg.DataFile
	dead := 0
	for _, f := range files {
		if err := l.eachLive(ctx, f, into.put); err != nil {
			return errors.Join(fmt.Errorf("read %s: %w", f.FilePath(), err), into.abandon())
		}
		old, dead = append(old, f.DataFile), dead+len(f.dead)
	}
	if err := into.close(); err != nil {
		return errors.Join(err, into.abandon())
	}
	// The new files stay after an error: whether the commit has happened may not be known.
	err := l.commit(ctx, func(tx *table.Transaction) (iceberg.Properties, error) {
		if err := l.look(ctx); err != nil {
			return nil, err
		}
		still := 0
		for _, f := range files {
			known := l.own.data[f.FilePath()]
			if known == nil {
				return nil, fmt.Errorf("another process has written as %s meanwhile", l.sink.options.Instance)
			}
			still += len(known.dead)
		}
		if still != dead {
			return nil, fmt.Errorf("another process has written as %s meanwhile", l.sink.options.Instance)
		}
		return iceberg.Properties{}, tx.ReplaceFiles(ctx, old, into.done, tombs, nil, table.WithoutAutoNameMapping())
	})
	l.own, l.index, l.kept = nil, nil, nil
	return err
}

// expire removes snapshots that are older, of which the newest stays, and files that only they have.
func (l *lakeTable) expire(ctx context.Context, age time.Duration) error {
	if err := l.load(ctx); err != nil {
		return err
	}
	err := l.commit(ctx, func(tx *table.Transaction) (iceberg.Properties, error) {
		all := l.table.Metadata().Snapshots()
		expired := func(s table.Snapshot) bool { return time.Since(time.UnixMilli(s.TimestampMs)) >= age }
		if len(all) < 2 || !slices.ContainsFunc(all, expired) {
			return nil, nil
		}
		return iceberg.Properties{}, tx.ExpireSnapshots(table.WithOlderThan(age), table.WithRetainLast(1))
	})
	if err != nil {
		return fmt.Errorf("expire snapshots: %w", err)
	}
	return nil
}

// removeOrphans deletes files that no snapshot has, as killed processes leave them. A REST catalog may keep
// snapshots that the table does not show, on branches of its own, so there they stay.
func (l *lakeTable) removeOrphans(ctx context.Context, age time.Duration) error {
	if catalog := l.sink.options.Catalog; strings.HasPrefix(catalog, "http://") || strings.HasPrefix(catalog, "https://") {
		return nil
	}
	if _, err := l.table.DeleteOrphanFiles(ctx, table.WithFilesOlderThan(age)); err != nil {
		return fmt.Errorf("delete files that no snapshot has: %w", err)
	}
	return nil
}
