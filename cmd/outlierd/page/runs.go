package page

import (
	"cmp"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"outlierd/cmd/outlierd/report"
	"outlierd/cmd/outlierd/term"
	"outlierd/outlier"
	"outlierd/sync/ledger"
	"outlierd/sync/runs"
)

// RunsPerPage is the number of runs per page.
const RunsPerPage = 50

// Runs is a page of runs. All times are in the zone of the page.
type Runs struct {
	Runs     []runs.Run
	Filter   runs.Filter
	Statuses []string // statuses to filter by
	More     bool     // there are older runs
}

// RunDetails is everything recorded about a run.
type RunDetails struct {
	*report.Run
	In       report.Style
	Page     int           // of [CallsPerPage] attempts, from 1
	Attempts []ledger.Call // on the page, the oldest first
	Count    int           // of attempts, on all pages
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

// CallRows returns the calls of a page.
func (d *RunDetails) CallRows() (rows []callRow) {
	searches := map[int64]string{}
	for i := range d.Searches {
		searches[d.Searches[i].Step.ID] = d.Searches[i].Name()
	}
	for _, c := range d.Attempts {
		rows = append(rows, callRow{c, cmp.Or(c.Entity, searches[c.Step])})
	}
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
	f := runs.Filter{Job: strings.TrimSpace(form.Get("job")), Status: runs.Status(form.Get("status")), Before: form.Get("before")}
	found, err := s.from.Runs(r.Context(), f)
	if err != nil {
		return err
	}
	found.Filter = f
	return s.render.show(w, r, view{"runs.html", "Runs", "Now", found})
}

// Older returns the address of the next older runs, or "".
func (v *Runs) Older() string {
	if !v.More || len(v.Runs) == 0 {
		return ""
	}
	return v.address(v.Runs[len(v.Runs)-1].ID)
}

// Newest returns the address of the first page; "" on that page.
func (v *Runs) Newest() string {
	if v.Filter.Before == "" {
		return ""
	}
	return v.address("")
}

func (v *Runs) address(before string) string {
	form := url.Values{}
	for name, value := range map[string]string{"job": v.Filter.Job, "status": string(v.Filter.Status), "before": before} {
		if value != "" {
			form.Set(name, value)
		}
	}
	return pageAddress("/runs", form, 1)
}

// serveRun shows one run, with a page of its calls.
func (s *Site) serveRun(w http.ResponseWriter, r *http.Request) error {
	number, err := pageOf(r.URL.Query())
	if err != nil {
		return badRequest("%w", err)
	}
	d, err := s.from.Run(r.Context(), r.PathValue("run"), number)
	if err != nil {
		return err
	}
	d.Page = number
	return s.render.show(w, r, view{"run.html", "Run " + shortID(d.ID), "Now", d})
}

// First and Last are the numbers of the first and last call shown.
func (d *RunDetails) First() int { return (d.Page-1)*CallsPerPage + 1 }
func (d *RunDetails) Last() int  { return d.First() + len(d.Attempts) - 1 }

// Pages are the neighbouring calls.
func (d *RunDetails) Pages() pager {
	return pagesBeside(d.Page, d.Last() < d.Count, func(page int) string {
		return pageAddress("/runs/"+url.PathEscape(d.ID), url.Values{}, page)
	})
}
