package command

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"outlierd/cmd/outlierd/report"
	"outlierd/cmd/outlierd/term"
	"outlierd/sinks/duckdb/query"
	"outlierd/sync/engine"
	"outlierd/sync/job"
	"outlierd/sync/queue"
	"outlierd/sync/runs"
)

// reportRun collects the summary of a run and prints it. The caller prints the error of a failed run,
// so that it is not printed twice.
func (r *runner) reportRun(ctx context.Context, row *runs.Run, began time.Time, failed error) error {
	store := r.p.Engine.Store
	end, err := runOf(store, row)
	if err != nil {
		return err
	}
	if end.Endings, err = engine.Endings(r.p.Engine.Facts(), row); err != nil {
		return err
	}
	if err := r.offerRest(end); err != nil {
		return err
	}
	if end.Retry, err = store.Queue.NextRetry(time.Now(), queue.Filter{Job: row.Job}); err != nil {
		return err
	}
	if end.Distinct, err = store.Hits.Distinct(row.ID); err != nil {
		return err
	}
	if end.Since = row.Started; began.After(end.Since) { // the command has continued it
		end.Since = began
	}
	r.g.spending.outcomes = append(r.g.spending.outcomes, end)
	var places []string
	for _, s := range r.p.Engine.Config.Sinks {
		if places = append(places, report.Path(sinkPath(r.p.Engine.Config, s))); s.Bucket != "" {
			places = append(places, s.Bucket)
		}
	}
	fmt.Fprint(r.g.out.w, report.Summary(end, places, failed, r.g.out.look()))
	r.reportBest(ctx, row)
	return nil
}

// reportBest prints the titles of the best hits, and the command that shows more. A published file that cannot be read
// is not an error of the run.
func (r *runner) reportBest(ctx context.Context, row *runs.Run) {
	titles, more, err := bestTitles(ctx, r.p, row)
	if err != nil && ctx.Err() == nil {
		fmt.Fprintf(r.g.out.w, "  the best hits cannot be shown: %s\n", term.Plain(err.Error()))
	}
	if len(titles) == 0 {
		return
	}
	command := fmt.Sprintf("sql %q", more)
	if r.p.daemon != nil && r.p.Engine.Config.Daemon.Listen != "" {
		command = "open"
	}
	fmt.Fprintf(r.g.out.w, "  the best are:\n    %s\n  more: %s\n", strings.Join(titles, "\n    "), r.g.typed(command))
}

// bestTitles returns the titles of the three best hits of a run of a job, as far as they are published, and a query that
// shows more.
func bestTitles(ctx context.Context, p *program, row *runs.Run) (titles []string, more string, err error) {
	spec, path := p.Engine.Config.Job(row.Job), published(p.Engine.Config)
	if spec == nil || path == "" || row.Hits == 0 || !row.Status.EndedWell() {
		return nil, "", nil
	}
	hits, err := p.Engine.Store.Hits.Best(row.ID, runs.Choice{Most: 3, All: true, Desc: !spec.EnrichSort.Ascending})
	if err != nil {
		return nil, "", err
	}
	var ids []string
	for _, hit := range hits {
		ids = append(ids, hit.VideoID)
	}
	text, more := query.RowsOf("outliers", "video_id", "t.title, t.channel_title", "", ids), best
	if spec.Verb == job.VerbFindChannels {
		more = "select title, handle, subscribers from found_channels order by subscribers desc limit 10"
		text = query.RowsOf("found_channels", "channel_id", "t.title, t.handle", "", ids)
	}
	err = query.Run(ctx, path, text, nil, func(values []any) error {
		title, _ := values[0].(string)
		channel, _ := values[1].(string)
		titles = append(titles, report.Title(title, channel))
		return nil
	})
	if errors.Is(err, query.ErrNotPublished) {
		return nil, "", nil
	}
	return titles, more, err
}

// offerRest adds the command that buys the rest to the outcome of a run.
func (r *runner) offerRest(end *report.Run) error {
	if !end.Status.EndedWell() || !slices.ContainsFunc(end.Endings, func(e engine.Ending) bool { return e.Leaves() }) {
		return nil
	}
	spec := engine.RestSpec(r.p.Engine.Config, &end.Run)
	if spec == nil {
		return nil
	}
	rest, err := engine.FindRest(r.p.Engine.Facts(), spec, &end.Run)
	if err != nil || rest.Nothing() {
		return err
	}
	end.Rest = rest
	for i := range end.Endings {
		if end.Endings[i].Leaves() {
			name := end.Job + " "
			if report.IsOnce(end.Job) {
				name = "" // it is not the name of a job in the file
			}
			end.Endings[i].Rest = r.g.typed("run " + name + spec.Flags)
		}
	}
	return nil
}
