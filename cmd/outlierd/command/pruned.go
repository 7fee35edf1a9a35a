package command

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"outlierd/sinks"
	"outlierd/sinks/compare"
	"outlierd/sync/job"
	"outlierd/sync/runs"
)

// older says where a rebuilt sink gets the rows of pruned answers. It is nil if the journal has all
// answers.
type older struct {
	upTo   int64     // the last answer that was pruned
	lacks  int64     // the last answer whose rows are missing even so; 0 if none are
	from   *job.Sink // nil omits the rows
	reader *compare.Reader
	source compare.Source
	temp   *temporary // has the rows of a lake; nil for other sinks

	erase *compare.Eraser // what is not copied; nil for nothing
}

func (r *older) Close() error {
	if r == nil || r.reader == nil {
		return nil
	}
	return errors.Join(r.reader.Close(), r.temp.Close())
}

func (r *older) copying() compare.CopyOptions {
	return compare.CopyOptions{From: r.source, UpTo: r.upTo, Erase: r.erase}
}

// lostError is the error for a rebuild that would lose rows.
type lostError struct {
	sink   string
	pruned int64
	why    []string
}

func (e *lostError) Error() string {
	return fmt.Sprintf("the journal is pruned up to answer %d (`retention`), "+
		"and the rows of answers 1 to %d cannot be copied: %s; nothing is changed. Restore a backup of "+
		"another sink, or add a second one to the job file and rebuild that first; "+
		"'outlierd rebuild %s --without-pruned' rebuilds it without these rows", e.pruned, e.pruned,
		strings.Join(e.why, "; "), e.sink)
}

// olderRows finds the rows of pruned answers that a sink needs, in the first of these sinks that can be
// read and has all of them; with partly set, it accepts missing rows. It is nil if the journal has all
// answers.
func (o *options) olderRows(ctx context.Context, p *program, s job.Sink, in []job.Sink, partly bool) (*older, error) {
	pruned, err := p.Engine.Store.Journal.Pruned()
	if err != nil || pruned == 0 {
		return nil, err
	}
	own, err := p.Engine.Store.Runs.Sink(s.Kind)
	if err != nil {
		return nil, err
	}
	lost := &lostError{sink: s.Kind, pruned: pruned}
	for _, other := range in {
		r, err := o.olderFrom(ctx, p, other, pruned)
		if err == nil && r.lacks > own.Lacks && !partly {
			err = errors.Join(fmt.Errorf("it was rebuilt without the rows of answers 1 to %d", r.lacks), r.Close())
		}
		if err == nil {
			return r, nil
		}
		if ctx.Err() != nil {
			return nil, err
		}
		lost.why = append(lost.why, fmt.Sprintf("sink %s cannot be used: %v", other.Kind, err))
	}
	if len(lost.why) == 0 {
		lost.why = []string{fmt.Sprintf("%s has no other sink", relative(p.Engine.Config.Path))}
	}
	return nil, lost
}

// others returns the other sinks.
func others(config *job.Config, s job.Sink) []job.Sink {
	return slices.DeleteFunc(slices.Clone(config.Sinks), func(o job.Sink) bool { return o.Kind == s.Kind })
}

// olderFrom brings a sink up to date and opens it for copying.
func (o *options) olderFrom(ctx context.Context, p *program, s job.Sink, pruned int64) (_ *older, err error) {
	sink, err := o.openSink(ctx, p, s)
	if err != nil {
		return nil, err
	}
	p.Engine.Sinks = []sinks.Sink{sink}
	err = p.Engine.Fill(ctx)
	p.Engine.Sinks = nil
	if err := errors.Join(err, sink.Close()); err != nil {
		return nil, err
	}
	known, err := p.Engine.Store.Runs.Sink(s.Kind)
	if err != nil {
		return nil, err
	}
	config := p.Engine.Config
	r := &older{upTo: pruned, lacks: known.Lacks, from: &s, reader: compare.Open(temporaryFolder(config))}
	place, temp, err := o.openStill(ctx, r.reader, config, s, sinkPath(config, s))
	if r.temp = temp; err != nil {
		return nil, errors.Join(err, r.Close())
	}
	if len(place.Problems) > 0 {
		return nil, errors.Join(errors.New(place.Problems[0]), r.Close())
	}
	r.source = place.Source
	return r, nil
}

// recorded rebuilds a sink and records which rows it lacks. It records that first, so that a kill
// cannot leave a sink with unrecorded gaps.
func (r *older) recorded(sinks *runs.Runs, name string, rebuild func() error) error {
	lacks := int64(0)
	if r != nil {
		lacks = r.lacks
	}
	before, err := sinks.Sink(name)
	if err == nil {
		err = sinks.SinkLacks(name, max(before.Lacks, lacks))
	}
	if err != nil {
		return err
	}
	if err := rebuild(); err != nil {
		return errors.Join(err, sinks.SinkLacks(name, before.Lacks))
	}
	return sinks.SinkLacks(name, lacks)
}

// begin writes the older rows into a new sink.
func (r *older) begin(ctx context.Context, into sinks.Sink) error {
	switch {
	case r == nil:
		return nil
	case r.from == nil:
		return into.Write(ctx, sinks.Batch{Hi: r.upTo})
	}
	return r.reader.Copy(ctx, r.copying(), into)
}

// end completes the current tables, and publishes them.
func (r *older) end(ctx context.Context, kind string, into sinks.Sink, published string) error {
	if r == nil || r.from == nil {
		return nil
	}
	made := openTables(ctx, r.reader, kind, published, "", false) // a lake is filled from a Parquet folder
	if len(made.Problems) > 0 {
		return errors.New(made.Problems[0])
	}
	adopter, ok := into.(sinks.Adopter)
	if !ok {
		return fmt.Errorf("sink %s cannot take rows from another sink", kind)
	}
	if err := r.reader.Carry(ctx, r.copying(), made.Source, adopter); err != nil {
		return err
	}
	if err := r.reader.Close(); err != nil { // it has the file open that is about to be replaced
		return err
	}
	return into.Publish(ctx, nil)
}
