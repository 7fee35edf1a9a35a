package command

import (
	"context"
	"errors"
	"fmt"
	"html"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"

	"github.com/spf13/cobra"

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
	if show || findBrowser() == "" {
		return g.out.print(pageAt{login}, "%s\n", login)
	}
	return openBrowser(g, daemon.Page, func(program string) error { return openLogin(ctx, program, folder, login) },
		"'outlierd open --print' prints an address that logs in any browser")
}

// openView serves the published file, and opens the page in a browser.
func openView(ctx context.Context, g *globals, config *job.Config, show bool) error {
	return serveView(ctx, g, config, func(address string) error {
		return openBrowser(g, address, func(program string) error {
			if show || program == "" {
				return nil
			}
			return exec.CommandContext(ctx, program, address+"/").Run() // the address is no secret
		}, "open the address in one")
	})
}

// openBrowser prints the address of the page, and opens it with the system's program for that, or says how else to see it.
func openBrowser(g *globals, address string, open func(program string) error, remedy string) error {
	if err := g.out.print(pageAt{address + "/"}, "%s/\n", address); err != nil {
		return err
	}
	program := findBrowser()
	if err := open(program); err != nil {
		_, err = fmt.Fprintf(g.world.err, "no browser was opened: %s: %v; %s\n", program, err, remedy)
		return err
	}
	return nil
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

// openLogin opens an address with a program, through a file that only the user can read.
func openLogin(ctx context.Context, program, folder, address string) error {
	path, err := filepath.Abs(filepath.Join(folder, loginFile))
	if err != nil {
		return err
	}
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	text := fmt.Sprintf("<!DOCTYPE html>\n<meta charset=\"utf-8\">\n"+
		"<meta http-equiv=\"refresh\" content=\"0;url=%[1]s\">\n<title>outlierd</title>\n"+
		"<a href=\"%[1]s\">Log in</a>\n", html.EscapeString(address))
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		return err
	}
	return exec.CommandContext(ctx, program, path).Run()
}
