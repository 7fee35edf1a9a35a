package command

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"time"

	"outlierd/cmd/outlierd/daemon"
	"outlierd/cmd/outlierd/page"
	"outlierd/cmd/outlierd/pagedata"
	"outlierd/cmd/outlierd/report"
	"outlierd/internal/durable"
	"outlierd/sync/forecast"
	"outlierd/sync/job"
)

// # The page without a daemon
//
// The published file can be shown without a daemon: to its owner while nothing runs, and to a colleague with a copy
// of the folder. Nothing can be changed there. What only the state has is shown if the state is there.

// defaultListen is where the page is served without daemon.listen, if the port is free.
const defaultListen = "127.0.0.1:7411"

// folderConfig returns the configuration for a folder with published tables and without a job file.
func folderConfig(folder string, env lookup) (*job.Config, error) {
	found, err := durable.Match(folder, "*.duckdb")
	if len(found) == 0 && err == nil {
		found, err = durable.Match(filepath.Join(folder, "data"), "*.duckdb")
	}
	if err != nil {
		return nil, err
	}
	if len(found) != 1 {
		return nil, usageError{fmt.Errorf("%s has neither a jobs.yaml nor one published DuckDB file", folder)}
	}
	_, daemon := job.DaemonOf("", env) // the defaults
	return &job.Config{
		Path: folder, Dir: folder, Data: filepath.Dir(found[0]), Timezone: time.Local, Daemon: daemon,
		Sinks: []job.Sink{{Kind: job.SinkDuckDB, Path: filepath.Base(found[0])}},
	}, nil
}

// serveView serves the published file until ctx ends. It calls show with the address.
func serveView(ctx context.Context, g *globals, config *job.Config, show func(address string) error) (err error) {
	_, at, err := publishedFile(ctx, g, config)
	if err != nil {
		return err
	}
	log := g.logger()
	port, err := listenNear(ctx, config.Daemon.Listen)
	if err != nil {
		return err
	}
	alone := *config
	alone.Daemon.Listen, alone.Daemon.Token, alone.Daemon.ReadToken = port.Addr().String(), job.Secret{}, job.Secret{}
	g.out.zone = config.Timezone
	web := &daemon.Web{Daemon: alone.Daemon, Site: viewSite(ctx, g, &alone, log)}
	web.Serve(port, log)
	defer func() { err = errors.Join(err, web.Close()) }()
	fmt.Fprintf(g.world.err, "'outlierd up' is not running here. This page shows the tables published at %s, "+
		"and changes nothing; ^C ends it.\n", at.In(config.Timezone).Format("2006-01-02 15:04 MST"))
	if err := show("http://" + port.Addr().String()); err != nil {
		return err
	}
	<-ctx.Done()
	return nil
}

// listenNear listens on this machine only, at the port of an address if it is free.
func listenNear(ctx context.Context, address string) (net.Listener, error) {
	var l net.ListenConfig
	host, number, err := net.SplitHostPort(defaultListen)
	if _, configured, wrong := net.SplitHostPort(address); wrong == nil {
		number = configured
	}
	port, busy := l.Listen(ctx, "tcp", net.JoinHostPort(host, number))
	if busy == nil {
		return port, err
	}
	return l.Listen(ctx, "tcp", net.JoinHostPort(host, "0"))
}

// viewSite returns the page of published tables, and of the state if it can be read.
func viewSite(ctx context.Context, g *globals, config *job.Config, log *slog.Logger) *page.Site {
	tables := openTables(g, config)
	sources := tablesSources(tables, func() *job.Config { return config }, func() (*temporary, error) { return systemTemporary("outlierd-download-*") })
	sources.Now = func(context.Context) (*page.Now, error) {
		return &page.Now{Status: forecast.Status{At: time.Now()}, In: report.Style{Zone: g.out.zone}}, nil
	}
	if hasState(config) {
		(&looking{read: peeking(g, config), zone: g.out.zone, tables: tables}).addTo(&sources)
	}
	addThumbnails(&sources, newThumbnails(config, tables, log))
	return page.New(ctx, sources, "", log)
}

// hasState reports whether this user can read a state, which belongs to the user of the daemon. Without a
// job file nothing is known about it.
func hasState(config *job.Config) bool {
	if len(config.Jobs) == 0 {
		return false
	}
	file, err := os.Open(filepath.Join(stateFolder(config), "state.db"))
	return err == nil && file.Close() == nil
}

// openTables returns the published tables, with the marks of the state if it can be read.
func openTables(g *globals, config *job.Config) *pagedata.Tables {
	tables := pagedata.New(published(config), config.Timezone)
	if hasState(config) {
		tables.Marks = func() (*pagedata.Marked, error) {
			return readBy(peeking(g, config), func(seen *program) (*pagedata.Marked, error) { return pagedata.MarksIn(seen.Engine.Store.DB)() })
		}
	}
	return tables
}

// peeking opens the state for each reading, as `status` does; it takes milliseconds.
func peeking(g *globals, config *job.Config) reading {
	return func(f func(*program) error) error { return g.with(context.Background(), config, toRead, f) }
}
