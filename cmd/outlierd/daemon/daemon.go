// Package daemon is what `outlierd up` does once everything is open: it keeps the schedule, serves HTTP, reads an
// edited job file, sends notifications, and reports to the service manager.
package daemon

import (
	"context"
	"os"
	"sync"
	"sync/atomic"

	"outlierd/sync/engine"
	"outlierd/sync/job"
	"outlierd/sync/serve"
)

// Options are what a daemon works with.
type Options struct {
	Engine   *engine.Engine
	Commands *serve.Server
	Env      func(string) (string, bool)
	Hangups  <-chan os.Signal            // on each, the job file is read
	InUse    *atomic.Pointer[job.Config] // the job file, for other goroutines

	Backups  func(context.Context)                    // makes backups when they are due, until the context ends
	Load     func() (*job.Config, error)              // reads the job file
	Check    func(context.Context, *job.Config) error // finds mistakes that reading does not
	Apply    func(context.Context, *job.Config) error // makes the engine use an edited job file
	Report   func(refused error)                      // called after each reading; nil if the file is used
	Notifier func() (*Notifier, error)                // for the job file in use
}

// Run keeps the schedule until ctx ends.
func Run(ctx context.Context, o Options) error {
	log := o.Engine.Log
	first, err := o.Notifier()
	if err != nil {
		return err
	}
	var notifier runningNotifier
	notifier.start(ctx, first)
	edits := &reloader{Options: o, log: log, used: o.Engine.Config}
	edits.Report = func(refused error) {
		o.Commands.Refused(WhyRefused(refused))
		o.Report(refused)
		notifier.now.CheckSoon()
	}
	edits.Apply = func(ctx context.Context, config *job.Config) error {
		select {
		case <-o.Engine.Keeping(): // a hangup may come while the process starts
		case <-ctx.Done():
			return context.Cause(ctx)
		}
		if err := o.Apply(ctx, config); err != nil {
			return err
		}
		next, err := o.Notifier()
		if err != nil {
			log.Error("notifications unchanged", "err", err)
			return nil
		}
		notifier.stop()
		notifier.start(ctx, next)
		return nil
	}
	o.Commands.Compare(edits.compareFile)
	var beside sync.WaitGroup
	beside.Go(func() { edits.serve(ctx, o.Hangups) })
	beside.Go(func() { o.Backups(ctx) })
	beside.Go(func() { newSystemd(o.Env, log).serve(ctx, o.Commands.Stuck) })
	o.Engine.Serve(ctx)
	beside.Wait()
	notifier.stop()
	log.Info("stopped")
	return nil
}

// runningNotifier runs the notifier of the job file in use.
type runningNotifier struct {
	now  *Notifier // nil if the file has no target
	stop func()
}

func (r *runningNotifier) start(ctx context.Context, n *Notifier) {
	ctx, cancel := context.WithCancel(ctx)
	done := make(chan struct{})
	go func() {
		defer close(done)
		n.Serve(ctx)
	}()
	r.now, r.stop = n, func() { cancel(); <-done }
}
