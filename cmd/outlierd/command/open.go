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

func openCommand(o *options) *cobra.Command {
	var show bool
	c := &cobra.Command{
		Use:   "open",
		Short: "Open the page in a browser, logged in",
		Long: `Open the page of 'outlierd up' in the browser, log in for 12 hours, and print the address. Only
the daemon's user can do this. It needs daemon.listen.

Without a browser, as on a server or in a container, it prints a login URL, which can be used
once and within a minute. --print always prints one.`,
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			data, d := job.DaemonOf(o.config, o.world.env)
			switch {
			case d.Listen == "":
				return errors.New("there is no page without daemon.listen; " +
					"add `daemon: {listen: 127.0.0.1:7411}` to the job file")
			case d.UI == job.UIOff:
				return errors.New("the page is switched off by daemon.ui: off; remove it, and restart 'outlierd up'")
			}
			if _, err := ask(c.Context(), reachable(d.Listen), "/healthz", d.Token); err != nil {
				return fmt.Errorf("%w; start 'outlierd up'", err)
			}
			folder := filepath.Join(data, "state")
			daemon, err := serve.Dial(c.Context(), folder)
			if err != nil {
				return fmt.Errorf("ask for a login: %w", err)
			}
			ticket, err := daemon.Login(c.Context())
			if err != nil {
				return err
			}
			address := "http://" + reachable(d.Listen)
			program := browser()
			if show || program == "" {
				return o.done(map[string]string{"address": address + ticket.Path}, "%s\n", address+ticket.Path)
			}
			if err := o.done(map[string]string{"address": address + "/"}, "%s/\n", address); err != nil {
				return err
			}
			if err := browse(c.Context(), program, folder, address+ticket.Path); err != nil {
				_, err = fmt.Fprintf(o.world.err, "no browser was opened: %v; "+
					"'outlierd open --print' prints an address that logs in any browser\n", err)
				return err
			}
			return nil
		},
	}
	c.Flags().BoolVar(&show, "print", false, "print a one-time login URL, and open no browser")
	return c
}

// browser returns the path of the system's program for opening files, or "".
func browser() string {
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

// browse opens an address with a program, through a file that only the user can read.
func browse(ctx context.Context, program, folder, address string) error {
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
	if err := exec.CommandContext(ctx, program, path).Run(); err != nil {
		return fmt.Errorf("%s: %w", program, err)
	}
	return nil
}
