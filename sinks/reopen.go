package sinks

import (
	"context"
	"errors"
	"fmt"
)

// Reopening returns a copy that is opened on first use. After a failed call it is closed, and the next
// call opens it again, because the cause may have been removed.
func Reopening(name string, open func(context.Context) (Copy, error)) Copy {
	return &reopening{name: name, open: open}
}

type reopening struct {
	name string
	open func(context.Context) (Copy, error)
	copy Copy // nil while it is closed
}

// use opens the copy, unless it is open, and calls it. It closes the copy if the call fails.
func (r *reopening) use(ctx context.Context, call func(Copy) error) error {
	if r.copy == nil {
		c, err := r.open(ctx)
		if err != nil {
			return fmt.Errorf("open sink %s: %w", r.name, err)
		}
		r.copy = c
	}
	if err := call(r.copy); err != nil {
		return errors.Join(err, r.Close())
	}
	return nil
}

func (r *reopening) Name() string { return r.name }

func (r *reopening) Shows(ctx context.Context) (shows Marks, err error) {
	err = r.use(ctx, func(c Copy) (err error) { shows, err = c.Shows(ctx); return err })
	return shows, err
}

func (r *reopening) Publish(ctx context.Context) error {
	return r.use(ctx, func(c Copy) error { return c.Publish(ctx) })
}

func (r *reopening) Close() error {
	if r.copy == nil {
		return nil
	}
	err := r.copy.Close()
	r.copy = nil
	return err
}
