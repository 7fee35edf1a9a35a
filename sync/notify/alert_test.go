package notify

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"

	"outlierd/internal/testenv"
	"outlierd/sync/job"
)

const rivalAlert = `alerts: {rival-hit: {about: A rival, key: [Video_ID], sql: "select 1 -- all;", notify: hook}}
`

// found are rows of a result as DuckDB writes them.
func found(ids ...int) (rows []string) {
	for _, id := range ids {
		rows = append(rows, fmt.Sprintf(`{"video_id":"video-%06d","title":"Title %d <!channel>","z_score":5.25}`, id, id))
	}
	return rows
}

func upTo(n int) (ids []int) {
	for i := range n {
		ids = append(ids, i)
	}
	return ids
}

func TestAlertSendsEachNewRowOnce(t *testing.T) {
	w := newWorld(t, rivalAlert)
	var rows []string
	var failure error
	a := &Questions{Watcher: w.watcher, Store: w.state.DB, Log: w.logger(), Ask: func(_ context.Context, sql string) ([]string, error) {
		if !strings.Contains(sql, "select 1 -- all\n)") {
			t.Errorf("the query is %s, want the alert's SQL in parentheses on lines of its own", sql)
		}
		return rows, failure
	}}
	evaluate := func(want int, ids ...int) {
		t.Helper()
		rows = found(ids...)
		a.EvaluateAlerts(t.Context())
		sent := 0
		for _, e := range w.events("hook") {
			sent += len(e.Rows)
		}
		if sent != want {
			t.Errorf("after a result of %d rows, %d rows were sent in total, want %d", len(ids), sent, want)
		}
	}
	evaluate(0, 1, 2, 2)
	evaluate(0, 1, 2)
	evaluate(1, 1, 2, 3, 3)
	evaluate(1)
	evaluate(1, 1, 2, 3)
	e := w.events("hook")[0]
	if r := e.Rows[0]; e.Title != "A rival: Title 3 <!channel>" || e.Kind != Alert || e.Alert != "rival-hit" ||
		r.Link != "" || fmt.Sprint(r.Values["z_score"]) != "5.25" {
		t.Errorf("event %+v, want the alert's row 3", e)
	}
	evaluate(100, upTo(102)...) // 0 and 4 to 101 are new
	if n := len(w.events("hook")); n != 1+5 {
		t.Errorf("%d events, want 5 with up to %d rows each", n, MaxRows)
	}

	failure = errors.New("no such table")
	evaluate(100)
	evaluate(100)
	if log := w.log.String(); strings.Count(log, "alert failed") != 1 {
		t.Errorf("log, want one failure of the alert:\n%s", log)
	}
	failure = nil

	// With another key all rows are new: the first result is recorded again.
	w.config.Alerts[0].Key = []string{"title"}
	evaluate(100, upTo(103)...)
	evaluate(101, 103)
	w.config.Alerts[0].Key = []string{"nothing"}
	evaluate(101, 104)
	if log := w.log.String(); !strings.Contains(log, "no column nothing") {
		t.Errorf("log, want an error about the missing column:\n%s", log)
	}
	w.close()
}

// TestNumbersArriveAsTheyWere sends a row of an alert to a target for programs, to one for people, and by a template.
func TestNumbersArriveAsTheyWere(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, `alerts: {rival-hit: {key: video_id, sql: select 1, notify: [hook, other]}}`)
		w.config.Target("other").As = job.AsSlack
		var rows []string
		a := &Questions{Watcher: w.watcher, Store: w.state.DB, Log: w.logger(), Ask: func(context.Context, string) ([]string, error) {
			return rows, nil
		}}
		var mu sync.Mutex // targets are delivered to side by side
		got := map[string]string{}
		deliver := func(id string) {
			rows = []string{`{"video_id":"` + id + `","title":"A hit","channel_title":"Rival","view_count":2434094,
				"average_views_ratio":28.888888888888889,"z_score":5.25,"share":0.012345,"big_id":9007199254740993,"year":2026,
				"total":1234567.0,"tags":["<a>",1e400],"nothing":null}`}
			a.EvaluateAlerts(t.Context())
			w.deliverer(func(_ http.ResponseWriter, r *http.Request) {
				body, err := io.ReadAll(r.Body)
				if err != nil {
					t.Error(err)
				}
				mu.Lock()
				defer mu.Unlock()
				got[r.URL.Hostname()] = string(body)
			}).Flush(t.Context())
		}
		deliver("first")
		deliver("second")
		for _, want := range []string{`"view_count":2434094,`, `"average_views_ratio":28.888888888888889,`, `"big_id":9007199254740993,`,
			`"z_score":5.25`, `"nothing":null`} {
			if !strings.Contains(got["hook.example"], want) {
				t.Errorf("programs got %s, want %s", got["hook.example"], want)
			}
		}
		if text := got["other.example"]; !strings.Contains(text, `A hit (Rival · 29× · 2.4M views · score 5.2 · big id: 9007199254740993 · `+
			`share: 0.012 · tags: [\"\u0026lt;a\u0026gt;\",1e400] · total: 1234567 · year: 2026)`) {
			t.Errorf("people got %s", text)
		}
		w.config.Target("other").Body = `{{range .Rows}}{{.Values.view_count}} {{printf "%.1f" .Values.average_views_ratio}} ` +
			`{{if gt .Values.z_score 5.0}}{{json .Values.big_id}}{{end}} {{.Values.total}}{{end}}`
		deliver("third")
		if text := got["other.example"]; !strings.Contains(text, `"2434094 28.9 9007199254740993 1234567"`) {
			t.Errorf("by a template people got %s", text)
		}
		w.close()
	})
}

// A result with more rows than may wait is logged once, and not for each event that it displaces.
func TestOversizedAlertIsLoggedOnce(t *testing.T) {
	testenv.RacesLittle(t)
	w := newWorld(t, rivalAlert)
	var rows []string
	a := &Questions{Watcher: w.watcher, Store: w.state.DB, Log: w.logger(), Ask: func(context.Context, string) ([]string, error) {
		return rows, nil
	}}
	a.EvaluateAlerts(t.Context())
	rows = found(upTo(MaxRows * (maxWaiting + 50))...)
	a.EvaluateAlerts(t.Context())
	if log := w.log.String(); strings.Count(log, "\n") != 1 || !strings.Contains(log, `msg="notifications dropped" target=hook events=50 `) {
		t.Errorf("log, want one line about 50 events:\n%.1000s", log)
	}
	w.close()
}

func TestRowLinksToItsVideo(t *testing.T) {
	for text, want := range map[string]string{
		`{"video_id":"dQw4w9WgXcQ"}`:                              "https://youtu.be/dQw4w9WgXcQ",
		`{"video_id":"dQw4w9WgXcQ","link":"https://a.example/1"}`: "https://a.example/1",
		`{"video_id":"../../evil1"}`:                              "",
		`{"VIDEO_ID":"dQw4w9WgXcQ"}`:                              "https://youtu.be/dQw4w9WgXcQ",
	} {
		if k, err := readRow(text, nil); err != nil || k.Row.Link != want {
			t.Errorf("the link of %s is %q (error %v), want %q", text, k.Row.Link, err, want)
		}
	}
}
