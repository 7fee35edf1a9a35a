package command

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"outlierd/cmd/outlierd/page"
	"outlierd/cmd/outlierd/term"
	"outlierd/outlier"
	"outlierd/sync/engine"
	"outlierd/sync/facts"
	"outlierd/sync/job"
	"outlierd/sync/marks"
	"outlierd/sync/serve"
)

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

// onceOf returns the title of a one-off request and its job.
func (a actions) onceOf(asked page.Action) (title string, spec *job.Spec, err error) {
	verb, body, id := job.VerbVideos, wishes{}, ""
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
		verb, body[asked.By] = job.VerbRelated, []string{of}
		if asked.By == "thumbnail_video_id" {
			body[asked.By] = of
		}
	case page.SearchOnce:
		if asked.Query == "" {
			return "", nil, errors.New("enter what to search for")
		}
		title = fmt.Sprintf("Search once for %q", term.Clip(asked.Query, 100))
		verb, body["query"] = job.VerbSearch, []string{asked.Query}
	default:
		title = "Fetch the transcript of video " + id
		body["id"], body["fetch"] = []string{id}, []outlier.Operation{outlier.OpTranscript}
	}
	spec, err = (&request{verb: verb, job: wishes{string(verb): body}}).spec(a.seen.Engine.Config)
	return title, spec, err
}

// offerOnce makes a one-off request, whose offer has its maximum cost and what the budget leaves. It costs nothing if its
// only page is in the journal.
func (a actions) offerOnce(ctx context.Context, asked page.Action) (*page.Offer, error) {
	title, spec, err := a.onceOf(asked)
	if err != nil {
		return nil, err
	}
	plan, cost, err := a.seen.forecasts().WorstCase(ctx, spec, false)
	if err != nil {
		return nil, err
	}
	reused, err := engine.InJournal(a.seen.Engine.Facts(), plan)
	if err != nil {
		return nil, err
	}
	offer, price := &page.Offer{Title: title}, cost.Credits
	switch {
	case asked.Verb == page.Transcript:
		offer.Button = "Fetch it: free"
	case reused > 0:
		price = 0
		offer.Says = []string{"Its first page of hits was bought a short time ago. It is reused."}
		offer.Button = "Search: free"
	default:
		offer.Says = []string{"It buys the first page of hits, at most 40."}
		offer.Button = "Search: at most " + term.Count(price, "credit")
	}
	offer.Seen, offer.Do = seenOnce(spec, price), a.startRun(engine.Order{Trigger: engine.Manual, Afresh: true, Spec: spec})
	return offer, a.sayLeft(offer, price)
}

// seenOnce identifies a one-off request and its price.
func seenOnce(spec *job.Spec, price outlier.Credits) string {
	return fmt.Sprintf("%s-%d", spec.Version(), price)
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
	known := a.seen.forecasts()
	next, err := known.Next(ctx, spec, false)
	if err != nil {
		return nil, err
	}
	price := next.Cost.Credits
	offer := &page.Offer{Title: "Buy the rest of the searches of " + job.Shown(spec.Name),
		Button: "Buy it: at most " + term.Count(price, "credit"), Seen: seenOnce(spec, price)}
	for line := range strings.Lines(describeStart(ctx, known, spec, next.Old)) {
		offer.Says = append(offer.Says, strings.TrimSpace(line))
	}
	offer.Do = a.startRun(engine.Order{Trigger: engine.Manual, Spec: spec, Old: next.Old})
	return offer, a.sayLeft(offer, price)
}

// # Following a channel
//
// A followed channel is one of whose videos a person has tagged "follow". So following is data like other
// marks: it is undone in the same place, is backed up and erased with them, and no file of the user is
// rewritten. A channels job decides by its SQL what it costs.

const (
	followTag = "follow"
	followSQL = "select channel_id from outliers join marks using (video_id) where list_contains(tags, 'follow')"
)

func (a actions) offerFollow(_ context.Context, asked page.Action) (*page.Offer, error) {
	id, err := outlier.ParseVideoID(asked.Video)
	if err != nil {
		return nil, err
	}
	offer := &page.Offer{Title: "Follow the channel of video " + id, Button: "Follow it: free", Says: []string{
		"The video gets the tag \u201cfollow\u201d. To end it, remove the tag.",
	}}
	if jobs := a.jobsOfFollowed(); len(jobs) > 0 {
		offer.Says = append(offer.Says, strings.Join(jobs, ", ")+" fetches the uploads of followed channels, "+
			"from the next run on.")
	} else {
		offer.Says = append(offer.Says, "No job of the job file fetches the uploads of followed channels yet. This one does: "+
			`follow: {every: 1d, channels: {id: {sql: "`+followSQL+`"}}}`)
	}
	offer.Do = func(ctx context.Context) (*page.Done, error) {
		_, err := serve.EditMarks{Edit: marks.Edit{Videos: []string{id}, Tag: []string{followTag}}}.Do(ctx, a.runs.Engine)
		return &page.Done{To: "/videos/" + id}, err
	}
	return offer, nil
}

// jobsOfFollowed returns the channels jobs whose SQL reads the tag.
func (a actions) jobsOfFollowed() (names []string) {
	for i := range a.seen.Engine.Config.Jobs {
		spec := &a.seen.Engine.Config.Jobs[i]
		reads := slices.ContainsFunc(spec.SQL(), func(q job.Query) bool {
			return strings.Contains(q.SQL, "marks") && strings.Contains(q.SQL, "'"+followTag+"'")
		})
		if spec.Verb == job.VerbChannels && reads {
			names = append(names, job.Shown(spec.Name))
		}
	}
	return names
}
