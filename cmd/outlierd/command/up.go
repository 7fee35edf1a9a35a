package command

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"os"
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
	"outlierd/sync/serve"
)

func upCommand(g *globals) *cobra.Command {
	return &cobra.Command{
		Use:   "up",
		Short: "Run all jobs on their schedules until stopped",
		Long: `Run all jobs on their schedules until stopped. Runs overlap: the pages of one run are bought
before the data calls of another. Queued calls of earlier runs are made between runs.

Other commands work at the same time: 'outlierd run' and similar commands pass their work to
this process, which does it before the scheduled runs continue.

With "daemon.listen" it serves a page for browsers, metrics, and an HTTP interface with which
other programs start runs and read results.

SIGTERM or ^C stops it: the call in progress may finish, all answers are stored and
published, and the next start continues from there. A second signal stops at once.

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
	p.server.Provide(p.documents(tables))
	web, err := serveHTTP(ctx, g, p, tables)
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
func serveHTTP(ctx context.Context, g *globals, p *program, tables *page.Tables) (*daemon.Web, error) {
	d, log := p.Engine.Config.Daemon, p.Engine.Log
	if d.Listen == "" {
		return nil, nil
	}
	port, err := daemon.Listen(ctx, d, log)
	if err != nil {
		return nil, err
	}
	scraped, err := p.metrics.Handler(metrics.Sources{
		Store: p.Engine.Store, Pace: p.Engine.Pace, Waited: p.Engine.Waited, Beat: p.Engine.Beat, Log: log,
	})
	if err != nil {
		return nil, errors.Join(err, port.Close())
	}
	site := newSite(ctx, p, tables)
	web := &daemon.Web{Daemon: d, Site: site, API: p.server.API(), Metrics: scraped, Stuck: p.server.Stuck, Check: func() daemon.Readiness {
		_, file := job.Load(g.config, g.world.env)
		_, state := p.Engine.Store.Instance()
		return daemon.NewReadiness(file, errors.Join(state, p.Engine.Store.DB.Room()), p.metrics.Sinks())
	}}
	if web.Site != nil {
		p.server.LogIn("http://"+localAddress(d.Listen), web.Site.Ticket)
	}
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

// documents returns what the interface of a daemon answers with: what commands print with -o json.
func (p *program) documents(tables *page.Tables) serve.Documents {
	return serve.Documents{
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
	dear, err := overLimit(ctx, p.forecasts(), []jobRun{next}, *limit, 0)
	if err == nil && len(dear) > 0 {
		err = serve.Refuse(http.StatusConflict, "this run may cost more than %s (%s): %s; nothing was started: send "+
			"{\"max_credits\": N} with the most that it may cost", term.Count(*limit, "credit"), why, strings.Join(dear, ", "))
	}
	return err
}
