package engine

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"path"
	"strconv"
	"strings"
	"testing"
	"time"

	"outlierd/internal/testenv"
	"outlierd/outlier"
	"outlierd/sync/queue"
	"outlierd/sync/runs"
)

// oneCallFile has one data call about one hit. %s is the operation.
const oneCallFile = `
version: 1
service: {url: "sim://", limit: 10/min}
jobs:
  one: {search: {query: [home espresso]}, enrich: {%s: {top: 1}}}
`

func oneCall(op outlier.Operation) string { return strings.Replace(oneCallFile, "%s", string(op), 1) }

// TestRefusedDataCallIsMadeOnce: the same request would be refused again. A refusal in any of the
// documented shapes, even with HTTP 200, is reported, remembered for a while, and not queued again.
func TestRefusedDataCallIsMadeOnce(t *testing.T) {
	t.Parallel()
	bodies := []string{
		`{"status":"error","error":{"errors":[{"code":"pattern","message":"no such form","path":["id"]}]}}`,
		`{"status":"error","error":{"message":"bad id"}}`,
	}
	single(t, strings.Replace(oneCall(outlier.OpDetails), "top: 1", "top: 2", 1), func(w *workshop) {
		asked, well := 0, w.wire
		w.wire = afterPages(well, func() *http.Response {
			asked++
			return page([]int{http.StatusOK, http.StatusBadRequest}[asked%2], "application/json", bodies[asked%2])
		})
		row := w.mustRun(runs.Partial)
		if asked != 2 || row.Failures != 2 {
			t.Errorf("%d calls and %d failures, want two each", asked, row.Failures)
		}
		w.inspect(func(e *Engine) {
			if n, err := e.Store.Queue.Queued(queue.Filter{}); n != 0 || err != nil {
				t.Errorf("%d calls are queued (error %v), want none", n, err)
			}
		})
		if n := w.count("select count(*) from missing where reason = 'the service refused the request'"); n != 2 {
			t.Errorf("table missing has %q", w.rows("select * from missing"))
		}
		if w.mustRun(runs.OK); asked != 2 {
			t.Errorf("%d calls after a second run, want the refusals to be remembered", asked)
		}
		time.Sleep(refusedFor + time.Hour)
		w.wire = well
		w.mustRun(runs.OK)
		if w.count("select count(*) from videos") != 2 {
			t.Error("the videos were not asked for again")
		}
	})
}

// TestRefusedSearchIsSentOnce, for each of the documented shapes.
func TestRefusedSearchIsSentOnce(t *testing.T) {
	t.Parallel()
	bare(t, oneCall(outlier.OpDetails), func(w *workshop) {
		asked := 0
		w.wire = roundTripper(func(r *http.Request) (*http.Response, error) {
			asked++
			connect(r)
			return page(http.StatusBadRequest, "application/json", `{"status":"error","error":{"message":"no such order"}}`), nil
		})
		row, err := w.run()
		if err == nil || row.Status != runs.Failed || !strings.Contains(row.Error, "no such order") || asked != 1 || row.Credits != 0 {
			t.Errorf("%d calls, run %+v, error %v; want one call, and a run that failed with its words",
				asked, row, err)
		}
	})
}

// TestErrorUnderStatus200IsNotCharged: the documented error counts with any status.
func TestErrorUnderStatus200IsNotCharged(t *testing.T) {
	t.Parallel()
	bare(t, oneCall(outlier.OpDetails), func(w *workshop) {
		w.wire = roundTripper(func(r *http.Request) (*http.Response, error) {
			connect(r)
			return page(http.StatusOK, "application/json", `{"status":"error","error":{"message":"try later"}}`), nil
		})
		row, err := w.run()
		if err == nil || row.Status != runs.Failed || row.Credits != 0 || row.Refunded == 0 {
			t.Errorf("run %+v, error %v; want one that failed and spent nothing", row, err)
		}
	})
}

// TestAnswerWithoutEntityRowFails: the call stays queued, the answer is journaled, and the run is partial.
func TestAnswerWithoutEntityRowFails(t *testing.T) {
	t.Parallel()
	testenv.RacesLittle(t)
	const other = `"otherother1"`
	for _, c := range []struct {
		op     outlier.Operation
		bodies []string // ID stands for the requested id
	}{
		{outlier.OpChannelVideos, []string{`{}`, `{"id":"ID"}`, `{"id":"ID","item":null}`, `{"id":"ID","item":[]}`, `{"id":"ID","item":{"kind":"channel"}}`,
			`{"item":{"id":"UCother"}}`, `{"id":"UCother","item":{"id":"ID"}}`}},
		{outlier.OpDetails, []string{`{}`, `{"ids":["ID"]}`, `{"items":null}`, `{"items":{}}`, `{"items":[null]}`, `{"items":[{"kind":"video"}]}`,
			`{"items":[{"id":` + other + `}]}`, `{"ids":[` + other + `],"items":[]}`}},
		{outlier.OpComments, []string{`{}`, `{"items":[{"comments":[{"text":"a"}],"statistics":{"count":1}}]}`, `{"items":[{"id":` + other + `,"comments":[]}]}`}},
		{outlier.OpTranscript, []string{`{}`, `{"items":[{"id":"ID"}]}`, `{"items":[{"id":"ID","events":null,"transcript":null}]}`,
			`{"items":[{"id":` + other + `,"events":[],"transcript":""}]}`, `{"items":[{"id":"ID","events":"none"}]}`}},
	} {
		for _, body := range c.bodies {
			t.Run(string(c.op)+" "+body[:min(60, len(body))], func(t *testing.T) {
				bare(t, oneCall(c.op), func(w *workshop) { w.withAnswers(c.op, body) })
			})
		}
	}
}

// answering passes searches on and answers data calls with a body, in which ID stands for the
// requested id.
func answering(wire http.RoundTripper, body string) http.RoundTripper {
	return roundTripper(func(r *http.Request) (*http.Response, error) {
		if strings.HasPrefix(r.URL.Path, "/search/") {
			return wire.RoundTrip(r)
		}
		connect(r)
		return page(http.StatusOK, "application/json", strings.ReplaceAll(body, "ID", path.Base(r.URL.Path))), nil
	})
}

// reasons returns why the queued calls about the hits failed.
func (w *workshop) reasons(e *Engine) (all []string) {
	w.Helper()
	for entry, err := range e.Store.Journal.After(0) {
		if err != nil {
			w.Fatal(err)
		}
		waiting, err := e.Store.Queue.PendingFor(entry.Entity)
		if err != nil {
			w.Fatal(err)
		}
		for _, task := range waiting {
			all = append(all, task.Reason)
		}
	}
	return all
}

// withAnswers runs the only job twice: first each data call is answered with a body, then by the real
// service.
func (w *workshop) withAnswers(op outlier.Operation, body string) {
	well := w.wire
	w.wire = answering(well, body)
	e, stop := w.open()
	defer stop()
	run := func(want runs.Status) *runs.Run {
		row, err := e.Run(w.ctx, &w.config.Jobs[0], Manual, time.Time{})
		if err != nil || row.Status != want {
			w.Fatalf("run ended as %+v with error %v, want status %s", row, err, want)
		}
		return row
	}
	row := run(runs.Partial)
	if row.Requests != 2 || row.Failures != 1 || row.Missing != 0 || !strings.Contains(strings.Join(w.reasons(e), ""), "not usable") {
		w.Errorf("%d requests, %d failures, %d missing for %q; want one call that failed",
			row.Requests, row.Failures, row.Missing, w.reasons(e))
	}
	kept := 0
	for entry, err := range e.Store.Journal.After(0) {
		if kept += strings.Count(string(entry.Op), string(op)); err != nil {
			w.Error(err)
		}
	}
	if kept != 1 {
		w.Errorf("%d answers are in the journal, want the one", kept)
	}
	n, err := e.Store.Queue.Queued(queue.Filter{})
	retry, failed := e.Store.Queue.NextRetry(time.Now(), queue.Filter{})
	if wait := time.Until(retry); n != 1 || err != nil || failed != nil || wait < failedPause-time.Minute || wait > failedPause {
		w.Errorf("%d calls are queued for %s, errors %v, %v; want one to wait for a quarter of an hour",
			n, wait, err, failed)
	}
	e.Client.Transport = well
	if run(runs.OK); w.calls(op) != 1 { // by hand, within the back-off
		w.Errorf("%d calls once the service was well, want one", w.calls(op))
	}
}

// TestFailedAnswerHasNoRows in any sink, not even the requested id.
func TestFailedAnswerHasNoRows(t *testing.T) {
	t.Parallel()
	single(t, oneCall(outlier.OpTranscript), func(w *workshop) {
		well := w.wire
		w.wire = answering(well, `{"ids":["ID"],"items":[{"id":"ID"}]}`)
		w.mustRun(runs.Partial)
		for _, table := range []string{"transcripts", "transcript_events", "missing"} {
			if n := w.count("select count(*) from " + table); n != 0 {
				t.Errorf("%d rows in %s", n, table)
			}
		}
		w.wire = well
		time.Sleep(failedPause)
		w.mustRun(runs.OK)
		if w.count("select count(*) from transcripts where transcript <> ''") != 1 {
			t.Error("the transcript is not there once the service is well")
		}
	})
}

// TestAbsenceIsRemembered: an answer that the service does not have something is not a failure.
func TestAbsenceIsRemembered(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		op      outlier.Operation
		body    string
		missing bool
	}{
		{outlier.OpDetails, `{"ids":["ID"],"items":[]}`, true},
		{outlier.OpComments, `{"ids":["ID"],"items":[]}`, true},
		{outlier.OpComments, `{"items":[{"id":"ID","comments":[]}]}`, false}, // no comments are a count of 0
		{outlier.OpTranscript, `{"items":[{"id":"ID","events":[],"transcript":""}]}`, true},
	} {
		t.Run(string(c.op)+" "+c.body, func(t *testing.T) {
			bare(t, oneCall(c.op), func(w *workshop) {
				w.wire = answering(w.wire, c.body)
				first, second := w.mustRun(runs.OK), w.mustRun(runs.OK)
				if first.Requests+second.Requests != 2 || (first.Missing == 1) != c.missing {
					t.Errorf("%d and %d requests, %d missing; want a page and a call",
						first.Requests, second.Requests, first.Missing)
				}
			})
		})
	}
}

// sinceFile has a job that searches from its cursor on.
const sinceFile = `
version: 1
service: {url: "sim://", limit: 10/min}
jobs:
  one: {search: {query: [home espresso], where: {published_at: since last success}, pages: 2}, enrich: {details: {top: 40}}}
`

// hits returns a page of n hits with the given id; %d in it stands for the position of the hit.
func hits(n int, id, more string, total int) string {
	var all []string
	for i := range n {
		all = append(all, `{"id":`+strings.ReplaceAll(id, "%d", strconv.Itoa(i))+`,"kind":"video"`+more+`}`)
	}
	return fmt.Sprintf(`{"pagination":{"total":%d,"from":0,"size":40},"hits":[%s]}`, total, strings.Join(all, ","))
}

// searching answers searches with a body, and other calls without data.
func searching(asked *int, body string) http.RoundTripper {
	return roundTripper(func(r *http.Request) (*http.Response, error) {
		*asked++
		connect(r)
		if strings.HasPrefix(r.URL.Path, "/search/") {
			return page(http.StatusOK, "application/json", body), nil
		}
		return page(http.StatusNotFound, "application/json", `{"status":"error","error":{"message":"Not found"}}`), nil
	})
}

// TestUnstorableHitsMakeRunPartial: the run reports their number and the total, keeps its cursor, and stores
// the other hits.
func TestUnstorableHitsMakeRunPartial(t *testing.T) {
	t.Parallel()
	nested := strings.Repeat("[", 200) + strings.Repeat("]", 200)
	good := hits(3, `"goodgood%d"`, "", 4)
	for _, c := range []struct {
		name, body string
		says       string // message about the hits; "" if all are stored
	}{
		{"ids null", hits(5, `null`, "", 5), "5 of 5 hits"},
		{"ids absent", strings.ReplaceAll(hits(5, `null`, "", 5), `"id":null,`, ""), "5 of 5 hits"},
		{"ids blank", hits(5, `" "`, "", 5), "5 of 5 hits"},
		{"hits null", `{"pagination":{"total":45,"from":0,"size":40},"hits":null}`, "40 of 40 hits"},
		{"no hits of 45", `{"pagination":{"total":45,"from":0,"size":40},"hits":[]}`,
			`search ["home espresso"]: page 1 is empty although the service reports 45 hits`},
		{"nested too deep", hits(5, `"goodgood%d"`, `,"new":`+nested, 5), ""},
		{"one of four", good[:len(good)-2] + `,{"id":null}]}`, "1 of 4 hits"},
		{"ids of an unknown form", hits(5, `"video/%d é"`, "", 5), ""},
		{"ids that are numbers", hits(5, `100%d`, "", 5), ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			bare(t, sinceFile, func(w *workshop) {
				asked, want := 0, runs.Partial
				if w.wire = searching(&asked, c.body); c.says == "" {
					want = runs.OK
				}
				row := w.mustRun(want)
				if !strings.HasPrefix(row.Error, c.says) || row.Credits != 2 {
					t.Errorf("error %q for %d credits, want %q for 2", row.Error, row.Credits, c.says)
				}
				w.inspect(func(e *Engine) {
					marks, err := e.Store.Watermarks.List("")
					if moved := len(marks) > 0; err != nil || moved != (c.says == "") {
						t.Errorf("cursors %v, error %v", marks, err)
					}
					steps, err := e.Store.Steps.OfRun(row.ID)
					if err != nil || fmt.Sprint(steps[0].Unread, " of ", steps[0].Hits, " hits") != c.says && steps[0].Unread > 0 {
						t.Errorf("%d of %d hits on record, error %v, want %s",
							steps[0].Unread, steps[0].Hits, err, c.says)
					}
					n := 0
					for entry := range e.Store.Journal.After(0) {
						n += strings.Count(string(entry.Body), c.body)
					}
					if n != 1 {
						t.Errorf("the journal has the page %d times", n)
					}
				})
			})
		})
	}
}

// TestMalformedIDsAreNotRequested, only stored: their meaning is unknown, so the rules for requests apply.
func TestMalformedIDsAreNotRequested(t *testing.T) {
	t.Parallel()
	single(t, sinceFile, func(w *workshop) {
		asked := 0
		body := hits(3, `"video/%d é"`, `,"snippet":{"channelId":"@somebody"}`, 4)
		w.wire = searching(&asked, body[:len(body)-2]+`,{"id":null}]}`)
		w.mustRun(runs.Partial)
		if got := w.count("select count(*) from outliers where channel_id = '@somebody'"); got != 3 || asked != 1 {
			t.Errorf("%d hits stored after %d calls, want 3 after one", got, asked)
		}
		if got := w.count("select unreadable from ops.searches where hits = 4"); got != 1 {
			t.Errorf("ops.searches counts %d unreadable hits, want 1", got)
		}
	})
}

// TestUnreadablePageIsNotBoughtAgain by a schedule: a recent page is taken from the journal whether or not it can be
// read, and the run is never ok. A run by hand buys it at once.
func TestUnreadablePageIsNotBoughtAgain(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name, body string
		want       runs.Status
	}{
		{"no hit", hits(5, `null`, "", 5), runs.Partial},
		{"no search answer", `{"items":[]}`, runs.Failed},
		{"no JSON", `{"hits":[}`, runs.Failed},
	} {
		t.Run(c.name, func(t *testing.T) {
			bare(t, sinceFile, func(w *workshop) {
				asked, well := 0, w.wire
				w.wire = searching(&asked, c.body)
				first, _ := w.run()
				time.Sleep(time.Hour)
				e, stop := w.open()
				second, _ := e.Run(w.ctx, &w.config.Jobs[0], Scheduled, time.Now())
				stop()
				if asked != 1 || first.Status != c.want || second.Status != c.want || second.Error == "" || second.Credits != 0 || second.ID == first.ID {
					t.Errorf("%d calls, runs %+v and %+v; want one call, and two runs that are %s",
						asked, first, second, c.want)
				}
				if w.run(); asked != 2 {
					t.Errorf("%d calls after a run by hand, want another one", asked)
				}
				w.wire = well
				w.mustRun(runs.OK)
			})
		})
	}
}

// TestContinuedRunReportsUnreadableHits after a kill between two pages.
func TestContinuedRunReportsUnreadableHits(t *testing.T) {
	t.Parallel()
	bare(t, sinceFile, func(w *workshop) {
		asked := 0
		first := hits(40, `"goodgood%d"`, "", 50)
		second := hits(10, `"best%d"`, "", 50)
		w.wire = searching(&asked, first[:len(first)-2]+`,{"id":null}]}`)
		ctx, stop := context.WithCancelCause(w.ctx)
		w.wire = roundTripper(func(r *http.Request) (*http.Response, error) {
			if asked++; asked == 1 {
				connect(r)
				return page(http.StatusOK, "application/json", strings.Replace(first, `"goodgood7"`, `null`, 1)), nil
			}
			if asked == 2 {
				stop(errors.New("asked to stop"))
				return nil, errors.New("not sent")
			}
			return searching(new(int), second).RoundTrip(r)
		})
		e, closed := w.open()
		row, _ := e.Run(ctx, &w.config.Jobs[0], Manual, time.Time{})
		closed()
		next := w.mustRun(runs.Partial)
		if next.ID != row.ID || !strings.HasPrefix(next.Error, "1 of 50 hits") {
			t.Errorf("run %s ended with %q, want run %s to tell of the one hit", next.ID, next.Error, row.ID)
		}
	})
}
