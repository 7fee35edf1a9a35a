package engine

import (
	"context"
	"fmt"
	"net/url"
	"strconv"

	"outlierd/outlier"
	"outlierd/sync/job"
	"outlierd/sync/state"
)

// Why a search ended by itself; kept in ops.searches.
const (
	stopEmpty      = "empty"      // a page without hits
	stopShort      = "short"      // a short page, and the total agrees
	stopRepeated   = "repeated"   // a page without an id that was new to the search
	stopPages      = "pages"      // as many pages as the job wants
	stopRefused    = "refused"    // the service refused the request itself
	stopUnreadable = "unreadable" // an answer that is no search answer; it stays in the journal
	stopTime       = "time"       // the job's stop_after
)

// search takes the pages of all steps, breadth first, so that a cap cuts depth and
// not topics.
func (r *run) search(ctx context.Context) error {
	for open := r.openSteps(); len(open) > 0; open = r.openSteps() {
		for _, step := range open {
			if r.late() {
				return r.endSearches(open)
			}
			if err := r.takePage(ctx, step); err != nil {
				return err
			}
			if err := r.load(ctx); err != nil {
				return err
			}
		}
	}
	return nil
}

// endSearches closes what is open because the run's time is up.
func (r *run) endSearches(open []*state.Step) error {
	return r.Store.Update(func(tx *state.Tx) error {
		for _, step := range open {
			if step.Stop != "" {
				continue
			}
			step.Stop = stopTime
			if err := tx.SaveStep(*step); err != nil {
				return err
			}
		}
		return nil
	})
}

func (r *run) openSteps() []*state.Step {
	var open []*state.Step
	for i := range r.steps {
		if r.steps[i].Stop == "" {
			open = append(open, &r.steps[i])
		}
	}
	return open
}

// takePage buys the step's next page. The step advances in the transaction that
// keeps the answer; only then does the copy in memory follow.
func (r *run) takePage(ctx context.Context, step *state.Step) error {
	request, err := r.pageRequest(step)
	if err != nil {
		return err
	}
	r.doing(fmt.Sprintf("page %d", step.Next+1))
	next := *step
	_, err = r.fetch(ctx, request, state.Purchase{
		Run: r.row.ID, Job: r.row.Job, Step: step.ID, Item: step.Item,
		Page: step.Next, RankBase: step.Hits,
		Caps: r.caps,
		Commit: func(tx *state.Tx, kept state.Kept) error {
			next = *step
			return r.keepPage(tx, &next, kept)
		},
	})
	*step = next
	r.updated()
	if err == nil && step.Stop == stopUnreadable {
		err = fmt.Errorf("the answer is no search answer; it was paid for and stays in the journal")
	}
	if err != nil {
		return fmt.Errorf("page %d of %s: %w", step.Next+1, describe(step), err)
	}
	return nil
}

// pageRequest is the call for the step's next page. Whether the service counts
// pages or items in `from` is not settled by the interface; service.paging says.
func (r *run) pageRequest(step *state.Step) (*outlier.Request, error) {
	params, err := url.ParseQuery(step.Params)
	if err != nil {
		return nil, fmt.Errorf("read the stored parameters of step %d: %w", step.ID, err)
	}
	from := step.Next
	if r.Config.Service.Paging == job.PagingOffset {
		from = step.Hits
	}
	params.Set("from", strconv.Itoa(from))
	params.Set("size", strconv.Itoa(pageSize))
	return outlier.SearchRequest(params), nil
}

// keepPage records the page's hits and moves the step on, inside the transaction
// of the answer. An attempt without an answer leaves the step where it is.
func (r *run) keepPage(tx *state.Tx, step *state.Step, kept state.Kept) error {
	if kept.Answer.Err != nil {
		if stop := stopFor(kindOf(kept.Answer.Err)); stop != "" {
			step.Stop = stop
			return tx.SaveStep(*step)
		}
		return nil
	}
	body, err := kept.Body()
	if err != nil {
		step.Stop = stopUnreadable
		return tx.SaveStep(*step)
	}
	page, err := outlier.ReadPage(body)
	if err != nil {
		step.Stop = stopUnreadable
		return tx.SaveStep(*step)
	}
	seen, err := tx.AddHits(r.row.ID, step.ID, step.Next, step.Hits, r.hits(page))
	if err != nil {
		return err
	}
	if err := tx.Paging(page.From, page.Size, page.Total); err != nil {
		return err
	}
	step.Stop = r.stopAfter(step, page, seen.Distinct)
	step.Next++
	step.Pages++
	step.Hits += len(page.Hits)
	step.NewHits += seen.New
	step.Total = page.Total
	return tx.SaveStep(*step)
}

// stopFor closes a step for good when trying again cannot help; every other error
// leaves it open for the next run.
func stopFor(kind outlier.Kind) string {
	switch kind {
	case outlier.Invalid, outlier.NotFound:
		return stopRefused
	case outlier.Malformed:
		return stopUnreadable
	}
	return ""
}

// stopAfter says why the search ends with this page, or "" if it goes on. A total
// alone ends nothing: it saturates, and it is a hint of the service, no promise.
func (r *run) stopAfter(step *state.Step, page outlier.Page, distinct int) string {
	switch got := len(page.Hits); {
	case got == 0:
		return stopEmpty
	case distinct == 0:
		return stopRepeated
	case got < pageSize && page.Total >= 0 && int64(step.Hits+got) >= page.Total:
		return stopShort
	case r.plan.Pages != job.AllPages && step.Next+1 >= r.plan.Pages:
		return stopPages
	}
	return ""
}

// hits are the facts of a page that ranking and enrichment need.
func (r *run) hits(page outlier.Page) []state.Hit {
	hits := make([]state.Hit, 0, len(page.Hits))
	for _, h := range page.Hits {
		hit := state.Hit{VideoID: h.VideoID, ChannelID: h.ChannelID}
		if value, ok := h.SortValue(r.plan.Sort); ok {
			hit.Value = &value
		}
		hits = append(hits, hit)
	}
	return hits
}

// describe names a step as a person would: by what it looks for.
func describe(step *state.Step) string {
	if len(step.Queries) == 0 {
		return string(step.Op)
	}
	return fmt.Sprintf("%s %q", step.Op, step.Queries)
}
