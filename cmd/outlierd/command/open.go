package command

import (
	"context"
	"errors"
	"fmt"
	"html"
	"io/fs"
	"log/slog"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"time"

	"github.com/spf13/cobra"

	"outlierd/cmd/outlierd/daemon"
	"outlierd/cmd/outlierd/page"
	"outlierd/internal/durable"
	"outlierd/sync/job"
	"outlierd/sync/serve"
)

func openCommand(g *globals) *cobra.Command {
	var show bool
	c := &cobra.Command{
		Use:   "open [FOLDER]",
		Short: "Open the page in a browser",
		Long: `Open the page of 'outlierd up' in the browser, log in for 12 hours, and print the address. Only
the daemon's user can do this. It needs daemon.listen.

If 'outlierd up' is not running, this command serves the published DuckDB file itself, on this
machine only and without any action, until ^C. FOLDER has a job file, or just a published
file: a copy of the data folder is enough.

Without a browser, as on a server or in a container, it prints a login URL, which can be used
once and within a minute. --print always prints one.`,
		RunE: func(c *cobra.Command, args []string) error {
			if len(args) == 1 {
				g.config = filepath.Join(args[0], defaultConfig)
				if _, err := os.Stat(g.config); errors.Is(err, fs.ErrNotExist) {
					config, err := folderConfig(args[0], g.world.env)
					if err != nil {
						return err
					}
					return openView(c.Context(), g, config, show)
				}
			}
			data, d := job.DaemonOf(g.config, g.world.env)
			if d.UI == job.UIOff {
				return errors.New("the page is switched off by daemon.ui: off; remove it, and restart 'outlierd up'")
			}
			folder := filepath.Join(data, "state")
			daemon, err := dialSoon(c.Context(), folder)
			switch {
			case err == nil && daemon.Page != "":
				return openDaemon(c.Context(), g, daemon, folder, show)
			case err != nil && !errors.Is(err, serve.ErrNoDaemon) && d.Listen != "":
				return fmt.Errorf("ask for a login: %w", err)
			}
			config, err := g.loadToRead()
			if err != nil {
				return err
			}
			return openView(c.Context(), g, config, show)
		},
	}
	c.Flags().BoolVar(&show, "print", false, "print the address, and open no browser")
	return c
}

// pageAt is the output of open for programs.
type pageAt struct {
	Address string `json:"address"`
}

// openDaemon opens the page of the daemon that uses a state folder.
func openDaemon(ctx context.Context, g *globals, daemon *serve.Client, folder string, show bool) error {
	ticket, err := daemon.Login(ctx)
	if err != nil {
		return err
	}
	login := daemon.Page + ticket.Path
	program := findBrowser()
	if show || program == "" {
		return g.out.print(pageAt{login}, "%s\n", login)
	}
	if err := g.out.print(pageAt{daemon.Page + "/"}, "%s/\n", daemon.Page); err != nil {
		return err
	}
	file, err := writeLogin(folder, login)
	if err == nil {
		err = exec.CommandContext(ctx, program, file).Run()
	}
	return sayUnopened(g, program, err, "'outlierd open --print' prints an address that logs in any browser")
}

// openView serves the published file, and opens the page in a browser.
func openView(ctx context.Context, g *globals, config *job.Config, show bool) error {
	return serveView(ctx, g, config, func(address string) error {
		program := findBrowser()
		if err := g.out.print(pageAt{address + "/"}, "%s/\n", address); err != nil || show || program == "" {
			return err
		}
		err := exec.CommandContext(ctx, program, address+"/").Run() // the address is no secret
		return sayUnopened(g, program, err, "open the address in one")
	})
}

// sayUnopened says how else to see the page if the system's program has opened no browser.
func sayUnopened(g *globals, program string, err error, remedy string) error {
	if err != nil {
		_, err = fmt.Fprintf(g.world.err, "no browser was opened: %s: %v; %s\n", program, err, remedy)
	}
	return err
}

// findBrowser returns the path of the system's program for opening files, or "".
func findBrowser() string {
	name := "xdg-open"
	if runtime.GOOS == "darwin" {
		name = "open"
	}
	path, err := exec.LookPath(name)
	if err != nil {
		return ""
	}
	return path
}

// loginFile redirects a browser to the login URL. In a program's arguments other users of the machine
// could read it.
const loginFile = "login.html"

// writeLogin writes a file that leads to an address, and that only the user can read.
func writeLogin(folder, address string) (path string, err error) {
	if path, err = filepath.Abs(filepath.Join(folder, loginFile)); err != nil {
		return "", err
	}
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return "", err
	}
	text := fmt.Sprintf("<!DOCTYPE html>\n<meta charset=\"utf-8\">\n"+
		"<meta http-equiv=\"refresh\" content=\"0;url=%[1]s\">\n<title>outlierd</title>\n"+
		"<a href=\"%[1]s\">Log in</a>\n", html.EscapeString(address))
	return path, os.WriteFile(path, []byte(text), 0o600)
}

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
	temporary := func() (*temporary, error) { return systemTemporary("outlierd-download-*") }
	var read reading
	if hasState(config) {
		read = peeking(g, config)
	}
	sources := newSources(openTables(g, config), func() *job.Config { return config }, temporary, read, log)
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
func openTables(g *globals, config *job.Config) *page.Tables {
	tables := page.NewTables(published(config), config.Timezone)
	if hasState(config) {
		tables.Marks = func() (*page.Marked, error) {
			return readBy(peeking(g, config), func(seen *program) (*page.Marked, error) { return page.MarksIn(seen.Engine.Store.DB)() })
		}
	}
	return tables
}

// peeking opens the state for each reading, as `status` does; it takes milliseconds.
func peeking(g *globals, config *job.Config) reading {
	return func(f func(*program) error) error { return g.with(context.Background(), config, toRead, f) }
}
