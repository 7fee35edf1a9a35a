package main

import (
	"errors"
	"fmt"
	"os/signal"
	"sync"
	"syscall"
	"time"

	"github.com/spf13/cobra"
)

func upCommand(o *options) *cobra.Command {
	return &cobra.Command{
		Use:   "up",
		Short: "Run all jobs on their schedules until stopped",
		Long: `Run all jobs on their schedules until stopped. Runs overlap: the pages of one run are
bought before another's calls about its hits. Queued calls of earlier runs are made between
runs.

Other commands work beside it: 'outlierd run' and the like hand their work over, which is
done before the scheduled runs go on.

At a terminal it shows what runs, what is due next, budget and pace below the log.

SIGTERM or ^C stops it: the call in progress may finish, what arrived is stored and
published, and the next start continues from there. A second signal stops at once. SIGHUP
is ignored.`,
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) (err error) {
			signal.Ignore(syscall.SIGHUP) // a terminal that is closed, or a service manager that asks for a reload
			config, err := sound(c.Context(), o.load)
			switch {
			case c.Context().Err() != nil && err != nil:
				return nil // stopped before it began
			case err != nil:
				return err
			}
			log, err := o.logger()
			if err != nil {
				return err
			}
			p, err := o.open(c.Context(), config, log, true)
			switch {
			case c.Context().Err() != nil && err != nil:
				return nil // stopped before it began
			case err != nil:
				return err
			}
			defer func() { err = errors.Join(err, p.Close()) }()
			web, err := o.listen(c.Context(), p)
			if err != nil {
				return err
			}
			defer func() { err = errors.Join(err, web.close()) }()
			agenda, err := p.Engine.Agenda(time.Now())
			if err != nil {
				return err
			}
			if len(agenda) == 0 {
				return fmt.Errorf("no job of %s has a schedule or an interval; give one `schedule:` or `every:`, or use 'outlierd run'", config.Path)
			}
			if err := p.Engine.NoteJobs(); err != nil {
				return err
			}
			if err := o.announce(p, agenda); err != nil {
				return err
			}
			n, err := o.notifier(p)
			if err != nil {
				return err
			}
			p.warnOfSpace()
			var notifying sync.WaitGroup
			notifying.Go(func() { n.serve(c.Context()) })
			notifying.Go(func() { newSystemd(o.world.env, log).serve(c.Context(), p.Engine.Beat) })
			defer o.live(c.Context(), p)()
			p.server.Ready()
			p.Engine.Serve(c.Context(), agenda)
			notifying.Wait()
			log.Info("stopped")
			return nil
		},
	}
}
