package command

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"
	"unicode/utf8"

	"outlierd/cmd/outlierd/page"
	"outlierd/cmd/outlierd/report"
	"outlierd/cmd/outlierd/term"
	"outlierd/outlier"
	"outlierd/sync/engine"
	"outlierd/sync/facts"
	"outlierd/sync/forecast"
	"outlierd/sync/job"
	"outlierd/sync/runs"
	"outlierd/sync/serve"
	"outlierd/sync/store"
)

// actions are the actions of a page: the same as the commands of these names. They are prepared with the program as it
// is seen, and carried out by the one that runs.
type actions struct{ runs, seen *program }

var acts = map[string]func(actions, context.Context, page.Action) (*page.Offer, error){
	page.RunJob: actions.offerRun, page.CancelRun: actions.offerCancel, page.PauseJob: actions.offerPause, page.ResumeJob: actions.offerResume,
	page.Lift: actions.offerLift, page.Record: actions.offerRecord,

	page.LookAlikes: actions.offerOnce, page.SearchOnce: actions.offerOnce, page.Transcript: actions.offerOnce, page.BuyRest: actions.offerRest,
}

// offerAction prepares an action without changing anything. It returns an error if the action is impossible.
func (p *program) offerAction(ctx context.Context, asked page.Action) (offer *page.Offer, err error) {
	known := acts[asked.Verb]
	if known == nil {
		return nil, fmt.Errorf("action %q: %w", asked.Verb, page.ErrUnknown)
	}
	err = p.read(func(seen *program) (err error) {
		offer, err = known(actions{p, seen}, ctx, asked)
		return err
	})
	if err != nil {
		return nil, forPeople(ctx, err)
	}
	do := offer.Do
	offer.Do = func(ctx context.Context) (string, error) {
		next, err := do(ctx)
		return next, forPeople(ctx, err)
	}
	return offer, nil
}

// makeChange returns what makes a change between two calls of the schedule, and then shows the page at a path.
func makeChange[R any](a actions, c serve.Change[R], next string) func(context.Context) (string, error) {
	return func(ctx context.Context) (string, error) {
		return next, a.runs.Engine.Between(ctx, func(ctx context.Context) error {
			_, err := c.Do(ctx, a.runs.Engine)
			return err
		})
	}
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
	return serve.Refuse(http.StatusConflict, "%s.", term.Plain(err.Error()))
}

func (a actions) findSpec(name string) (*job.Spec, error) {
	config := a.seen.Engine.Config
	spec := config.Job(name)
	if spec == nil {
		return nil, noJob(config, name, "")
	}
	return spec, nil
}

// offerRun starts or continues a run of a job.
func (a actions) offerRun(ctx context.Context, asked page.Action) (*page.Offer, error) {
	spec, err := a.findSpec(asked.Job)
	if err != nil {
		return nil, err
	}
	known := a.seen.Engine.Facts()
	old, err := known.Continues(spec)
	if err != nil {
		return nil, err
	}
	offer := &page.Offer{Title: "Run " + job.Shown(spec.Name), Button: "Run it", Seen: spec.Version()}
	if old == nil {
		all, err := known.Unfinished(spec, time.Time{})
		if err != nil {
			return nil, err
		}
		for i := range all {
			if old, why := &all[i].Run, all[i].Closes(); why != "" && old.Status != runs.Failed {
				offer.Says = append(offer.Says, fmt.Sprintf("Run %s (%s) is superseded: %s.", report.ShortID(old.ID), old.Status, why))
			}
		}
	}
	offer.Says = append(offer.Says, startLines(ctx, a.seen.forecasts(), spec, old)...)
	pauses, err := a.seen.Engine.Store.Schedule.Pauses(time.Now())
	if err == nil && pauses[spec.Name] != nil {
		offer.Says = append(offer.Says, "Its schedule is "+
			report.Paused(pauses[spec.Name], a.seen.Engine.Config.Timezone)+"; this run is by hand.")
	}
	offer.Do = a.startRun(engine.Order{Trigger: engine.Manual, Spec: spec, Old: old})
	return offer, err
}

// startRun orders a run, and leads to it once it is recorded.
func (a actions) startRun(order engine.Order) func(context.Context) (string, error) {
	return func(ctx context.Context) (string, error) {
		ordered, err := a.runs.Engine.Order(ctx, order)
		if err != nil {
			return "", err
		}
		return "/runs/" + ordered.Run(), nil
	}
}

func (a actions) offerCancel(_ context.Context, asked page.Action) (*page.Offer, error) {
	run, err := runUnderWay(a.seen, asked.Run)
	if err != nil {
		return nil, err
	}
	title := "Stop run " + report.ShortID(run.ID) + " of " + job.Shown(run.Job)
	return &page.Offer{Title: title, Button: "Stop it", Says: []string{
		"The run stops after its current call. Everything that was paid for is stored; " +
			"a later run of the job continues with the rest.",
	}, Do: func(ctx context.Context) (string, error) {
		return "/runs/" + run.ID, a.runs.Engine.Cancel(ctx, run.ID)
	}}, nil
}

func (a actions) offerPause(_ context.Context, asked page.Action) (*page.Offer, error) {
	pauses, err := pausesOf(a.seen.Engine.Config, []string{asked.Job}, asked.Until, asked.Why)
	if err != nil {
		return nil, err
	}
	return &page.Offer{Title: "Pause " + job.Shown(asked.Job), Button: "Pause it", Says: []string{
		"This costs nothing. Until the pause ends, neither this job nor the jobs that come after it run on schedule. " +
			"A run in progress is finished.",
	}, Do: makeChange(a, serve.PauseJobs{Pauses: pauses}, "/now")}, nil
}

func (a actions) offerResume(ctx context.Context, asked page.Action) (*page.Offer, error) {
	pauses, err := a.seen.Engine.Store.Schedule.Pauses(time.Now())
	if err != nil {
		return nil, err
	}
	pause := pauses[asked.Job]
	if pause == nil {
		return nil, fmt.Errorf("%s is not paused", job.Shown(asked.Job))
	}
	offer := &page.Offer{Title: "Resume " + job.Shown(asked.Job), Button: "Resume it", Says: []string{
		"It is " + report.Paused(pause, a.seen.Engine.Config.Timezone) + ".",
	}}
	if spec := a.seen.Engine.Config.Job(asked.Job); spec != nil {
		missed := map[job.CatchUp]string{
			job.CatchUpNone: "Missed due times are skipped (catch_up).",
			job.CatchUpAll:  "All missed due times run now, one after another (catch_up).",
		}
		offer.Says = append(offer.Says, cmp.Or(missed[spec.CatchUp],
			"If due times were missed, the latest one runs now (catch_up)."),
			"Each run: "+planLine(ctx, a.seen.forecasts(), spec))
	}
	offer.Do = makeChange(a, serve.ResumeJobs{Jobs: []string{asked.Job}}, "/now")
	return offer, nil
}

func (a actions) offerLift(context.Context, page.Action) (*page.Offer, error) {
	blocks, err := a.seen.Engine.Store.Blocks.Liftable(a.seen.Engine.Client.Key.Fingerprint())
	if err != nil {
		return nil, err
	}
	if len(blocks) == 0 {
		return nil, errors.New("no calls are blocked")
	}
	offer := &page.Offer{Title: "Resume calls", Button: "Resume them"}
	for _, b := range blocks {
		offer.Says = append(offer.Says, report.Block(b, report.Style{Zone: a.seen.Engine.Config.Timezone}))
	}
	offer.Says = append(offer.Says, "This costs nothing. Waiting calls are then made, "+
		"within the caps of the job file; if the service refuses the next one, calls are blocked again.")
	offer.Do = makeChange(a, serve.Lift{}, "/now")
	return offer, nil
}

func (a actions) offerRecord(_ context.Context, asked page.Action) (*page.Offer, error) {
	return &page.Offer{Title: "Record credits", Button: "Record them", Says: []string{
		"Credits that were spent outside outlierd with the same key, such as on the service's site, count against the budget " +
			"of this cycle. A negative number records credits that were bought in addition. Nothing is charged.",
	}, Do: func(ctx context.Context) (string, error) {
		switch {
		case asked.Credits == 0:
			return "", errors.New("enter how many credits were spent, or bought as a negative number")
		case asked.Why == "" || utf8.RuneCountInString(asked.Why) > maxReason:
			return "", fmt.Errorf("enter the reason, in at most %d characters", maxReason)
		}
		return makeChange(a, serve.Adjust{Credits: outlier.Credits(asked.Credits), Why: asked.Why}, "/money")(ctx)
	}}, nil
}

// # One-off requests from the page
//
// They are the requests of the commands related, search and transcript, and `run --rest`: with their
// prices, caps and reuse of stored pages.

// lookAlikes has the parameters by which a video's look-alikes are searched, and what they resemble.
var lookAlikes = map[string]string{
	"thumbnail_video_id": "a thumbnail like that of video %s",
	"title":              "a title like %q",
	"video_id":           "the topic of video %s",
}

// readOnce returns the title of a one-off request and its job.
func (a actions) readOnce(asked page.Action) (title string, spec *job.Spec, err error) {
	verb, keys, id := job.VerbVideos, job.Keys{}, ""
	if asked.Video != "" {
		if id, err = outlier.ParseVideoID(asked.Video); err != nil {
			return "", nil, err
		}
	}
	switch asked.Verb {
	case page.LookAlikes:
		of, like := id, lookAlikes[asked.By]
		if like == "" {
			return "", nil, fmt.Errorf("look-alikes by %q: %w", asked.By, page.ErrUnknown)
		}
		if asked.By == "title" {
			of = asked.Title
		}
		title = "Find videos with " + fmt.Sprintf(like, term.Clip(of, 100))
		verb, keys[asked.By] = job.VerbRelated, []string{of}
	case page.SearchOnce:
		if asked.Query == "" {
			return "", nil, errors.New("enter what to search for")
		}
		title = fmt.Sprintf("Search once for %q", term.Clip(asked.Query, 100))
		verb, keys["query"] = job.VerbSearch, []string{asked.Query}
	default:
		title = "Fetch the transcript of video " + id
		keys["id"], keys["fetch"] = []string{id}, []string{string(outlier.OpTranscript)}
	}
	spec, err = onceSpec(a.seen.Engine.Config, onceOf(verb, keys), job.Overrides{})
	return title, spec, err
}

// offerOnce makes a one-off request.
func (a actions) offerOnce(ctx context.Context, asked page.Action) (*page.Offer, error) {
	title, spec, err := a.readOnce(asked)
	if err != nil {
		return nil, err
	}
	button := "Search"
	if asked.Verb == page.Transcript {
		button = "Fetch it"
	}
	return a.offerPriced(ctx, title, button, jobRun{Order: engine.Order{Trigger: engine.Manual, Afresh: true, Spec: spec}})
}

// offerPriced offers a run with its maximum cost and what the budget leaves. A one-off request costs nothing if its only
// page is in the journal.
func (a actions) offerPriced(ctx context.Context, title, button string, run jobRun) (*page.Offer, error) {
	known := run.newForecasts(a.seen)
	next, err := known.Next(ctx, run.Spec, false)
	if err != nil {
		return nil, err
	}
	reused, err := engine.InJournal(known.Reader, next.Plan)
	if err != nil {
		return nil, err
	}
	run.Old = next.Old
	offer, price := &page.Offer{Title: title, Button: button + ": free", Do: a.startRun(run.Order)}, next.Cost.Credits
	switch {
	case run.Afresh && reused > 0:
		price = 0
		offer.Says = []string{"Its first page of hits was bought a short time ago. It is reused."}
	case run.Afresh && price > 0:
		offer.Says = []string{"It buys the first page of hits, at most 40."}
	case !run.Afresh:
		offer.Says = startLines(ctx, known, run.Spec, next.Old)
	}
	if price > 0 {
		offer.Button = button + ": at most " + term.Count(price, "credit")
	}
	offer.Seen = fmt.Sprintf("%s-%d", run.Spec.Version(), price)
	return offer, a.sayLeft(offer, price)
}

// startLines are the lines of [describeStart].
func startLines(ctx context.Context, known *forecast.Reader, spec *job.Spec, old *runs.Run) (lines []string) {
	for line := range strings.Lines(describeStart(ctx, known, spec, old)) {
		lines = append(lines, strings.TrimSpace(line))
	}
	return lines
}

// sayLeft adds how many credits the cycle leaves to an offer with a price, or refuses it if not one page could
// be bought.
func (a actions) sayLeft(offer *page.Offer, price outlier.Credits) error {
	caps := a.seen.Engine.Facts().Caps()
	month, err := caps.OfMonth(caps.Clock.Now())
	if err != nil {
		return err
	}
	left := month.Left
	switch {
	case left == nil:
		offer.Says = append(offer.Says, "The job file sets no cap for the cycle.")
	case *left < min(price, a.seen.Engine.Config.Service.Prices.Of(outlier.OpSearch, "")):
		return fmt.Errorf("this costs at most %s, and the budget of this cycle leaves %d", term.Count(price, "credit"), *left)
	case *left < price:
		offer.Says = append(offer.Says, fmt.Sprintf("Left in this cycle: %s, so it ends there.", term.Count(*left, "credit")))
	default:
		offer.Says = append(offer.Says, fmt.Sprintf("Left in this cycle: %s.", term.Count(*left, "credit")))
	}
	return nil
}

// offerRest buys what the searches of a run left.
func (a actions) offerRest(ctx context.Context, asked page.Action) (*page.Offer, error) {
	e := a.seen.Engine
	row, err := e.Store.Runs.Get(asked.Run)
	if err != nil {
		return nil, err
	}
	if row == nil {
		return nil, fmt.Errorf("run %s: %w", asked.Run, page.ErrUnknown)
	}
	spec := facts.RestSpec(e.Config, row)
	if spec == nil {
		return nil, fmt.Errorf("the job file no longer has the job %s, whose caps apply to the run", job.Shown(row.Job))
	}
	return a.offerPriced(ctx, "Buy the rest of the searches of "+job.Shown(spec.Name), "Buy it",
		jobRun{Order: engine.Order{Trigger: engine.Manual, Spec: spec}})
}
