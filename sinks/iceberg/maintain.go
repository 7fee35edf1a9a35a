//go:build iceberg

package iceberg

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/apache/iceberg-go"
	"github.com/apache/iceberg-go/table"
)

const (
	// mostOfFile is the approximate size limit of a data file, in bytes.
	mostOfFile = 128 << 20

	// Tables whose rows are replaced have their files merged depending on the number of files: never up
	// to fewFiles, always above manyFiles, and in between by the rules of needsMerge.
	fewFiles, manyFiles = 20, 200

	// settled is the time between the end of a day and the merge of its files, because answers may be
	// written late.
	settled = time.Hour

	// orphansKept is the minimum age of an orphan that is deleted: a younger one may belong to a commit
	// in progress.
	orphansKept = 3 * 24 * time.Hour

	// maintainedName is the property of outlierd_writers with the UTC date of the last daily
	// maintenance by this writer.
	maintainedName = "maintained"

	// orphansName is the property of outlierd_writers with the UTC date on which one of the writers last
	// looked for orphans.
	orphansName = prefix + "orphans"
)

// retention says which snapshots of a table stay. Each commit reads and writes a list of all, so their
// number is bounded as well as their age: a table with a commit a minute would have 10,000 in a week.
type retention struct {
	age   time.Duration // the maximum, for time travel
	most  int           // when there are a quarter more than that, older ones expire
	query time.Duration // but none before that age, because queries may be reading them
}

var kept = retention{age: 7 * 24 * time.Hour, most: 1000, query: time.Hour}

// maintain keeps the cost of commits and of reading independent of the number of commits. Each call
// merges the files of tables that this process has written to, if they need it, and expires snapshots of
// tables that have too many. The first call of a UTC day also merges the files of past days and expires old
// snapshots. Orphans are looked for once a day by the writer that comes first, because that lists the
// files of all writers; with a REST catalog they stay. The day is claimed before: a search that fails is
// repeated the next day, because orphans only take space, and an error of every publication would
// disable the sink.
func (s *Sink) maintain(ctx context.Context) error {
	all := slices.Concat(s.options.Tables, s.options.Ops)
	for _, t := range all {
		l := s.tables[t]
		if !l.byDay() && l.needsMerge() {
			if err := l.merge(ctx, l.own.inOrder(l.orderID()), l.own.deleteFiles()); err != nil {
				return fmt.Errorf("merge the files of table %s: %w", l.name(), err)
			}
		}
		if l.tooManySnapshots() {
			if err := l.expire(ctx, s.keep.query, s.keep.most); err != nil {
				return fmt.Errorf("maintain table %s: %w", l.name(), err)
			}
		}
	}
	if err := s.writers.load(ctx); err != nil {
		return err
	}
	today := s.now().UTC().Format(time.DateOnly)
	if s.writers.table.Properties()[s.property(maintainedName)] != today {
		for _, t := range all {
			if err := s.tables[t].maintainDaily(ctx); err != nil {
				return fmt.Errorf("maintain table %s: %w", t.Name, err)
			}
		}
		if _, err := s.claim(ctx, s.property(maintainedName), today); err != nil {
			return err
		}
	}
	if s.options.isREST() { // such a catalog may have snapshots which the table metadata does not list
		return nil
	}
	claimed, err := s.claim(ctx, orphansName, today)
	if err != nil || !claimed {
		return err
	}
	for _, l := range append(slices.Collect(maps.Values(s.tables)), s.writers) {
		if err := l.removeOrphans(ctx, orphansKept); err != nil {
			return fmt.Errorf("maintain table %s: %w", l.name(), err)
		}
	}
	return nil
}

// claim sets a property of outlierd_writers, and reports false if it had that value already.
func (s *Sink) claim(ctx context.Context, property, value string) (claimed bool, err error) {
	if s.writers.table.Properties()[property] == value {
		return false, nil
	}
	err = s.writers.commit(ctx, func(*table.Transaction) (iceberg.Properties, error) {
		if claimed = s.writers.table.Properties()[property] != value; !claimed {
			return nil, nil
		}
		return iceberg.Properties{property: value}, nil
	})
	return claimed, err
}

// needsMerge reports whether the files of this writer should be merged: if more than fewFiles exist, and
// all except the largest have a quarter of the bytes, or half of the rows are deleted, or more than
// manyFiles exist. So a large file is not rewritten for a few small ones, and each row is rewritten a
// few times only.
func (l *lakeTable) needsMerge() bool {
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

// maintainDaily does the daily maintenance of a table.
func (l *lakeTable) maintainDaily(ctx context.Context) error {
	if err := l.load(ctx); err != nil {
		return err
	}
	if l.byDay() {
		if err := l.closeDays(ctx); err != nil {
			return err
		}
	}
	return l.expire(ctx, l.sink.keep.age, 1)
}

// closeDays merges the files of each past day.
func (l *lakeTable) closeDays(ctx context.Context) error {
	if err := l.refresh(ctx); err != nil {
		return err
	}
	over := dayOfTime(l.sink.now().Add(-settled))
	files, deletes := map[iceberg.Date][]*dataFile{}, map[iceberg.Date][]iceberg.DataFile{}
	for _, f := range l.own.inOrder(l.orderID()) {
		if day := l.dayOf(f); day != nil && *day < over {
			files[*day] = append(files[*day], f)
		}
	}
	for _, file := range l.own.deletes {
		if day := l.dayOf(file); day != nil {
			deletes[*day] = append(deletes[*day], file)
		}
	}
	for _, day := range sortedKeys(files) {
		some := files[day]
		if len(deletes[day]) == 0 { // position deletes may refer to any file of the day
			some = slices.DeleteFunc(some, func(f *dataFile) bool { return f.FileSizeBytes() > mostOfFile/2 })
		}
		if len(some) < 2 {
			continue
		}
		if err := l.merge(ctx, some, deletes[day]); err != nil {
			return fmt.Errorf("merge the files of %s: %w", dayName(&day), err)
		}
		if err := l.refresh(ctx); err != nil {
			return err
		}
	}
	return nil
}

func dayOfTime(t time.Time) iceberg.Date {
	return iceberg.Date(floor(t.UnixMicro(), (24 * time.Hour).Microseconds()))
}

// merge rewrites the rows of files that are not deleted, in their order, into as few files as possible,
// and replaces the files in one commit. deletes are all files of position deletes that refer to these
// files; the commit removes them.
func (l *lakeTable) merge(ctx context.Context, files []*dataFile, deletes []iceberg.DataFile) error {
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
	// The new files stay after an error, because the commit may have taken effect nevertheless.
	err := l.commit(ctx, func(tx *table.Transaction) (iceberg.Properties, error) {
		if err := l.refresh(ctx); err != nil {
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
		return iceberg.Properties{}, tx.ReplaceFiles(ctx, old, into.done, deletes, nil, table.WithoutAutoNameMapping())
	})
	l.own, l.index, l.kept = nil, nil, nil
	return err
}

// tooManySnapshots reports whether snapshots should expire before their time. A quarter too many, and a
// quarter of an hour too old, are left for the next call, because to expire some costs as much as many.
func (l *lakeTable) tooManySnapshots() bool {
	keep, log := l.sink.keep, l.snapshotLog()
	return len(log) > keep.most*5/4 && time.Since(time.UnixMilli(log[0].TimestampMs)) >= keep.query*5/4
}

// snapshotLog is the log of the table as it is loaded, the oldest snapshot first.
func (l *lakeTable) snapshotLog() []table.SnapshotLogEntry {
	if l.table == nil {
		return nil
	}
	return slices.Collect(l.table.Metadata().SnapshotLogs())
}

// expire removes snapshots that are older than age, except the newest ones, least of them, and deletes
// the files that only they refer to.
func (l *lakeTable) expire(ctx context.Context, age time.Duration, least int) error {
	if err := l.load(ctx); err != nil {
		return err
	}
	err := l.commit(ctx, func(tx *table.Transaction) (iceberg.Properties, error) {
		all := l.table.Metadata().Snapshots()
		expired := func(s table.Snapshot) bool { return time.Since(time.UnixMilli(s.TimestampMs)) >= age }
		if len(all) <= least || !slices.ContainsFunc(all[:len(all)-least], expired) {
			return nil, nil
		}
		return iceberg.Properties{}, tx.ExpireSnapshots(table.WithOlderThan(age), table.WithRetainLast(least))
	})
	if err != nil {
		return fmt.Errorf("expire snapshots: %w", err)
	}
	return nil
}

// removeOrphans deletes files older than age that no snapshot refers to, such as those of killed
// processes. The table is loaded again first: in metadata of some days ago, what other writers have
// committed since would be orphans.
func (l *lakeTable) removeOrphans(ctx context.Context, age time.Duration) error {
	if err := l.reload(ctx); err != nil {
		return err
	}
	err := l.reading(ctx, func() error {
		_, err := l.table.DeleteOrphanFiles(ctx, table.WithFilesOlderThan(age))
		return err
	})
	if err != nil {
		return fmt.Errorf("delete files that no snapshot has: %w", err)
	}
	return nil
}
