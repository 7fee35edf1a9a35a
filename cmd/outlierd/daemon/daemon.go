// Package daemon is what `outlierd up` does once everything is open: it keeps the schedule, serves HTTP, reads an
// edited job file, sends notifications, and reports to the service manager.
package daemon

import (
	"context"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"outlierd/sync/engine"
	"outlierd/sync/job"
	"outlierd/sync/notify"
	"outlierd/sync/serve"
)

// Options are what a daemon works with.
type Options struct {
	Engine   *engine.Engine
	Commands *serve.Server
	Env      func(string) (string, bool)
	Hangups  <-chan os.Signal            // on each, the job file is read
	InUse    *atomic.Pointer[job.Config] // the job file in use

	Backups  func(context.Context)                    // makes backups when they are due, until the context ends
	Load     func() (*job.Config, error)              // reads the job file
	Check    func(context.Context, *job.Config) error // finds mistakes that reading does not
	Apply    func(context.Context, *job.Config) error // makes the engine use an edited job file
	Report   func(refused error)                      // called after each reading; nil if the file is used
	Notifier func() (*Notifier, error)                // for the job file in use
}

// Run keeps the schedule until ctx ends. It returns an error if the state fails before that.
func Run(ctx context.Context, o Options) error {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	log := o.Engine.Log
	first, err := o.Notifier()
	if err != nil {
		return err
	}
	stopNotifier := first.start(ctx)
	edits := &reloader{Options: o, log: log}
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
		stopNotifier()
		stopNotifier = next.start(ctx)
		return nil
	}
	o.Commands.Compare(edits.compareFile)
	var beside sync.WaitGroup
	beside.Go(func() { edits.serve(ctx, o.Hangups) })
	beside.Go(func() { o.Backups(ctx) })
	beside.Go(func() { newSystemd(o.Env, log).serve(ctx, o.Commands.Stuck) })
	o.Engine.Serve(ctx)
	stop()
	beside.Wait()
	stopNotifier()
	log.Info("stopped")
	return o.Engine.Store.DB.Failure()
}

// A Notifier sends notifications, concurrently with runs. A nil one does nothing.
type Notifier struct {
	Engine    *engine.Engine
	Config    *job.Config     // the engine's may be replaced while this one looks
	Watcher   *notify.Watcher // likewise
	Published string          // path of the file that alerts ask
	Deliverer notify.Deliverer
	Questions notify.Questions

	evaluated os.FileInfo // the published file that alerts were read from last
	logged    string      // why a look failed, as the log has it
}

// checkEvery is how often a daemon looks for events.
const checkEvery = 15 * time.Second

// start looks for events and delivers them until the returned function is called.
func (n *Notifier) start(ctx context.Context) (stop func()) {
	if n == nil {
		return func() {}
	}
	ctx, cancel := context.WithCancel(ctx)
	var serving sync.WaitGroup
	serving.Go(func() { n.Deliverer.Run(ctx) })
	serving.Go(func() {
		next := time.NewTicker(checkEvery)
		defer next.Stop()
		for ctx.Err() == nil {
			n.addEvents(ctx)
			select {
			case <-next.C:
			case <-ctx.Done():
			}
		}
	})
	return func() { cancel(); serving.Wait() }
}

// addEvents adds new events to the outbox: conditions of the whole file, new rows of alerts, and due reports.
func (n *Notifier) addEvents(ctx context.Context) {
	n.addConditions()
	n.evaluateAlerts(ctx)
	n.Questions.PrepareReports(ctx)
}

// addConditions adds the conditions of the whole file to the outbox.
func (n *Notifier) addConditions() {
	e := n.Engine
	switch err := n.Watcher.Check(e.Store); {
	case err == nil:
		n.logged = ""
	case n.logged != err.Error():
		n.logged = err.Error()
		e.Log.Error("notifications incomplete", "err", err)
	}
}

// evaluateAlerts adds new rows of alerts to the outbox if the tables were published since the last time.
func (n *Notifier) evaluateAlerts(ctx context.Context) {
	if len(n.Config.Alerts) == 0 {
		return
	}
	file, err := os.Stat(n.Published)
	if err != nil || n.evaluated != nil && os.SameFile(file, n.evaluated) && file.ModTime().Equal(n.evaluated.ModTime()) {
		return // nothing is published yet, or nothing new
	}
	n.Questions.EvaluateAlerts(ctx)
	n.evaluated = file
}

// finishTimeout is how long a finished command still tries to deliver.
const finishTimeout = 3 * time.Second

// Finish delivers the events of a command. Events that are not accepted in time stay in the outbox for
// the next command or the daemon. Alerts and reports are asked meanwhile, so that slow SQL delays no other event.
func (n *Notifier) Finish(ctx context.Context) {
	if n == nil || ctx.Err() != nil {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, finishTimeout)
	defer cancel()
	n.addConditions()
	var asking sync.WaitGroup
	asking.Go(func() {
		n.evaluateAlerts(ctx)
		n.Questions.PrepareReports(ctx)
	})
	n.Deliverer.Flush(ctx)
	asking.Wait()
	n.Deliverer.Flush(ctx)
}
