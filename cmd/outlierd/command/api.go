package command

import (
	"context"
	"errors"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"outlierd/cmd/outlierd/page"
	"outlierd/cmd/outlierd/pagedata"
	"outlierd/cmd/outlierd/report"
	"outlierd/cmd/outlierd/term"
	"outlierd/outlier"
	"outlierd/sync/engine"
	"outlierd/sync/serve"
)

// documents returns what the interface of a daemon answers with: what commands print with -o json.
func (p *program) documents(tables *pagedata.Tables) serve.Documents {
	return serve.Documents{
		Status: func(ctx context.Context) (any, error) {
			return readBy(p.read, func(seen *program) (any, error) { return statusOf(ctx, seen) })
		},
		Budget: func(ctx context.Context) (any, error) {
			return readBy(p.read, func(seen *program) (any, error) { return budgetOf(ctx, seen) })
		},
		Run: func(_ context.Context, id string) (any, error) {
			return readBy(p.read, func(seen *program) (any, error) {
				row, err := seen.Engine.Store.Runs.Get(id)
				if err == nil && row == nil {
					err = serve.Refuse(http.StatusNotFound, "there is no run %.40s", id)
				}
				if err != nil {
					return nil, err
				}
				return describeRun(seen, row)
			})
		},
		Outliers: func(ctx context.Context, filter url.Values) (any, error) { return listOutliers(ctx, tables, filter) },
		Approve: func(ctx context.Context, name string, most *outlier.Credits) error {
			return p.read(func(seen *program) error { return approveClient(ctx, seen, name, most) })
		},
	}
}

// outliersPage is a page of outliers.
type outliersPage struct {
	Total int64            `json:"total"`
	Next  string           `json:"next,omitempty"` // address of the next page
	Rows  []map[string]any `json:"rows"`
}

// queryTime limits a query of outliers.
const queryTime = 20 * time.Second

// listOutliers returns a page of the outliers that the page Found shows at an address with the same parameters.
func listOutliers(ctx context.Context, tables *pagedata.Tables, filter url.Values) (*outliersPage, error) {
	f, err := page.FilterOf("/found?" + filter.Encode())
	if err == nil {
		err = page.CheckNames(filter)
	}
	if err != nil {
		return nil, serve.Refuse(http.StatusBadRequest, "%w", err)
	}
	ctx, cancel := context.WithTimeoutCause(ctx, queryTime, serve.Refuse(http.StatusServiceUnavailable,
		"the query took longer than %s; narrow the filter, as with days=30", queryTime))
	defer cancel()
	found := &outliersPage{}
	found.Rows, found.Total, err = tables.Rows(ctx, f)
	switch {
	case errors.Is(err, page.ErrNothingPublished):
		return nil, serve.Refuse(http.StatusServiceUnavailable, "%w", err)
	case ctx.Err() != nil:
		return nil, context.Cause(ctx)
	}
	if int64(f.Page*page.PerPage) < found.Total {
		filter.Set("page", strconv.Itoa(f.Page+1))
		found.Next = "/api/v1/outliers?" + filter.Encode()
	}
	return found, err
}

// approveClient returns why a client may not start a run of a job, which may buy for as many credits. A pause holds for
// clients as it does for the schedule, and a client confirms a high price by a cap.
func approveClient(ctx context.Context, p *program, name string, most *outlier.Credits) error {
	config := p.Engine.Config
	spec := config.Job(name)
	if spec == nil {
		return serve.Refuse(http.StatusNotFound, "%w", noJob(config, name, ""))
	}
	pauses, err := p.Engine.Store.Schedule.Pauses(time.Now())
	if err != nil {
		return err
	}
	if pause := pauses[name]; pause != nil {
		return serve.Refuse(http.StatusConflict, "job %s is %s; nothing was started: 'outlierd resume %s' ends the pause", name,
			report.Paused(pause, config.Timezone), name)
	}
	limit, why := confirmOver(config)
	if most != nil || limit == nil {
		return nil
	}
	next := jobRun{Order: engine.Order{Spec: spec, Trigger: engine.Manual}}
	dear, err := overLimit(ctx, p.forecasts(), []jobRun{next}, *limit, 0)
	if err == nil && len(dear) > 0 {
		err = serve.Refuse(http.StatusConflict, "this run may cost more than %s (%s): %s; nothing was started: send "+
			"{\"max_credits\": N} with the most that it may cost", term.Count(*limit, "credit"), why, strings.Join(dear, ", "))
	}
	return err
}
