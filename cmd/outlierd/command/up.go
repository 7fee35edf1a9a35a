package command

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"net/netip"
	"os"
	"time"

	"github.com/spf13/cobra"

	"outlierd/cmd/outlierd/daemon"
	"outlierd/cmd/outlierd/pagedata"
	"outlierd/cmd/outlierd/report"
	"outlierd/sync/engine"
	"outlierd/sync/job"
	"outlierd/sync/metrics"
	"outlierd/sync/notify"
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
	if err := engine.NoteJobs(config, p.Engine.Store.DB, log); err != nil {
		return err
	}
	logAgenda(agenda, config.Timezone, log)
	p.warnOfSpace()
	return daemon.Run(ctx, daemon.Options{
		Engine: p.Engine, Commands: p.server, Env: g.world.env, Hangups: hangups, InUse: &p.inUse,
		Backups: dailyBackups(p).Serve,
		Load:    func() (*job.Config, error) { return job.Load(g.config, g.world.env) },
		Check:   checkSQL,
		Apply:   p.applyEdit,
		Report: func(refused error) {
			p.metrics.Reloaded(refused == nil)
			p.watcher.Refused(daemon.WhyRefused(refused))
		},
		Notifier: func() (*daemon.Notifier, error) { return newNotifier(p, g.world.env) },
	})
}

// serveHTTP serves HTTP at daemon.listen; it returns nil without one.
func serveHTTP(ctx context.Context, g *globals, p *program, tables *pagedata.Tables) (*daemon.Web, error) {
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
	site := newSite(ctx, p, tables, g.out.zone)
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

// applyEdit makes a daemon use an edited job file.
func (p *program) applyEdit(ctx context.Context, config *job.Config) error {
	return p.Engine.Reload(ctx, config, func() {
		p.watcher = notify.NewWatcher(config, p.Engine.Log)
		p.metrics.Use(config)
	})
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
