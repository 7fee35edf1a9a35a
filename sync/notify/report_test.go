package notify

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"mime/multipart"
	"mime/quotedprintable"
	"net/http"
	"net/mail"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"outlierd/internal/testenv"
	"outlierd/sync/job"
	"outlierd/sync/store"
)

const weeklyReport = `
reports: {weekly: {about: The week, schedule: "0 8 * * mon,thu", view: new_this_week, to: [hook, other], attach: csv}}
`

// askFor returns an Ask whose result has these rows.
func askFor(rows ...string) func(context.Context, string) ([]string, error) {
	return func(context.Context, string) ([]string, error) {
		return append(rows[:min(len(rows), MaxRows):min(len(rows), MaxRows)], fmt.Sprint(len(rows))), nil
	}
}

func (w *world) reports(ask func(context.Context, string) ([]string, error)) *Questions {
	return &Questions{Watcher: w.watcher, Store: w.state.DB, Log: w.logger(), SQL: written, Ask: ask}
}

// TestEachDueTimeHasOneReport plays a week of a process that is stopped and killed at random, while
// each target is away for up to a day now and then: no report is lost, and none arrives twice.
func TestEachDueTimeHasOneReport(t *testing.T) {
	random := testenv.Random(t)
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, weeklyReport)
		begin := time.Now()
		var mu sync.Mutex
		arrived := map[string]int{} // by target and due time
		away := map[string]time.Time{}
		network := handler(func(a http.ResponseWriter, r *http.Request) {
			mu.Lock()
			defer mu.Unlock()
			host := r.URL.Hostname()
			if time.Now().Before(away[host]) {
				a.WriteHeader(http.StatusServiceUnavailable)
				return
			}
			var e Event
			if err := json.NewDecoder(r.Body).Decode(&e); err != nil || e.Kind != Report {
				t.Errorf("received %+v, %v; want a report", e, err)
			}
			arrived[host+" "+e.Time.Format("2006-01-02 15:04")]++
		})
		hours := func(most int) time.Duration { return time.Duration(random.IntN(most*60)) * time.Minute }
		live := func(long time.Duration) {
			ctx, kill := context.WithCancel(t.Context())
			stop := w.start(network)
			slow := hours(1) / 6
			reports := w.reports(func(ctx context.Context, _ string) ([]string, error) {
				select { // the process may be killed while the SQL runs
				case <-time.After(slow):
				case <-ctx.Done():
				}
				return askFor(found(1, 2)...)(ctx, "")
			})
			var looking sync.WaitGroup
			looking.Go(func() {
				for ; ctx.Err() == nil; sleepUntilDone(ctx, time.Minute) {
					reports.PrepareReports(ctx)
				}
			})
			time.Sleep(long)
			kill()
			looking.Wait()
			stop()
			w.close()
		}
		for time.Since(begin) < 7*24*time.Hour {
			mu.Lock()
			away[[]string{"hook.example", "other.example"}[random.IntN(2)]] = time.Now().Add(hours(24))
			mu.Unlock()
			// A report that came due meanwhile may be killed while its SQL runs; the next process has the time for it.
			live(hours(1) / 6)
			time.Sleep(hours(1))
			w.open()
			long := 20*time.Minute + hours(30)
			for due := range w.dues(time.Now(), time.Now().Add(long)) {
				long = max(20*time.Minute, time.Until(due)+hours(1)/6) // also one that comes due just before
				break
			}
			live(long)
			time.Sleep(hours(60)) // no due time lies within 62 hours of another
			w.open()
		}
		live(48 * time.Hour)

		var want []string
		for due := range w.dues(begin, time.Now()) {
			for _, host := range []string{"hook.example", "other.example"} {
				want = append(want, host+" "+due.Format("2006-01-02 15:04"))
			}
		}
		if len(want) < 4 {
			t.Errorf("only %d reports were due", len(want))
		}
		for _, one := range want {
			if arrived[one] != 1 {
				t.Errorf("report %s arrived %d times, want once", one, arrived[one])
			}
			delete(arrived, one)
		}
		if len(arrived) > 0 {
			t.Errorf("reports that were not due: %v", arrived)
		}
	})
}

// dues yields the due times of the first report.
func (w *world) dues(from, until time.Time) func(yield func(time.Time) bool) {
	return func(yield func(time.Time) bool) {
		for at := from; at.Before(until); at = at.Add(time.Hour) {
			due := w.config.Reports[0].Last(at, at.Add(time.Hour), time.UTC)
			if !due.IsZero() && !due.After(until) && !yield(due) {
				return
			}
		}
	}
}

// TestMissedReportsAreSentAsOne: what was due while no process ran is one report, for the last due time.
func TestMissedReportsAreSentAsOne(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, weeklyReport)
		prepare := func() { w.reports(askFor(found(1)...)).PrepareReports(t.Context()) }
		prepare() // the first look makes nothing due
		time.Sleep(30 * 24 * time.Hour)
		prepare()
		prepare()
		events := w.events("hook")
		if len(events) != 1 || time.Since(events[0].Time) > 4*24*time.Hour || events[0].Time.Hour() != 8 {
			t.Errorf("events %+v, want one of the last due time", events)
		}
		// A due time that was recorded while the clock was ahead counts as now.
		w.update(func(tx *store.Tx) error {
			return setState(tx, "report/weekly", fmt.Sprint(time.Now().AddDate(3, 0, 0).UnixMicro()))
		})
		prepare()
		time.Sleep(7 * 24 * time.Hour)
		prepare()
		if events := w.events("hook"); len(events) != 2 {
			t.Errorf("%d events after the clock was set back, want another one", len(events))
		}
		w.close()
	})
}

// TestReportSaysWhatItFound: also that it found nothing, and that its SQL failed.
func TestReportSaysWhatItFound(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, weeklyReport)
		broken := func(context.Context, string) ([]string, error) { return nil, errors.New("no such table: outlier") }
		var sql string
		for _, c := range []struct {
			ask         func(context.Context, string) ([]string, error)
			rows        int
			title, text string
		}{
			{func(_ context.Context, text string) ([]string, error) { sql = text; return []string{"0"}, nil }, 0, "The week: nothing found", "Its SQL returned no rows."},
			{askFor(found(1)...), 1, "The week: 1 row", ""},
			{askFor(found(upTo(12_345)...)...), MaxRows, "The week: 12345 rows", "These are the first 20."},
			{broken, 0, "The week failed", "no such table: outlier\n`outlierd report preview weekly` runs its SQL again."},
		} {
			r := w.reports(c.ask)
			r.PrepareReports(t.Context())
			time.Sleep(7 * 24 * time.Hour)
			r.PrepareReports(t.Context())
			events := w.events("hook")
			e := events[len(events)-1]
			if e.Kind != Report || e.Title != c.title || e.Text != c.text || len(e.Rows) != c.rows || e.Report != "weekly" {
				t.Errorf("event %+v\nwant %q with %d rows and %q", e, c.title, c.rows, c.text)
			}
		}
		if !strings.Contains(sql, `SELECT * FROM "new_this_week"`) {
			t.Errorf("asked %s, want the rows of the view", sql)
		}
		if log := w.log.String(); strings.Count(log, "report failed") != 1 {
			t.Errorf("log, want one failure:\n%s", log)
		}
		w.close()
	})
}

// hostileReport is a report whose texts try to be markup.
func hostileReport(t *testing.T) Event {
	t.Helper()
	const title = `</bdi><script>alert(1)</script> <!channel> @everyone [x](https://evil.example) | \u202Eevil \u0000`
	row := `{"video_id":"dQw4w9WgXcQ","title":"` + title + `","channel_title":"<b>Rival</b>","view_count":184300,` +
		`"average_views_ratio":41.3,"z_score":5.26,"views_per_day":22100.4,"published_at":"2026-11-21 08:00:00+00","note":"<i>why</i>"}`
	e, failed := MakeReport(t.Context(), &job.Report{Name: "weekly", SQL: "select 1"}, time.Date(2026, 11, 30, 8, 0, 0, 0, time.UTC), written,
		askFor(row, `{"channel_title":"Rival","subscriber_count":9400,"link":"javascript:alert(1)"}`))
	if failed != nil {
		t.Fatal(failed)
	}
	return e.cleanForSending(keepText)
}

const atAGlance = "41× · 184K views · +22K/d · score 5.3 · 9 d · note: "

func TestChatsShowRowsLikeCards(t *testing.T) {
	e := hostileReport(t)
	for as, note := range map[string]string{"slack": "&lt;i&gt;why", "discord": `\<i\>why`} {
		text, err := chatText(targetOf(t, `{webhook: "https://chat.example/x", as: `+as+`}`), e, maxDiscord,
			map[string]func(string) string{"slack": escapeSlack, "discord": escapeDiscord}[as])
		if err != nil {
			t.Fatal(err)
		}
		for _, want := range []string{"\n  https://youtu.be/dQw4w9WgXcQ\n", atAGlance + note, "• Rival (9.4K subscribers)"} {
			if !strings.Contains(text, want) {
				t.Errorf("%s gets no %s:\n%s", as, want, text)
			}
		}
		for _, refused := range []string{" <!channel", "@everyone", "javascript:", "\u202e"} {
			if strings.Contains(text, refused) {
				t.Errorf("%s gets %q:\n%s", as, refused, text)
			}
		}
		if as == "discord" && strings.Contains(text, "[x](https") {
			t.Errorf("Discord gets a link:\n%s", text)
		}
	}
}

// TestLongReportsAreCutBetweenRows in chats, which take a limited number of characters.
func TestLongReportsAreCutBetweenRows(t *testing.T) {
	long := strings.Repeat("\u4e2d", 500)
	var rows []string
	for range 3 * MaxRows {
		rows = append(rows, fmt.Sprintf(`{"video_id":"dQw4w9WgXcQ","title":"%[1]s","channel_title":"%[1]s","a":"%[1]s","b":"%[1]s"}`, long))
	}
	e, _ := MakeReport(t.Context(), &job.Report{Name: "weekly", About: long}, time.Now(), written, askFor(rows...))
	for as, most := range map[string]int{"slack": maxSlack, "discord": maxDiscord, "ntfy": maxNtfy} {
		m, err := writeBody(targetOf(t, `{webhook: "https://chat.example/x", as: `+as+`}`), e.cleanForSending(keepText))
		var said struct{ Text, Content string }
		if as == "ntfy" {
			said.Text = string(m.body)
		} else if err == nil {
			err = json.Unmarshal(m.body, &said)
		}
		text := said.Text + said.Content
		shown := strings.Count(text, "\n  https://youtu.be/dQw4w9WgXcQ")
		rest := ""
		if shown < MaxRows {
			rest = fmt.Sprintf("\nand %d more", MaxRows-shown)
		}
		if n := len([]rune(text)); err != nil || n > most || shown == 0 || !strings.HasSuffix(text, rest) {
			t.Errorf("%s: %v, %d characters with %d rows, want at most %d and %q at the end:\n%s", as, err, n, shown, most, rest, text)
		}
	}
}

// TestReportMailHasPicturesAndFile: what cannot be enclosed is left out, and the mail arrives.
func TestReportMailHasPicturesAndFile(t *testing.T) {
	var m mailbox
	target := targetOf(t, `{mail: {server: "`+m.serve(t)+`", tls: none, from: o@example.org, to: [a@example.org]}}`)
	s := sender()
	s.Picture = func(_ context.Context, video string) (*Picture, error) {
		return &Picture{Data: []byte("picture of " + video), Type: "image/jpeg"}, nil
	}
	s.Attach = func(_ context.Context, report string, due time.Time) (*File, error) {
		return &File{Name: report + "-" + due.Format(time.DateOnly) + ".csv", Type: "text/csv", Data: []byte("a,b\n")}, nil
	}
	e := hostileReport(t)
	if err := s.Send(t.Context(), target, e); err != nil {
		t.Fatal(err)
	}
	parts := partsOf(t, m.got[0], m.body)
	if names := parts["text/csv"]; !strings.Contains(names, "a,b") {
		t.Errorf("attached %q", names)
	}
	if got := parts["image/jpeg"]; got != "picture of dQw4w9WgXcQ" {
		t.Errorf("picture %q", got)
	}
	html := parts["text/html"]
	for _, want := range []string{`src="cid:dQw4w9WgXcQ@outlierd.invalid"`, `href="https://youtu.be/dQw4w9WgXcQ"`,
		`&lt;script&gt;`, "41× · 184K views", "&lt;b&gt;Rival"} {
		if !strings.Contains(html, want) {
			t.Errorf("the mail has no %s:\n%s", want, html)
		}
	}
	for _, refused := range []string{"<script", "<b>", "<i>", "javascript:", "\u202e", "https://evil.example\""} {
		if strings.Contains(html, refused) {
			t.Errorf("the mail has %s:\n%s", refused, html)
		}
	}
	if !strings.Contains(parts["text/plain"], atAGlance) {
		t.Errorf("plain text:\n%s", parts["text/plain"])
	}

	s.Picture = func(context.Context, string) (*Picture, error) { return nil, errors.New("the image host is away") }
	s.Attach = func(context.Context, string, time.Time) (*File, error) {
		return nil, errors.New("it has more than 10 MiB")
	}
	if err := s.Send(t.Context(), target, e); err != nil {
		t.Fatal(err)
	}
	parts = partsOf(t, m.got[1], m.body)
	for _, kind := range []string{"text/html", "text/plain"} {
		if !strings.Contains(parts[kind], "The attachment could not be made: it has more than 10 MiB") || strings.Contains(parts[kind], "cid:") {
			t.Errorf("%s without enclosures:\n%s", kind, parts[kind])
		}
	}
}

// partsOf returns the decoded parts of a mail by their type.
func partsOf(t *testing.T, m *mail.Message, body string) map[string]string {
	t.Helper()
	parts := map[string]string{}
	var walk func(kind, encoding string, r io.Reader)
	walk = func(contentType, encoding string, r io.Reader) {
		kind, values, err := mime.ParseMediaType(contentType)
		if err != nil {
			t.Fatal(err)
		}
		if !strings.HasPrefix(kind, "multipart/") {
			parts[kind] = decoded(t, encoding, r)
			return
		}
		all := multipart.NewReader(r, values["boundary"])
		for {
			part, err := all.NextRawPart()
			if errors.Is(err, io.EOF) {
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			walk(part.Header.Get("Content-Type"), part.Header.Get("Content-Transfer-Encoding"), part)
		}
	}
	walk(m.Header.Get("Content-Type"), m.Header.Get("Content-Transfer-Encoding"), strings.NewReader(body))
	return parts
}

// TestReportWaitsForTheMailServer: a server that is away for a day gets the report once, when it is back.
func TestReportWaitsForTheMailServer(t *testing.T) {
	testenv.RacesLittle(t)
	var m mailbox
	address := m.serve(t)
	w := newWorld(t, "")
	away := targetOf(t, `{mail: {server: "127.0.0.1:1", tls: none, from: o@example.org, to: [a@example.org]}}`)
	back := targetOf(t, `{mail: {server: "`+address+`", tls: none, from: o@example.org, to: [a@example.org]}}`)
	e := hostileReport(t)
	w.config.Targets = []job.Target{*away}
	w.update(func(tx *store.Tx) error { return w.watcher.putEvents(tx, []string{"t"}, e) })
	for i, target := range []*job.Target{away, away, back, back} {
		w.config.Targets = []job.Target{*target}
		w.update(func(tx *store.Tx) error {
			return tx.Exec("UPDATE notify_outbox SET next_try = 1, created = created - ?", (12 * time.Hour).Microseconds())
		})
		w.deliverer(func(http.ResponseWriter, *http.Request) {}).Flush(t.Context())
		w.close()
		w.open()
		if want := max(0, min(i-1, 1)); len(m.got) != want {
			t.Errorf("%d mails after attempt %d, want %d", len(m.got), i+1, want)
		}
	}
	if ids := m.arrived["a@example.org"]; !slices.Equal(ids, []string{"<" + e.ID + "@outlierd.invalid>"}) {
		t.Errorf("mails %v, want the report's once", ids)
	}
	w.close()
}

// decoded returns the text of a part.
func decoded(t *testing.T, encoding string, r io.Reader) string {
	t.Helper()
	switch strings.ToLower(encoding) {
	case "base64":
		r = base64.NewDecoder(base64.StdEncoding, r)
	case "quoted-printable":
		r = quotedprintable.NewReader(r)
	}
	text, err := io.ReadAll(r)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// written returns the SQL of a report as the job file has it.
func written(report *job.Report) (string, error) { return report.SQL, nil }
