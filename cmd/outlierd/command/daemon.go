package command

import (
	"context"
	"errors"
	"fmt"
	"net"
	"path/filepath"
	"slices"
	"time"

	"outlierd/cmd/outlierd/report"
	"outlierd/sync/engine"
	"outlierd/sync/job"
	"outlierd/sync/runs"
	"outlierd/sync/serve"
	"outlierd/sync/store"
)

// # Beside a daemon
//
// While 'outlierd up' holds the state folder, other commands read the state from the file and let the
// daemon make calls and changes. Their output is the same as without a daemon. Each reading is a
// snapshot, so they read again after each change.

// stateFolder returns the state folder of a configuration.
func stateFolder(config *job.Config) string { return filepath.Join(config.Data, "state") }

// findDaemon returns the daemon that holds the state folder, or nil.
func (w *world) findDaemon(ctx context.Context, config *job.Config) (*serve.Client, error) {
	c, err := w.dial(ctx, stateFolder(config))
	if errors.Is(err, serve.ErrNoDaemon) {
		return nil, nil
	}
	if err == nil {
		err = c.Understands(version())
	}
	if err != nil {
		return nil, explainUnwritable(err, config.Data)
	}
	return c, nil
}

// A daemon locks the folder some time before it listens, because it first opens and checks the state.
const (
	startTime = 5 * time.Second
	startPoll = 50 * time.Millisecond
)

// awaitDaemon waits until the daemon that has just locked the state folder listens, and returns it, or nil.
func (w *world) awaitDaemon(ctx context.Context, config *job.Config, held *store.HeldError) (*serve.Client, error) {
	for {
		c, err := w.findDaemon(ctx, config)
		if c != nil || err != nil || !held.IsDaemon() || time.Since(held.Since) > startTime {
			return c, err
		}
		select {
		case <-time.After(startPoll):
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
}

// readProgress reads the progress of the run that this program, or the daemon for it, performs.
func (p *program) readProgress(ctx context.Context) (now engine.Progress, err error) {
	if p.daemon == nil {
		return p.Engine.Progress()
	}
	run := p.ordered.Load()
	if run == nil {
		return now, nil
	}
	seen := &program{Engine: &engine.Engine{Config: p.Engine.Config}}
	if err := errors.Join(seen.openReading(ctx), seen.openPace(stateFolder(p.Engine.Config))); err != nil {
		return now, errors.Join(err, seen.Close())
	}
	now, err = seen.Engine.ProgressOf(*run)
	return now, errors.Join(err, seen.Close())
}

// change makes a change, in this process or in the daemon if there is one.
func change[R any](ctx context.Context, p *program, c serve.Change[R]) (R, error) {
	if p.daemon == nil {
		return c.Do(ctx, p.Engine)
	}
	result, err := serve.Send(ctx, p.daemon, c)
	return result, errors.Join(err, p.Engine.Store.Close(), p.openReading(ctx))
}

// orderRun asks the daemon for a run, and returns when it has ended.
func (r *runner) orderRun(ctx context.Context, j *jobRun) (row *runs.Run, err error) {
	asked := serve.Order{Trigger: j.Trigger, Due: j.Due, Afresh: j.Afresh, UseReserve: j.UseReserve,
		MaxCredits: j.Spec.Budget.MaxCredits}
	if asked.Rest = j.Spec.Rest; asked.Rest == "" && !j.byID {
		asked.Asked, asked.Version = j.Spec.Asked(), j.Spec.Version()
	}
	if j.Old != nil {
		asked.Continues = j.Old.ID
	}
	// A reading is a snapshot. While it is open, the daemon's write-ahead log grows.
	if err := r.p.Engine.Store.Close(); err != nil {
		return nil, err
	}
	run := ""
	ended, err := r.p.daemon.Order(ctx, asked, func(begun serve.Event) {
		run = begun.Run
		r.p.ordered.Store(&begun.Run)
		r.p.Engine.Log.Debug("run started", "job", j.Spec.Name, "run", run, "daemon", r.p.daemon.PID)
		limited := ""
		if j.Spec.Budget.MaxCredits != nil {
			limited = "; --max-credits applies to it"
		}
		if begun.Joined {
			fmt.Fprintf(r.g.out.w, "%s: watching run %s, which is under way%s\n", job.Shown(j.Spec.Name), run, limited)
		}
	})
	r.p.ordered.Store(nil)
	if err != nil {
		err = r.errDetached(ctx, err, j, run)
	}
	if err = errors.Join(err, r.p.openReading(context.WithoutCancel(ctx))); err != nil {
		return nil, err
	}
	row, err = r.p.Engine.Store.Runs.Get(run)
	if err == nil && row == nil {
		err = fmt.Errorf("the state has no run %s", run)
	}
	if err != nil {
		return nil, errors.Join(err, ended.Err())
	}
	if row.Status == runs.Running { // it was scheduled, and the schedule continues it
		row.Status, row.Error, row.Ended = ended.Status, ended.Why, time.Now()
	}
	return row, ended.Err()
}

// errDetached returns the error that ends watching a run: that the user detached, and where the run continues, or err.
func (r *runner) errDetached(ctx context.Context, err error, j *jobRun, run string) error {
	if ctx.Err() == nil {
		return err
	}
	if run == "" {
		return &stoppedError{fmt.Errorf("detached before %s confirmed that the run started", r.p.daemon.Name()),
			"To watch or start it, repeat the command"}
	}
	next := "To stop it:\n  " + r.g.typed("run --cancel "+run) + "\n"
	if job.IsOnce(j.Spec.Name) {
		next += "To see its rows when it has ended, repeat the command"
	} else {
		next += "To watch it:\n  " + r.g.typed("run --continue "+run)
	}
	return &stoppedError{fmt.Errorf("detached; the run continues in %s", r.p.daemon.Name()), next}
}

// runCancelled is the output of run --cancel for programs.
type runCancelled struct {
	Run string `json:"run"`
	Job string `json:"job"`
}

// cancelRun asks the daemon to stop a run.
func cancelRun(ctx context.Context, g *globals, what string) error {
	config, err := g.loadToRead()
	if err != nil {
		return err
	}
	daemon, err := g.world.findDaemon(ctx, config)
	if err == nil && daemon == nil {
		err = fmt.Errorf("no 'outlierd up' is using %s; stop a run of 'outlierd run' with ^C in its terminal",
			report.Path(stateFolder(config)))
	}
	if err != nil {
		return err
	}
	var run *runs.Run
	err = g.with(ctx, config, toRead, func(p *program) (err error) {
		run, err = runUnderWay(p, what)
		return err
	})
	if err != nil {
		return err
	}
	if err := daemon.Cancel(ctx, run.ID); err != nil {
		return err
	}
	return g.out.print(runCancelled{run.ID, run.Job},
		"run %s of %s is stopped; what was paid for is stored\n", run.ID, job.Shown(run.Job))
}

// runUnderWay returns the run in progress of a job, or of a run id.
func runUnderWay(p *program, what string) (*runs.Run, error) {
	run, err := p.Engine.Store.Runs.Get(what)
	if err != nil {
		return nil, err
	}
	if run == nil {
		if err := refuseUnknown(p, what); err != nil {
			return nil, err
		}
		all, err := p.Engine.Store.Runs.Unfinished(what)
		if err != nil {
			return nil, err
		}
		at := slices.IndexFunc(all, func(r runs.Run) bool { return isUnderWay(&r) })
		if at < 0 {
			return nil, usageError{fmt.Errorf("no run of job %s is under way", what)}
		}
		run = &all[at]
	}
	if !isUnderWay(run) {
		return nil, usageError{fmt.Errorf("run %s of %s is not under way: it is %s", run.ID, job.Shown(run.Job),
			run.Status)}
	}
	return run, nil
}

// isUnderWay reports whether a daemon may be working on a run. A run that waits for the rate limit may
// belong to another process; the daemon knows.
func isUnderWay(run *runs.Run) bool {
	return run.Status == runs.Running || run.Status == runs.PausedQuota
}

// serveCommands lets other commands work while this process holds the state folder. If the socket cannot be
// opened, the schedule runs anyway.
func (p *program) serveCommands(ctx context.Context, listen func(dir string) (net.Listener, error)) {
	p.server = serve.New(p.Engine, version())
	p.inUse.Store(p.Engine.Config)
	context.AfterFunc(ctx, p.server.Stop)
	if listen == nil {
		return
	}
	l, err := listen(stateFolder(p.Engine.Config))
	if err != nil {
		p.Engine.Log.Warn("other commands cannot work beside this process", "err", err)
		return
	}
	done := make(chan error, 1)
	go func() { done <- p.server.Serve(l) }()
	p.closers = append(p.closers, func() error { return errors.Join(p.server.Close(), <-done) })
}
