package load

import (
	"context"
	"slices"
	"strings"
	"time"

	"outlierd/sinks"
	"outlierd/sync/job"
	"outlierd/sync/state"
)

// # What is left out
//
// The job file may leave out tables, columns and old days. The warehouse deletes them before the next publication: when
// the file was edited, and once a day. It never takes anything back by itself, because the answers may be pruned: the
// file is then ahead of the tables until they are rebuilt.

// OmitDue reports whether the warehouse has something that the job file leaves out.
func (l *Loader) OmitDue() (bool, error) {
	if l.source.Warehouse == nil || l.source.err != nil {
		return false, nil
	}
	more, err := omittedBy(l.tables(), l.store, l.left)
	return l.left.With(more).String() != l.source.marks.Omitted, err
}

// omitUnwanted has the warehouse leave out what the job file does.
func (l *Loader) omitUnwanted(ctx context.Context) error {
	if l.source.Warehouse == nil || l.source.err != nil {
		return nil
	}
	more, err := omittedBy(l.tables(), l.store, l.left)
	if err != nil {
		return err
	}
	all := l.left.With(more)
	if all.String() != l.source.marks.Omitted {
		if err := l.source.Omit(context.WithoutCancel(ctx), more); err != nil {
			return l.disableSink(&l.source.sinkState, err)
		}
		l.left, l.source.marks.Omitted = all, all.String()
	}
	pruned, err := l.store.Journal.Pruned()
	if err != nil {
		return err
	}
	lacking := all.Beyond(more, pruned)
	if len(lacking) > 0 && !slices.Equal(lacking, l.lacking) {
		l.log.Warn("tables lack what the job file keeps: 'outlierd rebuild' brings back what the journal still has",
			"tables", strings.Join(lacking, ", "))
	}
	l.lacking = lacking
	return nil
}

// Omitted returns what the job file leaves out now.
func Omitted(tables []job.Table, of *state.Store) (sinks.Omitted, error) {
	return omittedBy(tables, of, sinks.Omitted{})
}

// omittedBy returns what the job file leaves out today, which is the UTC day by the service's clock. has is what the
// warehouse leaves out, from which old days follow at a cost that does not depend on how many there are.
func omittedBy(tables []job.Table, of *state.Store, has sinks.Omitted) (o sinks.Omitted, err error) {
	o = sinks.Omitted{UpTo: map[string]int64{}, Columns: map[string][]string{}}
	for _, t := range tables {
		switch {
		case t.Off:
			o.UpTo[t.Name] = sinks.Whole
		case t.Keep > 0:
			now, known, err := of.Ledger.CertainTime()
			if o.UpTo[t.Name] = has.UpTo[t.Name]; err == nil && known {
				o.UpTo[t.Name], err = of.Journal.Before(now.UTC().Truncate(24*time.Hour).Add(-t.Keep), has.UpTo[t.Name]-1)
			}
			if err != nil {
				return o, err
			}
		}
		if len(t.Without) > 0 {
			o.Columns[t.Name] = t.Without
		}
	}
	return o, nil
}
