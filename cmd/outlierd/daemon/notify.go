package daemon

import (
	"context"
	"os"
	"sync"
	"time"

	"outlierd/sync/engine"
	"outlierd/sync/job"
	"outlierd/sync/notify"
)

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
	soon      chan struct{}
}

// NewNotifier makes a notifier ready.
func NewNotifier(n *Notifier) *Notifier {
	n.soon = make(chan struct{}, 1)
	return n
}

// checkEvery is how often a daemon looks for events. The end of a run is reported at once.
const checkEvery = 15 * time.Second

// Serve looks for events and delivers them until ctx ends.
func (n *Notifier) Serve(ctx context.Context) {
	if n == nil {
		return
	}
	var delivering sync.WaitGroup
	delivering.Go(func() { n.Deliverer.Run(ctx) })
	for next := time.NewTicker(checkEvery); ctx.Err() == nil; {
		n.addEvents(ctx)
		select {
		case <-next.C:
		case <-n.soon:
		case <-ctx.Done():
			next.Stop()
		}
	}
	delivering.Wait()
}

// CheckSoon makes a daemon look for events now.
func (n *Notifier) CheckSoon() {
	if n == nil {
		return
	}
	select {
	case n.soon <- struct{}{}:
	default: // it is about to look
	}
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
