package sinks

import (
	"context"
	"errors"
	"fmt"
)

// Reopening returns a sink that is opened on first use. After a failed call it is closed, and the next
// call opens it again, because the cause may have been removed, and the cached state may be wrong.
// explain, unless it is nil, adds to an error what to do about it.
func Reopening(name string, open func(context.Context) (Sink, error), explain func(error) error) Sink {
	if explain == nil {
		explain = func(err error) error { return err }
	}
	return &reopening{name: name, open: open, explain: explain}
}

type reopening struct {
	name    string
	open    func(context.Context) (Sink, error)
	explain func(error) error
	sink    Sink // nil while it is closed
}

// use opens the sink, unless it is open, and calls it. It closes the sink if the call fails.
func (r *reopening) use(ctx context.Context, call func(Sink) error) error {
	if r.sink == nil {
		sink, err := r.open(ctx)
		if err != nil {
			return r.explain(fmt.Errorf("open sink %s: %w", r.name, err))
		}
		r.sink = sink
	}
	if err := call(r.sink); err != nil {
		return errors.Join(r.explain(err), r.Close())
	}
	return nil
}

func (r *reopening) Name() string { return r.name }

func (r *reopening) Watermark(ctx context.Context) (mark int64, err error) {
	err = r.use(ctx, func(s Sink) (err error) { mark, err = s.Watermark(ctx); return err })
	return mark, err
}

func (r *reopening) Write(ctx context.Context, b Batch) error {
	return r.use(ctx, func(s Sink) error { return s.Write(ctx, b) })
}

func (r *reopening) OpsVersion(ctx context.Context) (version int64, err error) {
	err = r.use(ctx, func(s Sink) (err error) { version, err = s.OpsVersion(ctx); return err })
	return version, err
}

func (r *reopening) Publish(ctx context.Context, ops *Ops) error {
	return r.use(ctx, func(s Sink) error { return s.Publish(ctx, ops) })
}

func (r *reopening) Close() error {
	if r.sink == nil {
		return nil
	}
	err := r.sink.Close()
	r.sink = nil
	return err
}
