package command

import (
	"errors"
	"log/slog"
	"os"
	"sync"
	"time"

	"github.com/spf13/cobra"

	"outlierd/sync/engine"
)

func upCommand(o *options) *cobra.Command {
	return &cobra.Command{
		Use:   "up",
		Short: "Run all jobs on their schedules until stopped",
		Long: `Run all jobs on their schedules until stopped. Runs overlap: the pages of one run are bought
before the data calls of another. Queued calls of earlier runs are made between runs.

Other commands work at the same time: 'outlierd run' and similar commands pass their work to
this process, which does it before the scheduled runs continue.

SIGTERM or ^C stops it: the call in progress may finish, all answers are stored and
published, and the next start continues from there. A second signal stops at once.

An edit of the job file takes effect within about a minute, or at once on SIGHUP
("daemon.reload"). Runs in progress finish unchanged. A file with a mistake is refused,
and the log says why. service.url, timezone, data, sinks and budget.renews need a restart.`,
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) (err error) {
			var hangup <-chan os.Signal
			if o.world.hangups != nil {
				hangup = o.world.hangups() // also of a terminal that is closed
			}
			config, err := sound(c.Context(), o.load)
			switch {
			case c.Context().Err() != nil && err != nil:
				return nil // stopped before it began
			case err != nil:
				return err
			}
			direct, err := o.logger()
			if err != nil {
				return err
			}
			buffered := newBufferedLog(o.block.Above(o.world.err))
			log, err := o.loggerTo(buffered)
			if err != nil {
				return err
			}
			go buffered.serve(direct)
			defer buffered.Close()
			p, err := o.open(c.Context(), config, toServe, log)
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
			if len(agenda) == 0 { // the page, commands, and an edit of the file still have a use for this process
				log.Warn("no job has a schedule or an interval, so none starts by itself",
					"remedy", "give one `schedule:` or `every:`, or use 'outlierd run'")
			}
			if err := p.Engine.NoteJobs(); err != nil {
				return err
			}
			logAgenda(agenda, config.Timezone, log)
			n, err := o.notifier(p)
			if err != nil {
				return err
			}
			p.warnOfSpace()
			var t runningNotifier
			t.start(c.Context(), n)
			var notifying sync.WaitGroup
			notifying.Go(func() { o.reloader(p, &t).serve(c.Context(), hangup) })
			notifying.Go(func() { newSystemd(o.world.env, log).serve(c.Context(), p.Engine.Beat) })
			p.Engine.Serve(c.Context())
			notifying.Wait()
			t.stop()
			log.Info("stopped")
			return nil
		},
	}
}

// logAgenda logs when each job is due.
func logAgenda(agenda []*engine.DueRun, zone *time.Location, log *slog.Logger) {
	for _, due := range agenda {
		if due.Paused != nil {
			log.Info("job paused", append(due.Attrs(zone), "paused", pauseText(due.Paused, zone))...)
		} else {
			log.Info("job scheduled", append(due.Attrs(zone), "trigger", due.Trigger)...)
		}
	}
}
