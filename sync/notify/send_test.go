package notify

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
	"unicode/utf16"

	"outlierd/sync/job"
)

const secret = "CANARY-4711"

// hostile is a title of an attacker.
const hostile = "Breakout\"} \\ {{.Job}} ${HOME} $(touch x) `y` <!channel> <@U1> @everyone [here](https://evil.example)\r\nBcc: a@evil.example\x1b[31m\u202e"

// targetOf returns the target that a job file defines with this entry.
func targetOf(t *testing.T, entry string) *job.Target {
	t.Helper()
	src := "version: 1\nservice: {url: \"sim://\"}\njobs: {a: {search: {query: x}}}\nnotify:\n  t: " + entry + "\n"
	config, err := job.Parse("jobs.yaml", []byte(src), func(name string) (string, bool) {
		value := map[string]string{"SECRET": secret, "WRONG": "x" + secret}[name]
		return value, value != ""
	})
	if err != nil {
		t.Fatal(err)
	}
	return config.Target("t")
}

// request is a request that a receiver got.
type request struct {
	path, query string
	header      http.Header
	body        string
}

// receiver starts a server that keeps the requests it gets and answers with a status.
func receiver(t *testing.T, status int) (address string, got *[]request) {
	t.Helper()
	got = &[]request{}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			t.Error(err)
		}
		*got = append(*got, request{r.URL.Path, r.URL.RawQuery, r.Header, string(body)})
		if status/100 == 3 {
			w.Header().Set("Location", "/elsewhere")
		}
		w.Header().Set("Retry-After", "120")
		http.Error(w, "said "+secret+"\n\x1b[31mred", status)
	}))
	t.Cleanup(server.Close)
	return server.URL, got
}

func sender() *Sender {
	return &Sender{
		Transport: http.DefaultTransport, UserAgent: "outlierd/test", Env: os.LookupEnv,
		Redact: func(s string) string { return strings.ReplaceAll(s, "KEY-0815", "[redacted]") },
	}
}

func breakout() Event {
	return Event{
		ID: "event-1", Kind: Alert, Alert: "rival-hit", Time: time.Date(2026, 11, 22, 6, 30, 0, 0, time.UTC),
		Title: hostile, Text: "The key is KEY-0815.",
		Rows: []Row{{
			Title: hostile, Link: "https://video.example/watch?v=1&t=2",
			Values: map[string]any{"title": hostile, "z_score": json.Number("5.5"), "tags": []any{"a", "<b>"}},
		}, {Title: "no link", Link: "javascript:alert(1)", Values: map[string]any{}}},
	}
}

// TestManualsChatsShowTextOfOthers as it is: the examples for Telegram and Teams in docs/notifications.md.
func TestManualsChatsShowTextOfOthers(t *testing.T) {
	manual, err := os.ReadFile("../../docs/notifications.md")
	if err != nil {
		t.Fatal(err)
	}
	_, section, _ := strings.Cut(string(manual), "### Telegram and Teams")
	_, example, _ := strings.Cut(section, "```yaml\n")
	example, _, _ = strings.Cut(example, "```")
	many := breakout()
	for range MaxRows {
		many.Rows = append(many.Rows, Row{Title: strings.Repeat("\U0001F600", maxTitle), Link: "https://youtu.be/dQw4w9WgXcQ"})
	}
	failed := Event{ID: "event-2", Kind: Failed, Title: hostile}
	titles := breakout().cleanForSending(keepText)
	for _, e := range []Event{breakout(), many, failed} {
		address, got := receiver(t, http.StatusAccepted)
		config, err := job.Parse("jobs.yaml", []byte("version: 1\nservice: {url: \"sim://\"}\n"+strings.Replace(example, "https://api.telegram.org", address, 1)),
			func(name string) (string, bool) {
				value := map[string]string{"TELEGRAM_TOKEN": secret, "TEAMS_WEBHOOK": address + "/teams"}[name]
				return value, value != ""
			})
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range []string{"telegram", "teams"} {
			target := config.Target(name)
			if err := errors.Join(CheckBody(target), sender().Send(t.Context(), target, e)); err != nil {
				t.Fatalf("%s: %v", name, err)
			}
		}
		var message struct {
			Text      string
			ParseMode string `json:"parse_mode"`
		}
		if err := json.Unmarshal([]byte((*got)[0].body), &message); err != nil || (*got)[0].path != "/bot"+secret+"/sendMessage" ||
			!strings.HasPrefix(message.Text, titles.Title+"\n") || len(utf16.Encode([]rune(message.Text))) > 4096 || message.ParseMode != "" {
			t.Errorf("%v, Telegram gets at %s\n%s\nwant at most 4,096 characters of plain text", err, (*got)[0].path, (*got)[0].body)
		}
		body := (*got)[1].body
		var card struct {
			Attachments []struct {
				Content struct {
					Body []struct {
						Type    string
						Inlines []struct {
							Text         string
							SelectAction struct{ URL string }
						}
					}
				}
			}
		}
		if err := json.Unmarshal([]byte(body), &card); err != nil || len(card.Attachments) != 1 || len(body) > 28<<10 {
			t.Fatalf("%v, Teams gets\n%s\nwant one card of at most 28 KB", err, body)
		}
		blocks := card.Attachments[0].Content.Body
		if want := min(len(e.Rows), MaxRows) + 1; len(blocks) < want || blocks[0].Inlines[0].Text != titles.Title {
			t.Errorf("Teams gets %d blocks, want %d or one more, first %q:\n%s", len(blocks), want, titles.Title, body)
		}
		for _, b := range blocks {
			if b.Type != "RichTextBlock" || b.Inlines[0].Text == "" || strings.HasPrefix(b.Inlines[0].SelectAction.URL, "javascript:") {
				t.Errorf("Teams gets %+v, want text without Markdown", b)
			}
		}
	}
}

func TestWebhookGetsEventInJson(t *testing.T) {
	address, got := receiver(t, http.StatusOK)
	target := targetOf(t, `{webhook: "`+address+`/hook/${SECRET}", headers: {Authorization: "Bearer ${SECRET}"}}`)
	if err := sender().Send(t.Context(), target, breakout()); err != nil {
		t.Fatal(err)
	}
	r := (*got)[0]
	if r.path != "/hook/"+secret || r.header.Get("Authorization") != "Bearer "+secret || r.header.Get("Idempotency-Key") != "event-1" ||
		r.header.Get("Content-Type") != "application/json" || r.header.Get("User-Agent") != "outlierd/test" {
		t.Errorf("got %+v", r)
	}
	var e Event
	if err := json.Unmarshal([]byte(r.body), &e); err != nil {
		t.Fatal(err)
	}
	if e.Version != 1 || e.ID != "event-1" || e.Kind != Alert || len(e.Rows) != 2 || e.Rows[0].Link == "" || e.Rows[1].Link != "" {
		t.Errorf("got %+v", e)
	}
	for _, bad := range []string{"KEY-0815", "\x1b", "\u202e", "\n"} {
		if strings.Contains(r.body, bad) || strings.Contains(e.Title+e.Text, bad) {
			t.Errorf("the body has %q: %s", bad, r.body)
		}
	}
}

// Untrusted texts are no mentions and no links, and break no format.
func TestHostileTextsAreOnlyData(t *testing.T) {
	for _, as := range []string{"slack", "discord"} {
		for _, body := range []string{"", `, body: "{{.Title}}{{range .Rows}} {{.Title}}{{end}}"`} {
			address, got := receiver(t, http.StatusOK)
			if err := sender().Send(t.Context(), targetOf(t, `{webhook: "`+address+`", as: `+as+body+`}`), breakout()); err != nil {
				t.Fatal(err)
			}
			var said struct {
				Text, Content   string
				AllowedMentions *struct{ Parse []string } `json:"allowed_mentions"`
			}
			if err := json.Unmarshal([]byte((*got)[0].body), &said); err != nil {
				t.Fatal(err)
			}
			text := said.Text + said.Content
			for _, bad := range []string{"<!channel>", "<@U1>", "@everyone", "KEY-0815"} {
				if strings.Contains(text, bad) {
					t.Errorf("%s%s: %q stands in %q", as, body, bad, text)
				}
			}
			if !strings.Contains(text, "{{.Job}}") && !strings.Contains(text, "Breakout") {
				t.Errorf("%s: the title is missing: %q", as, text)
			}
			if as == "discord" && (said.AllowedMentions == nil || len(said.AllowedMentions.Parse) != 0 || strings.Contains(text, "[here](")) {
				t.Errorf("discord may mention %+v: %q", said.AllowedMentions, text)
			}
		}
	}
}

func TestNtfyTitleIsOneLine(t *testing.T) {
	address, got := receiver(t, http.StatusOK)
	e := breakout()
	e.Rows = e.Rows[:1]
	if err := sender().Send(t.Context(), targetOf(t, `{webhook: "`+address+`", as: ntfy}`), e); err != nil {
		t.Fatal(err)
	}
	h := (*got)[0].header
	if h.Get("Bcc") != "" || h.Get("Click") != e.Rows[0].Link || !strings.Contains(h.Get("Title"), "Breakout") || h.Get("Priority") != "" {
		t.Errorf("headers %v", h)
	}
	e.Title, e.Kind = "Über\r\nX-Evil: 1", Failed
	if err := sender().Send(t.Context(), targetOf(t, `{webhook: "`+address+`", as: ntfy}`), e); err != nil {
		t.Fatal(err)
	}
	if h := (*got)[1].header; h.Get("X-Evil") != "" || !strings.HasPrefix(h.Get("Title"), "=?utf-8?b?") || h.Get("Priority") != "high" {
		t.Errorf("headers %v", h)
	}
}

// Errors say what happened, and show only the host of the address.
func TestErrorsShowOnlyTheHost(t *testing.T) {
	for status, want := range map[int]string{
		http.StatusFound:               "127.0.0.1 answered 302 Found: redirects are not followed",
		http.StatusInternalServerError: "127.0.0.1 answered 500 Internal Server Error: said ******** [31mred",
		http.StatusNotFound:            "127.0.0.1 answered 404 Not Found",
		0:                              "127.0.0.1: ",
	} {
		address, got := "http://127.0.0.1:1", new([]request)
		if status != 0 {
			address, got = receiver(t, status)
		}
		target := targetOf(t, `{webhook: "`+address+`/hook/${SECRET}?token=${SECRET}", headers: {X-Token: "${SECRET}"}}`)
		err := sender().Send(t.Context(), target, breakout())
		if err == nil || !strings.HasPrefix(err.Error(), want) || strings.Contains(err.Error(), secret) || strings.Contains(err.Error(), "/hook") {
			t.Errorf("%d: %v", status, err)
		}
		if len(*got) > 1 {
			t.Errorf("%d: %d requests", status, len(*got))
		}
	}
}

func TestRequestTimesOut(t *testing.T) {
	never := make(chan struct{})
	server := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { <-never }))
	defer server.Close()
	defer close(never)
	ctx, cancel := context.WithTimeoutCause(t.Context(), 50*time.Millisecond, context.DeadlineExceeded)
	defer cancel()
	err := sender().Send(ctx, targetOf(t, `{webhook: "`+server.URL+`/${SECRET}"}`), breakout())
	if err == nil || !strings.Contains(err.Error(), "no answer within") || strings.Contains(err.Error(), secret) {
		t.Errorf("got %v", err)
	}
}

func TestHealthchecksIsPingedForRuns(t *testing.T) {
	const check, run = "6e1d8d3e-3d0a-4b8e-9a43-2b1f5d6a7c11", "0197a2b0-0000-7000-8000-000000000001"
	for _, c := range []struct {
		path string
		kind Kind
		job  string
		want string
	}{
		{"/ping/" + check, Started, "coffee", "/ping/" + check + "/start?rid=" + run},
		{"/ping/" + check, Published, "coffee", "/ping/" + check + "?rid=" + run},
		{"/ping/" + check, Failed, "coffee", "/ping/" + check + "/fail?rid=" + run},
		{"/pingkey", Published, "coffee_2", "/pingkey/coffee-2?create=1&rid=" + run},
		{"/pingkey?create=0", Started, "coffee", "/pingkey/coffee/start?create=1&rid=" + run},
		{"/pingkey", SchemaDrift, "", ""},
	} {
		address, got := receiver(t, http.StatusOK)
		target := targetOf(t, `{healthchecks: "`+address+c.path+`"}`)
		if err := sender().Send(t.Context(), target, Event{Kind: c.kind, Job: c.job, Run: run, Title: "coffee"}); err != nil {
			t.Fatal(err)
		}
		pinged := ""
		for _, r := range *got {
			pinged += r.path + "?" + r.query
		}
		if pinged != c.want {
			t.Errorf("%s of %s pings %q, want %q", c.kind, c.path, pinged, c.want)
		}
	}
}

func TestCommandReadsEventFromInput(t *testing.T) {
	t.Setenv("OUTLIERD_KEY", "KEY-0815")
	dir := t.TempDir()
	s := sender()
	s.Dir = dir
	target := targetOf(t, `{command: [/bin/sh, -c, "cat > got; env > env; printf '%s\n' \"$OUTLIERD_TITLE\" \"$@\" > words", x, "$(touch y)"]}`)
	if err := s.Send(t.Context(), target, breakout()); err != nil {
		t.Fatal(err)
	}
	read := func(name string) string {
		t.Helper()
		text, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil {
			t.Fatal(err)
		}
		return string(text)
	}
	var e Event
	if err := json.Unmarshal([]byte(read("got")), &e); err != nil || e.ID != "event-1" || !strings.Contains(e.Title, "$(touch x)") {
		t.Errorf("got %+v (%v)", e, err)
	}
	if env := read("env"); strings.Contains(env, "KEY-0815") || !strings.Contains(env, "OUTLIERD_EVENT=alert\n") {
		t.Errorf("the environment is %s", env)
	}
	if words := read("words"); words != e.Title+"\n$(touch y)\n" {
		t.Errorf("the words are %q", words)
	}
	for _, name := range []string{"x", "y"} {
		if _, err := os.Stat(filepath.Join(dir, name)); err == nil {
			t.Errorf("a word became a command: there is %s", name)
		}
	}
	leaving := targetOf(t, `{command: [/bin/sh, -c, "echo $$ > pid; sleep 1000 & exit 0"]}`)
	if err := s.Send(t.Context(), leaving, breakout()); err != nil {
		t.Errorf("a program that ended with 0 and left another one running: %v", err)
	}
	if group, err := strconv.Atoi(strings.TrimSpace(read("pid"))); err != nil || syscall.Kill(-group, syscall.SIGKILL) != nil {
		t.Errorf("the program that was left did not run: %v", err)
	}
	failing := targetOf(t, `{command: [/bin/sh, -c, "echo no bell >&2; exit 3"]}`)
	if err := s.Send(t.Context(), failing, breakout()); err == nil || err.Error() != "/bin/sh: exit status 3: no bell" {
		t.Errorf("got %v", err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	endless := targetOf(t, `{command: [/bin/sh, -c, "sleep 1000 & wait"]}`)
	if err := s.Send(ctx, endless, breakout()); err == nil || !strings.Contains(err.Error(), "killed after") {
		t.Errorf("got %v", err)
	}
}

func TestTemplatesAreCheckedBeforeUse(t *testing.T) {
	const notJSON = "the body is not JSON: write values as {{json .Title}}, or declare another type: headers: {Content-Type: text/plain}"
	for _, c := range []struct{ declared, body, want string }{
		{"", `{"text": {{json .Title}}, "n": {{.Counts.credits}}, "ids": [{{range .Rows}}{{json .Values.view_count}},{{end}}0]}`, ""},
		{"text/plain", `[{{.Event}}] {{.Title}}{{range .Rows}} {{.Values.z_score}}{{end}}`, ""},
		{"text/plain", `{{.Title}}`, ""},
		{"application/cloudevents+json; charset=utf-8", `{{.Title}}`, notJSON},
		{"", `{{.Title}}`, notJSON},
		{"", `{"text": "{{.Title}}"}`, notJSON},
		{"", `[{{range .Rows}}{{.Values.view_count}},{{end}}0]`, notJSON}, // it may be NULL
		{"", "a\n{{.Titel}}", "template: body:2:2: executing \"body\" at <.Titel>: can't evaluate field Titel in type notify.fields"},
		{"", "{{.Title", "template: body:1: unclosed action"},
	} {
		target := targetOf(t, `{webhook: "https://hook.example"}`)
		if c.declared != "" {
			target = targetOf(t, `{webhook: "https://hook.example", body: x, headers: {content-type: "`+c.declared+`"}}`)
		}
		target.Body = c.body
		if got := errText(CheckBody(target)); got != c.want {
			t.Errorf("%s as %q: got %q, want %q", c.body, c.declared, got, c.want)
		}
	}
}

// A title that looks like JSON is text where the target says so.
func TestBodyHasTheDeclaredType(t *testing.T) {
	for headers, want := range map[string]string{"": "application/json", `, headers: {Content-Type: "text/x-mine"}`: "text/x-mine"} {
		address, got := receiver(t, http.StatusOK)
		body := "{{json .Title}}"
		if headers != "" {
			body = "{{.Title}}"
		}
		e := Event{ID: "1", Kind: Test, Title: "[MV] Espresso (Live)"}
		if err := sender().Send(t.Context(), targetOf(t, `{webhook: "`+address+`", body: "`+body+`"`+headers+`}`), e); err != nil {
			t.Fatal(err)
		}
		if r := (*got)[0]; r.header.Get("Content-Type") != want || !strings.Contains(r.body, e.Title) {
			t.Errorf("got %q of type %q, want the title as %q", r.body, r.header.Get("Content-Type"), want)
		}
	}
}

// Only secrets are hidden in errors, and the time of the next attempt is kept.
func TestOnlySecretsAreHidden(t *testing.T) {
	address, _ := receiver(t, http.StatusTooManyRequests)
	for headers, want := range map[string]string{
		`{Priority: "4", X-Source: answered}`: "127.0.0.1 answered 429 Too Many Requests: said CANARY-4711 [31mred",
		`{Authorization: "Bearer ${SECRET}"}`: "127.0.0.1 answered 429 Too Many Requests: said ******** [31mred",
		`{X-Api-Key: CANARY-4711}`:            "127.0.0.1 answered 429 Too Many Requests: said ******** [31mred",
	} {
		err := sender().Send(t.Context(), targetOf(t, `{webhook: "`+address+`", headers: `+headers+`}`), breakout())
		refused, is := errors.AsType[*RefusedError](err)
		if errText(err) != want || !is || refused.After != 120*time.Second {
			t.Errorf("%s: got %+v, want %s, and 120 s", headers, err, want)
		}
	}
	if got := retryAfter(time.Now().Add(time.Hour).UTC().Format(http.TimeFormat)); got < 59*time.Minute || got > time.Hour {
		t.Errorf("a date in an hour is %v", got)
	}
}

// An answer that quotes the address, as it is or decoded, does not show its secrets, not even where it is cut.
func TestAnswersQuoteNoAddress(t *testing.T) {
	for _, before := range []string{"", strings.Repeat("x", 115)} {
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			decoded, _ := url.QueryUnescape(r.RequestURI)
			http.Error(w, before+"Cannot POST "+r.RequestURI+" "+decoded, http.StatusNotFound)
		}))
		target := targetOf(t, `{webhook: "`+server.URL+`/hook/${SECRET}?sig=${SECRET}-CANARY%2FCANARY"}`)
		err := sender().Send(t.Context(), target, breakout())
		if text := errText(err); !strings.Contains(text, before+"Can") || strings.Contains(text, "CANARY") {
			t.Error(text)
		}
		server.Close()
	}
}

func errText(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}

// The schema of the job file lists the kinds of events.
func TestSchemaListsTheEvents(t *testing.T) {
	var doc struct {
		Definitions struct {
			Receiver struct {
				Properties struct {
					Events struct{ Items struct{ Enum []Kind } }
				}
			}
		}
	}
	if err := json.Unmarshal(job.Schema(), &doc); err != nil {
		t.Fatal(err)
	}
	want := []Kind{Published, Partial, Failed, Recovered, BudgetLow, BudgetPaused, UnknownOutcome,
		KeyRefused, DiskLow, SchemaDrift, SinkBehind, BackupFailed, FileRefused}
	if got := doc.Definitions.Receiver.Properties.Events.Items.Enum; !slices.Equal(got, want) {
		t.Errorf("the schema has %v, want %v", got, want)
	}
}
