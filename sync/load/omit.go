package load

import (
	"context"
	"fmt"
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

// unread is what [Loader.omitted] is before the marks of the warehouse were compared with the job file.
const unread = "unread"

// identify identifies what the job file leaves out today, which is the UTC day by the service's clock, or zero if that
// is not known or does not matter. It is "" if the file leaves out nothing.
func identify(tables []job.Table, of *state.Store) (what string, today time.Time, err error) {
	if len(tables) == 0 {
		return "", today, nil
	}
	if slices.ContainsFunc(tables, func(t job.Table) bool { return t.Keep > 0 }) {
		now, known, err := of.Ledger.CertainTime()
		if err != nil {
			return "", today, err
		}
		if known {
			today = now.UTC().Truncate(24 * time.Hour)
		}
	}
	return fmt.Sprint(today, tables), today, nil
}

// OmitDue reports whether the job file leaves out something else than at the time of the last publication.
func (l *Loader) OmitDue() (bool, error) {
	wanted, _, err := identify(l.tables(), l.store)
	return l.source.err == nil && l.omitted != wanted, err
}

// omitUnwanted has the warehouse leave out what the job file does.
func (l *Loader) omitUnwanted(ctx context.Context) error {
	tables := l.tables()
	wanted, today, err := identify(tables, l.store)
	if err != nil || l.source.Warehouse == nil || l.source.err != nil || l.omitted == wanted {
		return err
	}
	has, err := sinks.ParseOmitted(l.source.marks.Omitted)
	if err != nil {
		return l.disableSink(&l.source.sinkState, err)
	}
	more, err := omittedBy(tables, l.store, has, today)
	if err != nil {
		return err
	}
	all := has.With(more)
	if all.String() != l.source.marks.Omitted {
		if err := l.source.Omit(context.WithoutCancel(ctx), more); err != nil {
			return l.disableSink(&l.source.sinkState, err)
		}
		l.source.marks.Omitted = all.String()
	}
	pruned, err := l.store.Journal.Pruned()
	if err != nil {
		return err
	}
	if lacking := all.Beyond(more, pruned); len(lacking) > 0 {
		l.log.Warn("tables lack what the job file keeps: 'outlierd rebuild' brings back what the journal still has",
			"tables", strings.Join(lacking, ", "))
	}
	l.omitted, l.left = wanted, all
	return nil
}

// Omitted returns what the job file leaves out now.
func Omitted(tables []job.Table, of *state.Store) (sinks.Omitted, error) {
	_, today, err := identify(tables, of)
	if err != nil {
		return sinks.Omitted{}, err
	}
	return omittedBy(tables, of, sinks.Omitted{}, today)
}

// omittedBy returns what the job file leaves out now. has is what the warehouse leaves out, from which old days follow
// at a cost that does not depend on how many there are.
func omittedBy(tables []job.Table, of *state.Store, has sinks.Omitted, today time.Time) (o sinks.Omitted, err error) {
	o = sinks.Omitted{UpTo: map[string]int64{}, Columns: map[string][]string{}}
	for _, t := range tables {
		switch {
		case t.Off:
			o.UpTo[t.Name] = sinks.Whole
		case t.Keep > 0 && today.IsZero():
			o.UpTo[t.Name] = has.UpTo[t.Name]
		case t.Keep > 0:
			if o.UpTo[t.Name], err = of.Journal.Before(today.Add(-t.Keep), has.UpTo[t.Name]-1); err != nil {
				return o, err
			}
		}
		if len(t.Without) > 0 {
			o.Columns[t.Name] = t.Without
		}
	}
	return o, nil
}
