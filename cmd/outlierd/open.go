package main

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"runtime"

	"github.com/spf13/cobra"

	"outlierd/sync/job"
)

func openCommand(o *options) *cobra.Command {
	return &cobra.Command{
		Use:   "open",
		Short: "Print the address of the page and open it in a browser",
		Long: `Print the address of the page of 'outlierd up' and open it in the browser. Where there is no
browser, as on a server, the address is only printed. It needs daemon.listen.`,
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			_, d := job.DaemonOf(o.config, o.world.env)
			switch {
			case d.Listen == "":
				return errors.New("there is no page without daemon.listen; add `daemon: {listen: 127.0.0.1:7411}` to the job file")
			case d.UI == job.UIOff:
				return errors.New("the page is switched off by daemon.ui: off; remove it, and restart 'outlierd up'")
			}
			if _, err := ask(c.Context(), reachable(d.Listen), "/healthz", d.Token); err != nil {
				return fmt.Errorf("%w; start 'outlierd up'", err)
			}
			address := "http://" + reachable(d.Listen) + "/"
			if err := o.done(map[string]string{"address": address}, "%s\n", address); err != nil {
				return err
			}
			if err := browse(c.Context(), address); err != nil {
				_, err = fmt.Fprintf(o.world.err, "no browser was opened: %v\n", err)
				return err
			}
			return nil
		},
	}
}

// browse opens an address with the program that the system has for it, if it has one.
func browse(ctx context.Context, address string) error {
	command := []string{"xdg-open"}
	switch runtime.GOOS {
	case "darwin":
		command = []string{"open"}
	case "windows":
		command = []string{"rundll32", "url.dll,FileProtocolHandler"}
	}
	path, err := exec.LookPath(command[0])
	if err != nil {
		return nil // the address is printed
	}
	if err := exec.CommandContext(ctx, path, append(command[1:], address)...).Run(); err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	return nil
}
