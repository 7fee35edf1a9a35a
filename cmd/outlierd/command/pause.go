package command

import (
	"context"
	"fmt"
	"io"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/spf13/cobra"

	"outlierd/cmd/outlierd/report"
	"outlierd/sync/job"
	"outlierd/sync/runs"
	"outlierd/sync/serve"
)

// longestWhy is the maximum length of a reason, in characters.
const longestWhy = 200

func pauseCommand(g *globals) *cobra.Command {
	var until, why string
	c := &cobra.Command{
		Use: "pause JOB…", Short: "Pause the schedules of jobs",
		Long: `Pause the schedules of jobs, until --until or until 'outlierd resume'; @TAG stands for the
jobs with a tag. A run in progress is finished. No due time starts a run meanwhile. Jobs that come "after" a paused job do not run
either. When the pause ends, "catch_up" of the job decides which of the missed due times
run. The pause survives a restart. 'outlierd run JOB' runs a paused job.

--until takes a date, which begins at midnight in the timezone of the job file, a time such
as 2026-11-01T12:00Z, or a duration from now such as 12h. Pausing a paused job replaces the
pause.`,
		Example: `  outlierd pause @coffee
  outlierd pause coffee tea --until 2026-12-01 --why "budget is for the launch"`,
		RunE: g.inSession(toChange, func(ctx context.Context, p *program, names []string) error {
			config := p.Engine.Config
			names, err := expandTags(config, names, func(spec *job.Spec) error { return canPause(config, spec.Name) })
			if err != nil {
				return err
			}
			pauses, err := pausesOf(config, names, until, why)
			if err != nil {
				return err
			}
			if _, err := change(ctx, p, serve.PauseJobs{Pauses: pauses}); err != nil {
				return err
			}
			return g.out.print(pauses, "%s %s\n", strings.Join(names, ", "), report.Paused(&pauses[0], config.Timezone))
		}),
	}
	c.Flags().StringVar(&until, "until", "", "end the pause at this date or time, or after this long")
	c.Flags().StringVar(&why, "why", "", "a reason, which status and plan show")
	return c
}

// jobsResumed is the output of resume for programs.
type jobsResumed struct {
	Resumed []string `json:"resumed"`
}

func resumeCommand(g *globals) *cobra.Command {
	return &cobra.Command{
		Use: "resume JOB…", Short: "Resume the schedules of paused jobs",
		Long: `End the pauses of jobs; @TAG stands for the jobs with a tag. "catch_up" of the job decides which of the missed due times run now:
the latest one, all of them, or none.`,
		RunE: g.inSession(toChange, func(ctx context.Context, p *program, names []string) error {
			config := p.Engine.Config
			pauses, err := p.Engine.Store.Schedule.Pauses(time.Now())
			if err != nil {
				return err
			}
			if names, err = expandTags(config, names, anyJob); err != nil {
				return err
			}
			resumed, said := []string{}, ""
			for _, name := range names {
				switch {
				case pauses[name] != nil:
					resumed = append(resumed, name)
					said += name + " resumed\n"
				case config.Job(name) == nil:
					return noJob(config, name, ", and no job of that name is paused")
				default:
					said += name + " is not paused\n"
				}
			}
			if _, err := change(ctx, p, serve.ResumeJobs{Jobs: resumed}); err != nil {
				return err
			}
			return g.out.print(jobsResumed{resumed}, "%s", said)
		}),
	}
}

// canPause returns an error if a job is not in the file or has no schedule.
func canPause(config *job.Config, name string) error {
	spec := config.Job(name)
	switch {
	case spec == nil:
		return noJob(config, name, "")
	case len(spec.Schedule) == 0 && spec.Every == 0 && spec.After == "":
		return usageError{fmt.Errorf("job %s runs by hand only: it has no schedule to pause", name)}
	}
	return nil
}

// pausesOf returns the pauses of jobs from now until a date, a time or for a duration; "" for no end.
func pausesOf(config *job.Config, names []string, until, why string) (all []runs.Pause, err error) {
	pause := runs.Pause{Since: time.Now(), Why: strings.TrimSpace(why)}
	if utf8.RuneCountInString(pause.Why) > longestWhy {
		return nil, usageError{fmt.Errorf("the reason may have at most %d characters", longestWhy)}
	}
	if long, wrong := job.ParseDuration(until); wrong == nil {
		pause.Until = pause.Since.Add(time.Duration(long))
	} else if until != "" {
		if pause.Until, err = job.ParseInstant(until, config.Timezone); err != nil {
			return nil, usageError{fmt.Errorf("until %s: want a date, a time such as 2026-11-01T12:00Z or a duration such as 12h", until)}
		}
		if !pause.Until.After(pause.Since) {
			return nil, usageError{fmt.Errorf("until %s: must be in the future", until)}
		}
	}
	for _, name := range names {
		if err := canPause(config, name); err != nil {
			return nil, err
		}
		pause.Job = name
		all = append(all, pause)
	}
	return all, nil
}

// sayPaused mentions the paused schedules of jobs that are run by hand.
func sayPaused(w io.Writer, p *program, todo []jobRun) error {
	pauses, err := p.Engine.Store.Schedule.Pauses(time.Now())
	if err != nil {
		return err
	}
	for i := range todo {
		if pause := pauses[todo[i].Spec.Name]; pause != nil && !todo[i].isScheduled() {
			fmt.Fprintf(w, "%s: its schedule is %s; this run is by hand\n", pause.Job,
				report.Paused(pause, p.Engine.Config.Timezone))
		}
	}
	return nil
}
