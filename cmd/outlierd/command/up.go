package command

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"outlierd/cmd/outlierd/daemon"
	"outlierd/cmd/outlierd/page"
	"outlierd/cmd/outlierd/report"
	"outlierd/cmd/outlierd/term"
	"outlierd/outlier"
	"outlierd/sync/engine"
	"outlierd/sync/job"
	"outlierd/sync/metrics"
	"outlierd/sync/notify"
	"outlierd/sync/runs"
	"outlierd/sync/serve"
	"outlierd/sync/store"
)

func upCommand(g *globals) *cobra.Command {
	return &cobra.Command{
		Use:   "up",
		Short: "Run all jobs on their schedules until stopped",
		Long: `Run all jobs on their schedules until stopped. Other commands work at the same time: 'outlierd
run' and similar commands pass their work to this process, which does it before the scheduled
runs continue.

With "daemon.listen" it serves a page for browsers, metrics, and an HTTP interface with which
other programs start runs and read results.

SIGTERM or ^C stops it: the call in progress may finish, all answers are stored and
published, and the next start continues from there. A signal more than a second later stops at
once.

An edit of the job file takes effect within about a minute, or at once on SIGHUP
("daemon.reload"). Runs in progress finish unchanged. A file with a mistake is refused,
and the log says why. service.url, timezone, data, sinks and budget.renews need a restart.`,
		RunE: func(c *cobra.Command, _ []string) error {
			err := runDaemon(c.Context(), g)
			if isA[startError](err) && c.Context().Err() != nil {
				return nil // stopped before it began
			}
			return err
		},
	}
}

// startError is why a daemon did not start.
type startError struct{ error }

func (e startError) Unwrap() error { return e.error }

// runDaemon runs the daemon until ctx ends.
func runDaemon(ctx context.Context, g *globals) (err error) {
	var hangups <-chan os.Signal
	if g.world.hangups != nil {
		hangups = g.world.hangups() // also of a terminal that is closed
	}
	config, err := loadChecked(ctx, g.load)
	if err != nil {
		return startError{err}
	}
	buffered := daemon.NewLog(g.out.block.Above(g.world.err))
	log := g.loggerTo(buffered)
	go buffered.Run(g.logger())
	defer buffered.Close()
	p, err := g.openProgram(ctx, config, toServe, log)
	if err != nil {
		return startError{err}
	}
	defer func() { err = errors.Join(err, p.Close()) }()
	tables := newTables(ctx, p, g.out.zone)
	site := newSite(ctx, p, tables)
	p.server.Provide(p.documents(tables, site))
	web, err := serveHTTP(ctx, g, p, site)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, web.Close()) }()
	agenda, err := p.Engine.Agenda(time.Now())
	if err != nil {
		return err
	}
	if len(agenda) == 0 { // the page, commands, and an edit of the file still have a use for this process
		log.Warn("no job has a schedule or an interval, so none starts by itself",
			"remedy", "give one `schedule:` or `every:`, or use 'outlierd run'")
	}
	if err := engine.NoteJobs(config, p.Engine.Store.DB, log); err != nil {
		return err
	}
	logAgenda(agenda, config.Timezone, log)
	if err := p.Engine.Store.DB.Room(); err != nil {
		log.Warn("nothing is bought until there is space", "err", err)
	}
	return daemon.Run(ctx, daemon.Options{
		Engine: p.Engine, Commands: p.server, Env: g.world.env, Hangups: hangups, InUse: &p.inUse,
		Backups: dailyBackups(p).Serve,
		Load:    func() (*job.Config, error) { return job.Load(g.config, g.world.env) },
		Check:   checkSQL,
		Apply: func(ctx context.Context, config *job.Config) error {
			return p.Engine.Reload(ctx, config, func() {
				p.watcher = notify.NewWatcher(config, p.Engine.Log)
				p.metrics.Use(config)
			})
		},
		Report: func(refused error) {
			p.metrics.Reloaded(refused == nil)
			p.watcher.Refused(daemon.WhyRefused(refused))
		},
		Notifier: func() (*daemon.Notifier, error) { return newNotifier(p, g.world.env) },
	})
}

// serveHTTP serves HTTP at daemon.listen; it returns nil without one.
func serveHTTP(ctx context.Context, g *globals, p *program, site *page.Site) (*daemon.Web, error) {
	config, log := p.Engine.Config, p.Engine.Log
	d := config.Daemon
	if d.Listen == "" {
		return nil, nil
	}
	port, err := daemon.Listen(ctx, d, log)
	if err != nil {
		return nil, err
	}
	scraped := p.metrics.Handler(metrics.Sources{
		Store: p.Engine.Store, Pace: p.Engine.Pace, Waited: p.Engine.Waited, Beat: p.Engine.Beat, Log: log,
	})
	web := &daemon.Web{Daemon: d, Site: site, API: p.server.API(), Metrics: scraped, Stuck: p.server.Stuck, Check: func() daemon.Readiness {
		_, file := job.Load(g.config, g.world.env)
		_, state := p.Engine.Store.Instance()
		sinks := map[string]error{}
		for _, s := range config.Sinks {
			now, err := p.Engine.Store.Sinks.State(s.Kind)
			if now.Error != "" {
				err = errors.New(now.Error)
			}
			sinks[s.Kind] = err
		}
		return daemon.NewReadiness(file, errors.Join(state, p.Engine.Store.DB.Room()), sinks)
	}}
	web.Serve(port, log)
	return web, nil
}

// localAddress returns the address on this machine for a listen address such as 0.0.0.0.
func localAddress(listen string) string {
	host, port, _ := net.SplitHostPort(listen)
	if ip, err := netip.ParseAddr(host); host == "" || err == nil && ip.IsUnspecified() {
		host = "localhost"
	}
	return net.JoinHostPort(host, port)
}

// logAgenda logs when each job is due.
func logAgenda(agenda []*engine.DueRun, zone *time.Location, log *slog.Logger) {
	for _, due := range agenda {
		if due.Paused != nil {
			log.Info("job paused", append(due.Attrs(zone), "paused", report.Paused(due.Paused, zone))...)
		} else {
			log.Info("job scheduled", append(due.Attrs(zone), "trigger", due.Trigger)...)
		}
	}
}

// documents returns what the interface of a daemon answers with: what commands print with -o json. site is nil if it
// serves no page.
func (p *program) documents(tables *page.Tables, site *page.Site) serve.Documents {
	documents := serve.Documents{
		Status: func(ctx context.Context) (any, error) {
			return readBy(p.read, func(seen *program) (any, error) { return statusOf(ctx, seen) })
		},
		Budget: func(ctx context.Context) (any, error) {
			return readBy(p.read, func(seen *program) (any, error) { return budgetOf(ctx, seen) })
		},
		Run: func(_ context.Context, id string) (any, error) {
			return readBy(p.read, func(seen *program) (any, error) {
				row, err := seen.Engine.Store.Runs.Get(id)
				if err == nil && row == nil {
					err = serve.Refuse(http.StatusNotFound, "there is no run %.40s", id)
				}
				if err != nil {
					return nil, err
				}
				return describeRun(seen, row)
			})
		},
		Outliers: func(ctx context.Context, filter url.Values) (any, error) { return listOutliers(ctx, tables, filter) },
		Approve: func(ctx context.Context, name string, most *outlier.Credits) error {
			return p.read(func(seen *program) error { return approveClient(ctx, seen, name, most) })
		},
	}
	if site != nil {
		documents.Page, documents.Ticket = "http://"+localAddress(p.Engine.Config.Daemon.Listen), site.Ticket
	}
	return documents
}

// outliersPage is a page of outliers.
type outliersPage struct {
	Total int64            `json:"total"`
	Next  string           `json:"next,omitempty"` // address of the next page
	Rows  []map[string]any `json:"rows"`
}

// queryTime limits a query of outliers.
const queryTime = 20 * time.Second

// listOutliers returns a page of the outliers that the page Found shows at an address with the same parameters.
func listOutliers(ctx context.Context, tables *page.Tables, filter url.Values) (*outliersPage, error) {
	f, err := page.FilterOf("/found?" + filter.Encode())
	if err == nil {
		err = page.CheckNames(filter)
	}
	if err != nil {
		return nil, serve.Refuse(http.StatusBadRequest, "%w", err)
	}
	ctx, cancel := context.WithTimeoutCause(ctx, queryTime, serve.Refuse(http.StatusServiceUnavailable,
		"the query took longer than %s; narrow the filter, as with days=30", queryTime))
	defer cancel()
	found := &outliersPage{}
	found.Rows, found.Total, err = tables.Rows(ctx, f)
	switch {
	case errors.Is(err, page.ErrNothingPublished):
		return nil, serve.Refuse(http.StatusServiceUnavailable, "%w", err)
	case ctx.Err() != nil:
		return nil, context.Cause(ctx)
	}
	if int64(f.Page*page.PerPage) < found.Total {
		filter.Set("page", strconv.Itoa(f.Page+1))
		found.Next = "/api/v1/outliers?" + filter.Encode()
	}
	return found, err
}

// approveClient returns why a client may not start a run of a job, which may buy for as many credits. A pause holds for
// clients as it does for the schedule, and a client confirms a high price by a cap.
func approveClient(ctx context.Context, p *program, name string, most *outlier.Credits) error {
	config := p.Engine.Config
	spec := config.Job(name)
	if spec == nil {
		return serve.Refuse(http.StatusNotFound, "%w", noJob(config, name, ""))
	}
	pauses, err := p.Engine.Store.Schedule.Pauses(time.Now())
	if err != nil {
		return err
	}
	if pause := pauses[name]; pause != nil {
		return serve.Refuse(http.StatusConflict, "job %s is %s; nothing was started: 'outlierd resume %s' ends the pause", name,
			report.Paused(pause, config.Timezone), name)
	}
	limit, why := confirmOver(config)
	if most != nil || limit == nil {
		return nil
	}
	next := jobRun{Order: engine.Order{Spec: spec, Trigger: engine.Manual}}
	dear, err := overLimit(ctx, p, []jobRun{next}, *limit, 0)
	if err == nil && len(dear) > 0 {
		err = serve.Refuse(http.StatusConflict, "this run may cost more than %s (%s): %s; nothing was started: send "+
			"{\"max_credits\": N} with the most that it may cost", term.Count(*limit, "credit"), why, strings.Join(dear, ", "))
	}
	return err
}

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
	run := p.ordered.Load()
	switch {
	case run == nil:
		return now, nil
	case p.daemon == nil:
		return p.Engine.ProgressOf(*run)
	}
	seen, err := peek(ctx, p.Engine.Config)
	if err != nil {
		return now, err
	}
	limiter, err := openLimiter(p.Engine.Config)
	if err == nil {
		now, err = (&engine.Engine{Store: seen, Pace: limiter}).ProgressOf(*run)
	}
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
	if err != nil {
		err = r.errDetached(ctx, err, run)
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
func (r *runner) errDetached(ctx context.Context, err error, run string) error {
	if ctx.Err() == nil {
		return err
	}
	if run == "" {
		return &stoppedError{fmt.Errorf("detached before %s confirmed that the run started", r.p.daemon.Name()),
			"To watch or start it, repeat the command"}
	}
	return &stoppedError{fmt.Errorf("detached; the run continues in %s", r.p.daemon.Name()),
		"To stop it:\n  " + r.g.typed("run --cancel "+run) + "\nTo watch it:\n  " + r.g.typed("run --continue "+run)}
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
