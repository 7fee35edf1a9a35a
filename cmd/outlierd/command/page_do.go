package command

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"
	"time"
	"unicode/utf8"

	"outlierd/cmd/outlierd/page"
	"outlierd/cmd/outlierd/report"
	"outlierd/cmd/outlierd/term"
	"outlierd/outlier"
	"outlierd/sync/engine"
	"outlierd/sync/job"
	"outlierd/sync/runs"
	"outlierd/sync/serve"
	"outlierd/sync/store"
)

// actions are the actions of a page: the same as the commands of these names.
type actions struct{ p *program }

// An act prepares an action without changing anything: it returns what is offered, and what carries it out. It returns an
// error if the action is impossible.
type act func(a actions, ctx context.Context, asked page.Action) (*page.Offer, doing, error)

// doing carries out an action that was prepared, with the program as it is then.
type doing func(a actions, ctx context.Context) (*page.Done, error)

var acts = map[string]act{
	page.RunJob: actions.offerRun, page.CancelRun: actions.offerCancel, page.PauseJob: actions.offerPause, page.ResumeJob: actions.offerResume,
	page.Lift: actions.offerLift, page.Record: actions.offerRecord,

	page.LookAlikes: actions.offerOnce, page.SearchOnce: actions.offerOnce, page.Transcript: actions.offerOnce, page.BuyRest: actions.offerRest,
	page.Follow: actions.offerFollow,
}

// inTurn runs an action between two calls of the schedule.
func inTurn(do doing) doing {
	return func(a actions, ctx context.Context) (done *page.Done, err error) {
		err = a.p.Engine.Between(ctx, func(ctx context.Context) (err error) {
			done, err = do(a, ctx)
			return err
		})
		return done, err
	}
}

// prepareAction prepares an action with the program as it is now.
func (a actions) prepareAction(ctx context.Context, asked page.Action) (offer *page.Offer, do doing, err error) {
	known := acts[asked.Verb]
	if known == nil {
		return nil, nil, fmt.Errorf("action %q: %w", asked.Verb, page.ErrUnknown)
	}
	err = a.p.read(func(seen *program) (err error) {
		offer, do, err = known(actions{seen}, ctx, asked)
		return err
	})
	return offer, do, err
}

// offerAction describes an action.
func (a actions) offerAction(ctx context.Context, asked page.Action) (*page.Offer, error) {
	offer, _, err := a.prepareAction(ctx, asked)
	return offer, forPeople(ctx, err)
}

// doAction carries out an action, if its offer is still the one that was confirmed.
func (a actions) doAction(ctx context.Context, asked page.Action) (done *page.Done, err error) {
	offer, do, err := a.prepareAction(ctx, asked)
	if err == nil && offer.Seen != asked.Seen {
		err = errChanged
	}
	if err == nil {
		done, err = do(a, ctx)
	}
	return done, forPeople(ctx, err)
}

// forPeople converts an error of an action to the message that a command would print. A failure of the disk or
// the database stays as it is: the page logs it. So does what is unknown.
func forPeople(ctx context.Context, err error) error {
	switch {
	case err == nil, errors.Is(err, page.ErrUnknown):
		return err
	case ctx.Err() != nil:
		return ctx.Err()
	}
	if !isA[*outlier.Error](err) && store.IsFailure(err) {
		return err
	}
	return &page.RefusedError{Why: term.Plain(err.Error()) + "."}
}

// errChanged refuses an action that was confirmed before the job file was edited.
var errChanged = errors.New("the job has changed since its price was shown; look at it again")

func (a actions) findSpec(name string) (*job.Spec, error) {
	config := a.p.Engine.Config
	spec := config.Job(name)
	if spec == nil {
		return nil, noJob(config, name, "")
	}
	return spec, nil
}

// offerRun starts or continues a run of a job.
func (a actions) offerRun(ctx context.Context, asked page.Action) (*page.Offer, doing, error) {
	spec, err := a.findSpec(asked.Job)
	if err != nil {
		return nil, nil, err
	}
	known := a.p.Engine.Facts()
	old, err := known.Continues(spec)
	if err != nil {
		return nil, nil, err
	}
	offer := &page.Offer{Title: "Run " + job.Shown(spec.Name), Button: "Run it", Seen: spec.Version()}
	if old == nil {
		all, err := known.Unfinished(spec, time.Time{})
		if err != nil {
			return nil, nil, err
		}
		for i := range all {
			if all[i].Closes() != "" && all[i].Run.Status != runs.Failed {
				offer.Says = append(offer.Says, describeSuperseded(a.p, &all[i]))
			}
		}
	}
	for line := range strings.Lines(describeStart(ctx, a.p.forecasts(), spec, old)) {
		offer.Says = append(offer.Says, strings.TrimSpace(line))
	}
	pauses, err := a.p.Engine.Store.Schedule.Pauses(time.Now())
	if err == nil && pauses[spec.Name] != nil {
		offer.Says = append(offer.Says, "Its schedule is "+
			report.Paused(pauses[spec.Name], a.p.Engine.Config.Timezone)+"; this run is by hand.")
	}
	return offer, startRun(engine.Order{Trigger: engine.Manual, Spec: spec, Old: old}), err
}

// startRun orders a run, and leads to it once it is recorded.
func startRun(order engine.Order) doing {
	return func(a actions, ctx context.Context) (*page.Done, error) {
		ordered, err := a.p.Engine.Order(ctx, order)
		if err != nil {
			return nil, err
		}
		return &page.Done{To: "/runs/" + ordered.Run()}, nil
	}
}

func (a actions) offerCancel(_ context.Context, asked page.Action) (*page.Offer, doing, error) {
	run, err := runUnderWay(a.p, asked.Run)
	if err != nil {
		return nil, nil, err
	}
	title := "Stop run " + report.ShortID(run.ID) + " of " + job.Shown(run.Job)
	return &page.Offer{Title: title, Button: "Stop it", Says: []string{
			"The run stops after its current call. Everything that was paid for is stored; " +
				"a later run of the job continues with the rest.",
		}}, func(a actions, ctx context.Context) (*page.Done, error) {
			return &page.Done{To: "/runs/" + run.ID}, a.p.Engine.Cancel(ctx, run.ID)
		}, nil
}

func (a actions) offerPause(_ context.Context, asked page.Action) (*page.Offer, doing, error) {
	if err := canPause(a.p.Engine.Config, asked.Job); err != nil {
		return nil, nil, err
	}
	return &page.Offer{Title: "Pause " + job.Shown(asked.Job), Button: "Pause it", Says: []string{
			"This costs nothing. Until the pause ends, neither this job nor the jobs that come after it run on schedule. " +
				"A run in progress is finished.",
		}}, inTurn(func(a actions, ctx context.Context) (*page.Done, error) {
			if utf8.RuneCountInString(asked.Why) > longestWhy {
				return nil, fmt.Errorf("the reason may have at most %d characters", longestWhy)
			}
			zone, now := a.p.Engine.Config.Timezone, time.Now()
			end, err := pauseEnd(asked.Until, now, zone)
			if err != nil {
				return nil, err
			}
			pause := runs.Pause{Job: asked.Job, Since: now, Until: end, Why: asked.Why}
			_, err = serve.PauseJobs{Pauses: []runs.Pause{pause}}.Do(ctx, a.p.Engine)
			return &page.Done{Message: job.Shown(asked.Job) + " is " + report.Paused(&pause, zone) + ".", To: "/now"}, err
		}), nil
}

func (a actions) offerResume(ctx context.Context, asked page.Action) (*page.Offer, doing, error) {
	pauses, err := a.p.Engine.Store.Schedule.Pauses(time.Now())
	if err != nil {
		return nil, nil, err
	}
	pause := pauses[asked.Job]
	if pause == nil {
		return nil, nil, fmt.Errorf("%s is not paused", job.Shown(asked.Job))
	}
	offer := &page.Offer{Title: "Resume " + job.Shown(asked.Job), Button: "Resume it", Says: []string{
		"It is " + report.Paused(pause, a.p.Engine.Config.Timezone) + ".",
	}}
	if spec := a.p.Engine.Config.Job(asked.Job); spec != nil {
		missed := map[job.CatchUp]string{
			job.CatchUpNone: "Missed due times are skipped (catch_up).",
			job.CatchUpAll:  "All missed due times run now, one after another (catch_up).",
		}
		offer.Says = append(offer.Says, cmp.Or(missed[spec.CatchUp],
			"If due times were missed, the latest one runs now (catch_up)."),
			"Each run: "+planLine(ctx, a.p.forecasts(), spec))
	}
	return offer, inTurn(func(a actions, ctx context.Context) (*page.Done, error) {
		_, err := serve.ResumeJobs{Jobs: []string{asked.Job}}.Do(ctx, a.p.Engine)
		return &page.Done{Message: job.Shown(asked.Job) + " is resumed.", To: "/now"}, err
	}), nil
}

func (a actions) offerLift(context.Context, page.Action) (*page.Offer, doing, error) {
	blocks, err := a.p.Engine.Store.Blocks.Liftable(a.p.Engine.Client.Key.Fingerprint())
	if err != nil {
		return nil, nil, err
	}
	if len(blocks) == 0 {
		return nil, nil, errors.New("no calls are blocked")
	}
	offer := &page.Offer{Title: "Resume calls", Button: "Resume them"}
	for _, b := range blocks {
		offer.Says = append(offer.Says, report.Block(b, report.Style{Zone: a.p.Engine.Config.Timezone}))
	}
	offer.Says = append(offer.Says, "This costs nothing. Waiting calls are then made, "+
		"within the caps of the job file; if the service refuses the next one, calls are blocked again.")
	return offer, inTurn(func(a actions, ctx context.Context) (*page.Done, error) {
		_, err := serve.Lift{}.Do(ctx, a.p.Engine)
		return &page.Done{Message: "Calls resume, within the caps of the job file.", To: "/now"}, err
	}), nil
}

func (a actions) offerRecord(_ context.Context, asked page.Action) (*page.Offer, doing, error) {
	return &page.Offer{Title: "Record credits", Button: "Record them", Says: []string{
			"Credits that were spent outside outlierd with the same key, such as on the service's site, count against the budget " +
				"of this cycle. A negative number records credits that were bought in addition. Nothing is charged.",
		}}, inTurn(func(a actions, ctx context.Context) (*page.Done, error) {
			switch {
			case asked.Credits == 0:
				return nil, errors.New("enter how many credits were spent, or bought as a negative number")
			case asked.Why == "" || utf8.RuneCountInString(asked.Why) > longestWhy:
				return nil, fmt.Errorf("enter the reason, in at most %d characters", longestWhy)
			}
			_, err := serve.Adjust{Credits: outlier.Credits(asked.Credits), Why: asked.Why}.Do(ctx, a.p.Engine)
			return &page.Done{Message: term.Count(asked.Credits, "credit") + " recorded.", To: "/money"}, err
		}), nil
}
