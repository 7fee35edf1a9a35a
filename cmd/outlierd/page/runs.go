package page

import (
	"cmp"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"outlierd/cmd/outlierd/report"
	"outlierd/cmd/outlierd/term"
	"outlierd/outlier"
	"outlierd/sync/ledger"
	"outlierd/sync/runs"
)

// RunFilter selects runs. The zero value selects all, newest first.
type RunFilter struct {
	Job, Status string // "" for any
	Before      string // id of a run; only earlier runs are wanted
}

// RunsPerPage is the number of runs per page.
const RunsPerPage = 50

// Runs is a page of runs. All times are in the zone of the page.
type Runs struct {
	Runs     []runs.Run
	Statuses []string // statuses to filter by
	More     bool     // there are older runs
}

// RunDetails is everything recorded about a run.
type RunDetails struct {
	*report.Run
	In       report.Style
	Attempts []ledger.Call
}

// Summary says what started it, its result and cost, and why it stopped, in sentences.
func (d *RunDetails) Summary() []string { return d.Sentences(d.In) }

// formatTook says how long a run took; "" while it is in progress.
func formatTook(r runs.Run) string {
	if r.Ended.IsZero() {
		return ""
	}
	return term.Duration(r.Ended.Sub(r.Started))
}

// shortID abbreviates the id of a run.
func shortID(id string) string { return id[:min(8, len(id))] }

// statusLevels are the colours of statuses.
var statusLevels = map[runs.Status]string{runs.OK: "ok", runs.OKEmpty: "ok", runs.Running: "busy", runs.Failed: "bad",
	runs.Partial: "warn", runs.PausedBudget: "warn", runs.PausedQuota: "warn", runs.Interrupted: "warn"}

// formatPerNew formats the cost of a new hit; "" without new hits.
func formatPerNew(s report.Search) string {
	if s.NewHits == 0 {
		return ""
	}
	return strconv.FormatFloat(float64(s.Credits)/float64(s.NewHits), 'f', 2, 64)
}

// callRow is a call, with the id or the search that it is about.
type callRow struct {
	ledger.Call
	About string
}

// asked is when the call was queued.
func (c callRow) asked() time.Time { return cmp.Or(c.SentAt, c.AnsweredAt).Add(-c.Waited.Duration) }

// Paused and Took are the seconds that a call waited for the pace and for its answer.
func (c callRow) Paused() string { return formatSeconds(c.Waited.Duration, !c.SentAt.IsZero()) }
func (c callRow) Took() string {
	return formatSeconds(c.AnsweredAt.Sub(c.SentAt), !c.SentAt.IsZero() && !c.AnsweredAt.IsZero())
}

func formatSeconds(d time.Duration, known bool) string {
	if !known {
		return ""
	}
	return strconv.FormatFloat(d.Seconds(), 'f', 1, 64)
}

// Cost is what the call cost.
func (c callRow) Cost() int64 {
	if c.Outcome == outlier.Refunded {
		return 0
	}
	return int64(c.Price)
}

// Answer is the status of the answer, and Bad reports whether it is not what was requested.
func (c callRow) Answer() string {
	switch {
	case c.Outcome == "":
		return "under way"
	case c.SentAt.IsZero():
		return "not sent"
	case c.Status == 0:
		return string(c.Outcome)
	}
	return fmt.Sprint("HTTP ", c.Status)
}

func (c callRow) Bad() bool {
	return c.Outcome != outlier.Charged && c.Outcome != "" && c.Status != http.StatusNotFound
}

// callRows returns the calls of a run, the first ones first.
func (d *RunDetails) callRows() (rows []callRow) {
	searches := map[int64]string{}
	for i := range d.Searches {
		searches[d.Searches[i].Step.ID] = d.Searches[i].Name()
	}
	for _, c := range d.Attempts {
		rows = append(rows, callRow{c, cmp.Or(c.Entity, searches[c.Step])})
	}
	slices.SortStableFunc(rows, func(a, b callRow) int { return a.asked().Compare(b.asked()) })
	return rows
}

// CallsPerPage is the number of calls per page.
const CallsPerPage = 100

// serveRuns shows a list of runs.
func (s *Site) serveRuns(w http.ResponseWriter, r *http.Request) error {
	form := r.URL.Query()
	if err := checkTexts(form); err != nil {
		return badRequest("%w", err)
	}
	v := runsView{Filter: RunFilter{Job: strings.TrimSpace(form.Get("job")), Status: form.Get("status"),
		Before: form.Get("before")}}
	var err error
	if v.Runs, err = s.from.Runs(r.Context(), v.Filter); err != nil {
		return err
	}
	return s.render.show(w, r, view{"runs.html", "Runs", "Now", v})
}

// runsView is the data of the list of runs.
type runsView struct {
	*Runs
	Filter RunFilter
}

// Older returns the address of the next older runs, or "".
func (v runsView) Older() string {
	if !v.More || len(v.Runs.Runs) == 0 {
		return ""
	}
	return v.address(v.Runs.Runs[len(v.Runs.Runs)-1].ID)
}

// Newest returns the address of the first page; "" on that page.
func (v runsView) Newest() string {
	if v.Filter.Before == "" {
		return ""
	}
	return v.address("")
}

func (v runsView) address(before string) string {
	form := url.Values{}
	for name, value := range map[string]string{"job": v.Filter.Job, "status": v.Filter.Status, "before": before} {
		if value != "" {
			form.Set(name, value)
		}
	}
	return pageAddress("/runs", form, 1)
}

// serveRun shows one run, with a page of its calls.
func (s *Site) serveRun(w http.ResponseWriter, r *http.Request) error {
	calls := 1
	if number := r.URL.Query().Get("calls"); number != "" {
		var err error
		if calls, err = strconv.Atoi(number); err != nil || calls < 1 || calls > 1_000_000 {
			return badRequest("calls: must be a number from 1 to 1000000, got %q", number)
		}
	}
	d, err := s.from.Run(r.Context(), r.PathValue("run"))
	if err != nil {
		return err
	}
	first := min((calls-1)*CallsPerPage, len(d.Attempts))
	return s.render.show(w, r, view{"run.html", "Run " + shortID(d.ID), "Now", runView{d,
		d.callRows()[first:min(first+CallsPerPage, len(d.Attempts))], calls, first}})
}

// runView is the data of the page of a run.
type runView struct {
	*RunDetails
	Shown []callRow
	page  int
	first int // number of calls before the page
}

// First and Last are the numbers of the first and last call shown.
func (v runView) First() int64 { return int64(v.first) + 1 }
func (v runView) Last() int64  { return int64(v.first + len(v.Shown)) }

// All returns the number of calls.
func (v runView) All() int64 { return int64(len(v.Attempts)) }

// Pages are the neighbouring calls.
func (v runView) Pages() pager {
	return pagesBeside(v.page, int(v.Last()) < len(v.Attempts), func(page int) string {
		path := "/runs/" + url.PathEscape(v.ID)
		if page > 1 {
			path += "?calls=" + strconv.Itoa(page)
		}
		return path
	})
}
