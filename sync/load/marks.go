package load

import (
	"context"
	"errors"
	"fmt"

	"outlierd/sinks"
	"outlierd/sync/ops"
	"outlierd/sync/state"
)

// readMarks reads the marks of the warehouse and of the copies, and begins the batch that follows.
func (l *Loader) readMarks(ctx context.Context) error {
	source := &l.source.sinkState
	if err := l.readMark(source, func() (sinks.Marks, error) { return l.source.Marks(ctx) }); err != nil {
		return err
	}
	for _, c := range l.copies {
		if err := l.readMark(&c.sinkState, func() (sinks.Marks, error) { return c.Shows(ctx) }); err != nil {
			return err
		}
	}
	if source.err == nil {
		filled, err := Refill(ctx, l.store, l.source, source.marks)
		if lacking, is := errors.AsType[*PrunedError](err); is {
			err = l.disableSink(source, lacking)
		} else if filled && err == nil {
			err = l.readMark(source, func() (sinks.Marks, error) { return l.source.Marks(ctx) })
		}
		if err != nil {
			return err
		}
	}
	l.logRefill()
	if err := l.writeOps(ctx); err != nil || source.err != nil { // before answers: see [ops.Restores.LostWith]
		return err
	}
	var err error
	if l.left, err = sinks.ParseOmitted(source.marks.Omitted); err != nil {
		return l.disableSink(source, err)
	}
	l.batch = batchAfter(l.store, source.marks.Answers)
	l.dropNotes()
	l.answered = l.answered || l.Working()
	return l.omitUnwanted(ctx)
}

// logRefill logs that a warehouse that was lost or damaged is filled from the journal, because no run starts before.
func (l *Loader) logRefill() {
	has, shown := l.source.marks.Answers, int64(0)
	for _, c := range l.copies {
		shown = max(shown, c.marks.Answers)
	}
	if l.source.err == nil && has < shown {
		l.log.Warn("the warehouse has fewer answers than its copies: it is filled from the journal before anything else",
			"has", has, "copies_have", shown)
	}
}

// readMark reads the marks of one of them, and disables it if that fails, or if it was filled from a state
// that was lost.
func (l *Loader) readMark(s *sinkState, read func() (sinks.Marks, error)) (err error) {
	if s.marks, err = read(); err != nil {
		return l.disableSink(s, fmt.Errorf("read what sink %s holds: %w", s.name, err))
	}
	err = CheckMarks(l.store, s.name, s.marks)
	if lost, is := errors.AsType[*LostStateError](err); is {
		return l.disableSink(s, lost)
	}
	return err
}

// CheckMarks returns an [AheadError] or a [LostStateError] for a sink with answers that are not those of the journal.
func CheckMarks(of *state.Store, sink string, has sinks.Marks) error {
	end, err := of.Journal.End()
	if err != nil {
		return err
	}
	restores, err := ops.ReadRestores(of.DB)
	if err != nil {
		return err
	}
	lost := restores.LostWith(has.Ops, has.Answers)
	switch {
	case has.Answers > end:
		return &AheadError{Sink: sink, Mark: has.Answers, End: end, Restored: lost != nil}
	case lost != nil:
		return &LostStateError{Sink: sink, Mark: has.Answers, Backup: lost.Answers}
	}
	return nil
}

// Refill gives a warehouse with these marks, if it lacks rows of pruned answers, those of a copy, and reports whether
// it did. It takes all that the copy has, because histories that the job file cuts short no longer say when a key was
// first seen. A copy of a state that was lost has only the answers of the backup in common with the journal.
func Refill(ctx context.Context, from *state.Store, w sinks.Warehouse, has sinks.Marks) (filled bool, err error) {
	pruned, err := from.Journal.Pruned()
	if err != nil || has.Answers >= pruned {
		return false, err
	}
	end, err := from.Journal.End()
	if err != nil {
		return false, err
	}
	restores, err := ops.ReadRestores(from.DB)
	if err != nil {
		return false, err
	}
	common := func(has sinks.Marks) int64 {
		if lost := restores.LostWith(has.Ops, has.Answers); lost != nil {
			return lost.Answers
		}
		return end
	}
	if err := w.Refill(ctx, pruned, common); err != nil {
		return false, &PrunedError{Mark: has.Answers, Pruned: pruned, Err: err}
	}
	return true, nil
}

// AheadError reports that a sink has answers that the journal does not have: the state was lost or is an
// old copy, and the credits spent are unknown.
type AheadError struct {
	Sink      string
	Mark, End int64
	Restored  bool // from a backup, after which the lost state wrote the sink
}

func (e *AheadError) Error() string {
	return fmt.Sprintf("sink %s holds answers up to %d, but the journal ends at %d: "+
		"the state folder is lost or older than the sink, and with it the record of what was spent; %s", e.Sink,
		e.Mark, e.End, e.remedy())
}

// remedy returns what to do. A rebuild is an option only if a backup was restored and what was spent since was
// recorded: it takes the rows of pruned answers from these tables, and the rows of the later answers are lost.
func (e *AheadError) remedy() string {
	remedy := "restore its newest copy; if this is the newest, move data/state/warehouse.duckdb and the files of all " +
		"sinks away: they are written again from the journal, and only the old ones have the rows of the later answers"
	switch {
	case e.End == 0:
		remedy = "restore its newest copy; without a copy, move the whole data folder away, start with a new one, " +
			"and lower budget.per_month by what was spent in this cycle"
	case e.Sink == "iceberg":
		remedy = "restore its newest copy; if this is the newest, give the sink another `namespace`: " +
			"it is filled from the journal, and the rows of the later answers stay in the old one"
	}
	if e.Restored {
		remedy += "; or let 'outlierd rebuild' replace them"
	}
	return remedy
}

// LostStateError reports that a sink has answers of a state that was lost, while the journal of the
// restored one has other answers with the same numbers.
type LostStateError struct {
	Sink         string
	Mark, Backup int64
}

func (e *LostStateError) Error() string {
	away := "move the files of the sink away: they are written again from the journal, " +
		"and only the old ones have the rows of these"
	switch e.Sink {
	case "warehouse":
		away = "move data/state/warehouse.duckdb and the published DuckDB file away: the tables are written again from " +
			"the journal, and only the old files have the rows of these"
	case "iceberg":
		away = "give the sink another `namespace`: it is filled from the journal, " +
			"and the rows of these stay in the old one"
	}
	return fmt.Sprintf("sink %s holds answers %d to %d of the state that was lost, "+
		"and the journal of the restored one has others with these numbers: stop outlierd and %s; "+
		"or let 'outlierd rebuild' replace them", e.Sink, e.Backup+1, e.Mark, away)
}

// PrunedError reports that the warehouse lacks rows of answers whose bodies were pruned from the journal.
type PrunedError struct {
	Mark, Pruned int64
	Err          error // why they could not be taken from a copy
}

func (e *PrunedError) Error() string {
	return fmt.Sprintf("the warehouse holds answers up to %d, the journal is pruned up to %d (`retention`), and no copy "+
		"can replace the rows: %v. Put back data/state/warehouse.duckdb, the published DuckDB file or the Parquet folder "+
		"from a backup; 'outlierd rebuild --without-pruned' goes on without these rows", e.Mark, e.Pruned, e.Err)
}

func (e *PrunedError) Unwrap() error { return e.Err }
