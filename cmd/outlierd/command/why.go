package command

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"outlierd/cmd/outlierd/report"
	"outlierd/cmd/outlierd/term"
	"outlierd/outlier"
	"outlierd/sinks/duckdb/query"
	"outlierd/sync/facts"
	"outlierd/sync/ledger"
	"outlierd/sync/queue"
	"outlierd/sync/runs"
	"outlierd/sync/state"
)

func whyCommand(g *globals) *cobra.Command {
	return &cobra.Command{
		Use:   "why VIDEO_ID|URL",
		Short: "Show which searches found a video, and what it cost",
		Long: `Show which job, run, search, page and rank found a video or a channel, given by id or
address, earliest first; which calls about it and its channel followed; and what each cost
in credits, and how long they waited for the rate limit.

A page has one price for all its hits, so the price is shown with their number.`,
		Example: `  outlierd why dQw4w9WgXcQ
  outlierd why https://youtu.be/dQw4w9WgXcQ -o json`,
		RunE: func(c *cobra.Command, args []string) error {
			id, err := parseAnyID(args[0])
			if err != nil {
				return usageError{err}
			}
			return g.withState(c.Context(), toRead, func(ctx context.Context, p *program) error {
				why, err := originOf(ctx, p.Engine.Store, published(p.Engine.Config), id)
				if err != nil {
					return err
				}
				if err := explainUnfinished(why, p.Engine.Facts()); err != nil {
					return err
				}
				return g.out.print(why, "%s", report.Why(why, g.out.zone))
			})
		},
	}
}

// parseAnyID parses the id of a video or a channel.
func parseAnyID(text string) (string, error) {
	id, err := outlier.ParseVideoID(text)
	if err == nil {
		return id, nil
	}
	if channel, other := outlier.ParseChannelID(text); other == nil {
		return channel, nil
	}
	return "", err
}

// originOf collects the records of an id, and for a video those of its channel. The titles come from the published file,
// if there is one.
func originOf(ctx context.Context, store *state.Store, path, id string) (*report.Origin, error) {
	why := &report.Origin{ID: id, Sightings: []report.Sighting{}, Calls: []ledger.Call{}, Waiting: []queue.Waiting{}}
	times, err := store.Hits.Sightings(id)
	if err != nil {
		return nil, err
	}
	if why.Imported, err = store.Hits.ImportOf(id); err != nil {
		return nil, err
	}
	ids := []string{id}
	for _, seen := range times {
		one := report.NewSighting(seen)
		if one.Rule, err = ruleOf(store, &seen); err != nil {
			return nil, err
		}
		why.Sightings = append(why.Sightings, one)
		if seen.Channel != "" && !slices.Contains(ids, seen.Channel) {
			ids = append(ids, seen.Channel)
		}
	}
	for _, id := range ids {
		calls, err := store.Calls.About(id)
		if err != nil {
			return nil, err
		}
		why.Calls = append(why.Calls, calls...)
	}
	slices.SortStableFunc(why.Calls, func(a, b ledger.Call) int { return a.AnsweredAt.Compare(b.AnsweredAt) })
	waiting, err := store.Queue.PendingFor(ids...)
	if err != nil {
		return nil, err
	}
	why.Waiting = append(why.Waiting, waiting...)
	if len(why.Sightings)+len(why.Calls)+len(why.Waiting) == 0 && why.Imported == nil {
		return nil, fmt.Errorf("%s is not in this data folder: no search found it, and no call requested it", id)
	}
	if isMissing(path) {
		return why, nil // the records have everything else
	}
	title, channel, err := query.TitleOf(ctx, path, id)
	why.Title, why.Channel = term.Raw(title), term.Raw(channel)
	return why, err
}

// explainUnfinished adds what becomes of the runs that have not ended, and why.
func explainUnfinished(w *report.Origin, known *facts.Reader) error {
	jobs, fates := map[string]bool{}, map[string]facts.Unfinished{} // by name, and by run
	for i := range w.Sightings {
		s := &w.Sightings[i]
		if spec := known.Config.Job(s.Job); spec != nil && !jobs[s.Job] {
			all, err := known.Unfinished(spec, time.Time{})
			if err != nil {
				return err
			}
			for _, u := range all {
				fates[u.Run.ID] = u
			}
			jobs[s.Job] = true
		}
		if u, is := fates[s.Run]; is {
			s.Fate, s.FateWhy = u.Fate, u.Why
		}
	}
	return nil
}

// ruleOf returns why `schedule: auto` bought the search of a sighting; "" for other runs.
func ruleOf(store *state.Store, b *runs.Sighting) (string, error) {
	row, err := store.Runs.Get(b.Run)
	if err != nil || row == nil || row.Plan == nil || row.Plan.Auto == nil {
		return "", err
	}
	a := row.Plan.Auto
	for i := range a.Choices {
		if c := &a.Choices[i]; c.Name == b.Item || len(a.Choices) == 1 {
			return c.Explain(a), nil
		}
	}
	return "", nil
}
