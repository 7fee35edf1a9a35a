package page

import (
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"
)

// RunFilter selects runs. The zero value selects all, newest first.
type RunFilter struct {
	Job, Status string // "" for any
	Before      string // id of a run; only earlier runs are wanted
}

// RunsPerPage is the number of runs per page.
const RunsPerPage = 50

// Run is a row of [Runs].
type Run struct {
	ID, Short string // the id, and its abbreviation for people
	Job       string
	Status    string
	Level     string // ok, busy, warn or bad
	Started   string
	Took      string // "" while it is in progress

	Hits, New, Credits int64

	Error string
}

// Runs is a page of runs.
type Runs struct {
	Runs     []Run
	Statuses []string // statuses to filter by
	More     bool     // there are older runs
}

// RunDetails is everything recorded about a run.
type RunDetails struct {
	Run
	Summary  []string // what started it, its result and cost, and why it stopped, in sentences
	Searches []Search
	Calls    []Call // oldest first
}

// Search is a search of a run.
type Search struct {
	Name, Operation string

	Pages, Hits, New, Credits int64
	Total, Left               *int64 // hits counted by the service, and remaining pages; nil if unknown

	Stop string // why no further page was taken
}

// PerNew returns the cost of a new hit; "" without new hits.
func (s Search) PerNew() string {
	if s.New == 0 {
		return ""
	}
	return strconv.FormatFloat(float64(s.Credits)/float64(s.New), 'f', 2, 64)
}

// Call is one attempt at a call of a run.
type Call struct {
	Operation, About string // About is the requested id, or the search that it belongs to
	At               string // when it was sent

	Asked, Sent, Answered time.Time // when it was queued, sent and answered; Sent is zero if it was never sent

	Credits int64
	Status  string // HTTP status or outcome in the ledger
	Bad     bool   // it did not return what was requested
}

// Waited and Took are the times that a call waited for the pace and for its answer.
func (c Call) Waited() string { return formatSeconds(c.Sent.Sub(c.Asked), !c.Sent.IsZero()) }
func (c Call) Took() string {
	return formatSeconds(c.Answered.Sub(c.Sent), !c.Sent.IsZero() && !c.Answered.IsZero())
}

func formatSeconds(d time.Duration, known bool) string {
	if !known {
		return ""
	}
	return strconv.FormatFloat(d.Seconds(), 'f', 1, 64)
}

// CallsPerPage is the number of calls per page.
const CallsPerPage = 100

// serveRuns shows a list of runs.
func (s *Site) serveRuns(w http.ResponseWriter, r *http.Request) {
	form := r.URL.Query()
	if err := tooLong(form); err != nil {
		s.serveSentence(w, r, http.StatusBadRequest, err.Error())
		return
	}
	v := runsView{Filter: RunFilter{Job: strings.TrimSpace(form.Get("job")), Status: form.Get("status"),
		Before: form.Get("before")}}
	var err error
	if v.Runs, err = s.from.Runs(r.Context(), v.Filter); err != nil {
		s.serveRefusal(w, r, "runs", err)
		return
	}
	s.serveView(w, r, view{"runs.html", "Runs", "Now", v})
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
func (s *Site) serveRun(w http.ResponseWriter, r *http.Request) {
	calls := 1
	if number := r.URL.Query().Get("calls"); number != "" {
		var err error
		if calls, err = strconv.Atoi(number); err != nil || calls < 1 || calls > 1_000_000 {
			s.serveSentence(w, r, http.StatusBadRequest, fmt.Sprintf("calls: must be a number from 1 to 1000000, got %q", number))
			return
		}
	}
	d, err := s.from.Run(r.Context(), r.PathValue("run"))
	if err != nil {
		s.serveRefusal(w, r, "run", err)
		return
	}
	first := min((calls-1)*CallsPerPage, len(d.Calls))
	s.serveView(w, r, view{"run.html", "Run " + d.Short, "Now", runView{d,
		d.Calls[first:min(first+CallsPerPage, len(d.Calls))], calls, first}})
}

// runView is the data of the page of a run.
type runView struct {
	*RunDetails
	Shown []Call
	page  int
	first int // number of calls before the page
}

// First and Last are the numbers of the first and last call shown.
func (v runView) First() int64 { return int64(v.first) + 1 }
func (v runView) Last() int64  { return int64(v.first + len(v.Shown)) }

// All returns the number of calls.
func (v runView) All() int64 { return int64(len(v.Calls)) }

// Previous and Next are the addresses of the neighbouring calls, or "".
func (v runView) Previous() string {
	if v.page == 1 {
		return ""
	}
	return v.address(v.page - 1)
}

func (v runView) Next() string {
	if int(v.Last()) >= len(v.Calls) {
		return ""
	}
	return v.address(v.page + 1)
}

func (v runView) address(page int) string {
	path := "/runs/" + url.PathEscape(v.ID)
	if page > 1 {
		path += "?calls=" + strconv.Itoa(page)
	}
	return path
}
