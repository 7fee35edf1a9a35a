package load

import (
	"context"
	"fmt"
	"strings"
	"time"

	"outlierd/sinks"
)

// # What is left out
//
// The job file may leave out tables, columns and old days. The warehouse deletes them before the next publication: when
// the file was edited, and once a day. It never takes anything back by itself, because the answers may be pruned: the
// file is then ahead of the tables until they are rebuilt.

// unread is what [Loader.omitted] is before the marks of the warehouse were compared with the job file.
const unread = "unread"

// wanted identifies what the job file leaves out today; "" if it leaves out nothing.
func (l *Loader) wanted() string {
	if len(l.tables()) == 0 {
		return ""
	}
	return fmt.Sprint(time.Now().UTC().Format(time.DateOnly), l.tables())
}

// OmitDue reports whether the job file leaves out something else than at the time of the last publication.
func (l *Loader) OmitDue() bool { return l.source.err == nil && l.omitted != l.wanted() }

// omitUnwanted has the warehouse leave out what the job file does.
func (l *Loader) omitUnwanted(ctx context.Context) error {
	if l.warehouse == nil || !l.OmitDue() {
		return nil
	}
	wanted := l.wanted()
	has, err := sinks.ParseOmitted(l.source.marks.Omitted)
	if err != nil {
		return l.disableSink(l.source, err)
	}
	more, err := l.unwanted(has)
	if err != nil {
		return err
	}
	all := has.With(more)
	if all.String() != l.source.marks.Omitted {
		if err := l.warehouse.Omit(context.WithoutCancel(ctx), more); err != nil {
			return l.disableSink(l.source, err)
		}
		l.source.marks.Omitted = all.String()
	}
	if lacking := all.Beyond(more); len(lacking) > 0 {
		l.log.Warn("tables lack what the job file keeps: 'outlierd rebuild' brings back what the journal still has",
			"tables", strings.Join(lacking, ", "))
	}
	l.omitted = wanted
	return nil
}

// unwanted returns what the job file leaves out now. has is what the warehouse leaves out, from which old days follow at a
// cost that does not depend on how many there are.
func (l *Loader) unwanted(has sinks.Omitted) (o sinks.Omitted, err error) {
	o = sinks.Omitted{UpTo: map[string]int64{}, Columns: map[string][]string{}}
	today := time.Now().UTC().Truncate(24 * time.Hour)
	for _, t := range l.tables() {
		switch {
		case t.Off:
			o.UpTo[t.Name] = sinks.Whole
		case t.Keep > 0:
			if o.UpTo[t.Name], err = l.store.Journal.Before(today.Add(-t.Keep), has.UpTo[t.Name]-1); err != nil {
				return o, err
			}
		}
		if len(t.Without) > 0 {
			o.Columns[t.Name] = t.Without
		}
	}
	return o, nil
}
