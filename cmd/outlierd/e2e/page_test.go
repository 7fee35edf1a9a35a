package e2e

import (
	"encoding/json"
	"fmt"
	"html"
	"io"
	"maps"
	"net"
	"net/http"
	"net/http/cookiejar"
	"net/url"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"outlierd/cmd/outlierd/programtest"
	"outlierd/outlier"
	"outlierd/outlier/simulator"
)

// paged starts `up` with pages at a free address.
func (w *testWorld) paged(jobs string) (address string, stop func()) {
	w.Helper()
	address, free, err := programtest.ReservePort()
	w.Cleanup(free)
	if err != nil {
		w.Fatal(err)
	}
	w.write(jobs + "daemon: {listen: \"" + address + "\"}\n")
	stop = w.daemon()
	for ; ; time.Sleep(10 * time.Millisecond) { // the socket for commands is created before
		if c, err := net.Dial("tcp", address); err == nil {
			_ = c.Close()
			return "http://" + address, stop
		}
	}
}

// get returns a page of a daemon, with HTML entities unescaped.
func (w *testWorld) get(address string) string {
	w.Helper()
	r, err := http.Get(address)
	if err != nil {
		w.Fatal(err)
	}
	defer r.Body.Close()
	body, err := io.ReadAll(r.Body)
	if err != nil || r.StatusCode != http.StatusOK {
		w.Fatalf("%s: HTTP %d %s %v, want %d", address, r.StatusCode, body, err, http.StatusOK)
	}
	return html.UnescapeString(string(body))
}

// TestPagesShowWhatTheCommandsShow about runs from before the daemon started.
func TestPagesShowWhatTheCommandsShow(t *testing.T) {
	t.Parallel() // it runs processes of its own
	w := newWorld(t, simulator.Options{Seed: 1, Freeze: true, Limit: 1_000_000})
	jobs := strings.ReplaceAll(programtest.Searches(2, 1), "    search: {", "    schedule: 0 0 1 1 *\n    search: {")
	w.write(jobs)
	w.mustRun("run", "--all", "--yes")
	address, stop := w.paged(jobs)
	defer stop()

	var runs []struct {
		Run    string `json:"run_id"`
		Job    string
		Status string
		Hits   int64
	}
	if err := json.Unmarshal([]byte(w.mustRun("runs", "-o", "json")), &runs); err != nil || len(runs) != 3 {
		t.Fatalf("%d runs, %v, want 3", len(runs), err)
	}
	now := w.get(address + "/now")
	spent := 0
	w.query("select sum(price)::bigint from ops.credits", func(row []any) { spent = int(row[0].(int64)) })
	for _, want := range []string{
		"search-0", "/runs/" + runs[0].Run, fmt.Sprint(1000 - spent), "of 1\u202f000 left",
	} {
		if !strings.Contains(now, want) {
			t.Errorf("the page Now does not contain %q: %s", want, now)
		}
	}
	list := w.get(address + "/runs")
	for _, r := range runs {
		if !strings.Contains(list, "/runs/"+r.Run) {
			t.Errorf("the list does not contain %+v", r)
		}
		var d struct {
			Requests int64
			Searches []struct {
				Queries []string
				Stop    string
			}
		}
		if err := json.Unmarshal([]byte(w.mustRun("runs", r.Run, "-o", "json")), &d); err != nil {
			t.Fatal(err)
		}
		page := w.get(address + "/runs/" + r.Run)
		wants := []string{r.Job, r.Status, fmt.Sprintf("1 to %d of %[1]d", d.Requests)}
		for _, s := range d.Searches {
			wants = append(wants, s.Queries[0], s.Stop)
		}
		for _, want := range wants {
			if !strings.Contains(page, want) {
				t.Errorf("run %s: the page does not contain %q", r.Run, want)
			}
		}
	}
	if only := w.get(address + "/runs?job=search-1&status=ok"); strings.Count(only, "/runs/0") != 1 {
		t.Errorf("the list of one job has %d runs, want 1: %s", strings.Count(only, "/runs/0"), only)
	}
}

// A visitor is a browser that keeps its session.
type visitor struct {
	*testWorld
	http.Client
	address string
}

// loggedIn returns a browser that is logged in with a URL of `open`.
func (w *testWorld) loggedIn(address string) *visitor {
	w.Helper()
	jar, err := cookiejar.New(nil)
	if err != nil {
		w.Fatal(err)
	}
	v := &visitor{w, http.Client{Jar: jar}, address}
	login := strings.TrimPrefix(strings.TrimSpace(w.mustRun("open", "--print")), address)
	if code, body := v.visit(login); code != http.StatusOK {
		w.Fatalf("login: HTTP %d %s, want %d", code, body, http.StatusOK)
	}
	return v
}

// visit requests a page, and returns it with HTML entities unescaped.
func (v *visitor) visit(path string) (code int, body string) {
	v.Helper()
	return v.read(v.Get(v.address + path))
}

func (v *visitor) read(r *http.Response, err error) (code int, body string) {
	v.Helper()
	if err != nil {
		v.Fatal(err)
	}
	defer r.Body.Close()
	text, err := io.ReadAll(r.Body)
	if err != nil {
		v.Fatal(err)
	}
	return r.StatusCode, html.UnescapeString(string(text))
}

var hiddenFields = regexp.MustCompile(`<input type="hidden" name="(\w+)" value="([^"]*)">`)

// agree requests an offer and submits its form with the fields that a user has typed. It returns the offer and the
// page after it.
func (v *visitor) agree(path string, typed url.Values) (offer, after string) {
	v.Helper()
	code, offer := v.visit(path)
	if code != http.StatusOK {
		v.Fatalf("%s: HTTP %d %s", path, code, offer)
	}
	form := url.Values{}
	for _, field := range hiddenFields.FindAllStringSubmatch(offer, -1) {
		form.Set(field[1], field[2])
	}
	maps.Copy(form, typed)
	where, _, _ := strings.Cut(path, "?")
	_, after = v.read(v.PostForm(v.address+where, form))
	return offer, after
}

// TestPageDoesWhatTheCommandsDo for a browser that has logged in.
func TestPageDoesWhatTheCommandsDo(t *testing.T) {
	t.Parallel() // it runs processes of its own
	w := newWorld(t, simulator.Options{Seed: 1, Freeze: true, Limit: 1_000_000})
	jobs := strings.ReplaceAll(programtest.Searches(1, 2), "    search: {", "    schedule: 0 0 1 1 *\n    search: {")
	address, stop := w.paged(jobs)
	defer stop()
	anonymous := &visitor{testWorld: w, address: address}
	if code, body := anonymous.visit("/do/run?job=search-0"); code != http.StatusUnauthorized || strings.Contains(body, "credits") {
		t.Errorf("without a login: HTTP %d %s, want %d without a price", code, body, http.StatusUnauthorized)
	}
	v := w.loggedIn(address)
	is := func(what, page string, wants ...string) {
		t.Helper()
		for _, want := range wants {
			if !strings.Contains(page, want) {
				t.Errorf("%s: the page does not contain %q: %s", what, want, page)
			}
		}
	}
	recorded := func() string { return w.mustRun("runs", "-o", "json") }

	offer, after := v.agree("/do/run?job=search-0", nil)
	is("offer of a run", offer, "search-0: at most 2 credits", "Run it")
	is("run", after, "Run 0", "search-0")
	var done []struct {
		Run    string `json:"run_id"`
		Status string
	}
	for len(done) == 0 || done[0].Status == "running" {
		if err := json.Unmarshal([]byte(w.mustRun("runs", "-o", "json", "--job", "search-0")), &done); err != nil {
			t.Fatal(err)
		}
	}
	if len(done) != 1 || done[0].Status != "ok" || !strings.Contains(after, done[0].Run) {
		t.Errorf("runs are %+v, want one with status ok, whose id is on the page: %s", done, after)
	}

	offer, after = v.agree("/do/pause?job=search-1", url.Values{"until": {"2100-01-01"}, "why": {"the <launch>"}})
	is("offer of a pause", offer, "This costs nothing", `name="until"`)
	is("pause", after, "paused until 2100-01-01 00:00 UTC (the <launch>)", "/do/resume?job=search-1")
	reason := strings.Repeat("咖", 200)
	_, after = v.agree("/do/pause?job=search-1", url.Values{"why": {reason}})
	is("pause with a reason of 200 characters", after, reason)
	_, after = v.agree("/do/pause?job=search-1", url.Values{"why": {reason + "啡"}})
	is("pause with a longer reason", after, "the reason may have at most 200 characters")
	_, after = v.agree("/do/pause?job=search-1", url.Values{"until": {"yesterday"}})
	if !strings.Contains(after, "want a date, a time") {
		t.Errorf("a pause until yesterday was not refused: %s", after)
	}
	offer, after = v.agree("/do/resume?job=search-1", nil)
	is("offer of a resumption", offer, "paused until resumed", "at most 2 credits")
	is("resumption", after, "/do/pause?job=search-1")
	if strings.Contains(after, "paused until") {
		t.Errorf("after the resumption, the job is still paused: %s", after)
	}
	for path, want := range map[string]string{
		"/do/resume?job=search-1": "search-1 is not paused",
		"/do/run?job=other":       "no job",
		"/do/lift":                "no calls are blocked",
		"/do/cancel?run=01a2":     "01a2",
	} {
		if code, body := v.visit(path); code != http.StatusConflict || !strings.Contains(body, want) {
			t.Errorf("%s: HTTP %d %s, want %d with %q", path, code, body, http.StatusConflict, want)
		}
	}
	if code, _ := v.visit("/do/shutdown"); code != http.StatusNotFound {
		t.Errorf("an unknown action: HTTP %d, want %d", code, http.StatusNotFound)
	}

	// A job that was edited after the offer was shown is not run.
	_, stale := v.visit("/do/run?job=search-2")
	form := url.Values{}
	for _, field := range hiddenFields.FindAllStringSubmatch(stale, -1) {
		form.Set(field[1], field[2])
	}
	form.Set("seen", "of another job")
	before := recorded()
	code, body := v.read(v.PostForm(address+"/do/run", form))
	if code != http.StatusConflict || !strings.Contains(body, "has changed since its price was shown") {
		t.Errorf("a run of an edited job: HTTP %d %s, want %d", code, body, http.StatusConflict)
	}
	if after := recorded(); before != after {
		t.Errorf("a refused run changed the runs from\n%s\nto\n%s", before, after)
	}
}

// TestBrowserStaysLoggedIntoBothDaemons on one host, although it sends its cookies to all ports.
func TestBrowserStaysLoggedIntoBothDaemons(t *testing.T) {
	t.Parallel()
	jobs := strings.ReplaceAll(programtest.Searches(1, 2), "    search: {", "    schedule: 0 0 1 1 *\n    search: {")
	one, two := newWorld(t, simulator.Options{Seed: 1}), newWorld(t, simulator.Options{Seed: 1})
	addressOfOne, stopOne := one.paged(jobs)
	defer stopOne()
	addressOfTwo, stopTwo := two.paged(jobs)
	defer stopTwo()
	v := one.loggedIn(addressOfOne)
	second := &visitor{two, v.Client, addressOfTwo}
	if _, body := second.visit("/"); !strings.Contains(body, ">Log in<") {
		t.Errorf("before the login at the second daemon: %s", body)
	}
	login := strings.TrimPrefix(strings.TrimSpace(two.mustRun("open", "--print")), addressOfTwo)
	if code, body := second.visit(login); code != http.StatusOK {
		t.Fatalf("login: HTTP %d %s, want %d", code, body, http.StatusOK)
	}
	for _, v := range []*visitor{v, second} {
		if _, body := v.visit("/"); !strings.Contains(body, ">Logged in<") {
			t.Errorf("after a login at each daemon: %s", body)
		}
	}
}

// TestPageLiftsBlocks of calls, cancels a run that waits, and tells of unconfirmed scans.
func TestPageLiftsBlocks(t *testing.T) {
	t.Parallel() // it runs processes of its own
	w := newWorld(t, simulator.Options{Seed: 1, Freeze: true, Limit: 1_000_000})
	address, stop := w.paged(`version: 1
service: {url: "${OUTLIERD_URL}", key: "${OUTLIERD_KEY}", limit: 30/min}
budget: {per_month: 1000}
jobs:
  many: {schedule: 0 0 1 1 *, search: {query: espresso}, enrich: {details: {}}}
  scanner: {schedule: 0 0 1 1 *, scan: {query: [moka pot]}}
`)
	defer stop()
	v := w.loggedIn(address)
	is := func(what, page string, wants ...string) {
		t.Helper()
		for _, want := range wants {
			if !strings.Contains(page, want) {
				t.Fatalf("%s: the page does not contain %q: %s", what, want, page)
			}
		}
	}

	w.service.FailNext(outlier.OpStartScan, simulator.DropAnswer)
	v.agree("/do/run?job=scanner", nil)
	is("an unconfirmed start", v.until("The service did not confirm the start of a scan of scanner"), "50 credits", "outlierd scan adopt")

	w.service.FailNext(outlier.OpSearch, simulator.NoCredits)
	v.agree("/do/run?job=many", nil)
	offer, after := v.agree(v.until("/do/lift"), nil)
	is("offer to lift", offer, "This costs nothing")
	is("lifted", after, "/do/run?job=many")
	if strings.Contains(after, "/do/lift") {
		t.Errorf("after the block was lifted, the page still offers it: %s", after)
	}

	// The rest of the run waits for the next minute.
	v.agree("/do/run?job=many", nil)
	v.until("queued")
	offer, _ = v.agree(v.until("/do/cancel?run="), nil)
	is("offer of a stop", offer, "Everything that was paid for is stored")
	is("after the stop", v.now(), "/do/run?job=many")
}

// until waits until the page Now contains a text, and returns the text and what follows up to a quotation mark.
func (v *visitor) until(text string) string {
	v.Helper()
	now := ""
	for began := time.Now(); time.Since(began) < 30*time.Second; time.Sleep(50 * time.Millisecond) {
		now = v.now()
		if _, rest, has := strings.Cut(now, text); has {
			end, _, _ := strings.Cut(rest, `"`)
			return text + end
		}
	}
	v.Fatalf("after 30 s the page Now does not contain %s: %s", text, now)
	return ""
}

// now returns the page Now.
func (v *visitor) now() string {
	v.Helper()
	_, body := v.visit("/now")
	return body
}

// get requests a page.
func get(address string) (status int, body string, err error) {
	r, err := http.Get(address)
	if err != nil {
		return 0, "", err
	}
	defer r.Body.Close()
	text, err := io.ReadAll(r.Body)
	return r.StatusCode, string(text), err
}

// TestReadsDoNotChangeRuns: during runs, 40 concurrent requests of pages, or with -long 200, are answered, and the runs
// have the same rows and costs as without them.
func TestReadsDoNotChangeRuns(t *testing.T) {
	t.Parallel() // it runs processes of its own
	jobs := strings.ReplaceAll(programtest.Searches(1, 2), "    search: {", "    schedule: 0 0 1 1 *\n    search: {")
	rowsAndCosts := func(w *testWorld) (text string) {
		for _, query := range []string{
			"select count(*), sum(z_score) from outliers", "select count(*) from comments", "select sum(price) from ops.credits",
		} {
			w.query(query, func(row []any) { text += fmt.Sprintln(row...) })
		}
		return text
	}
	calm := newWorld(t, simulator.Options{Seed: 1, Freeze: true, Limit: 1_000_000})
	calm.write(jobs)
	calm.mustRun("run", "--all")
	slow := func() time.Duration { return 20 * time.Millisecond } // so that the runs last as long as the reads
	w := newWorld(t, simulator.Options{Seed: 1, Freeze: true, Limit: 1_000_000, Latency: slow})
	address, stop := w.paged(jobs)
	w.mustRun("run", "search-0") // so that the pages have content
	var video, channel, run string
	w.query("select any_value(video_id), any_value(channel_id), (select any_value(run_id) from ops.runs) from outliers",
		func(row []any) { video, channel, run = row[0].(string), row[1].(string), row[2].(string) })
	pages := []string{
		"/", "/found", "/found?as=map&ratio=2", "/runs", "/runs/" + run, "/videos/" + video, "/channels/" + channel, "/ask",
	}
	var reading sync.WaitGroup
	reading.Go(func() {
		for i := range 2 {
			w.mustRun("run", fmt.Sprintf("search-%d", i+1))
		}
	})
	reads := 40
	if *long {
		reads = 200
	}
	for i := range reads {
		reading.Go(func() {
			path := pages[i%len(pages)]
			for t.Context().Err() == nil {
				status, body, err := get(address + path)
				if status == http.StatusServiceUnavailable && strings.Contains(body, "reload the page") {
					time.Sleep(50 * time.Millisecond) // the machine is too slow for so many requests at a time
					continue
				}
				if err != nil || status != http.StatusOK || !strings.HasSuffix(strings.TrimSpace(body), "</html>") {
					t.Errorf("%s: HTTP %d %s %v, want a complete page", path, status, body, err)
				}
				return
			}
		})
	}
	reading.Wait()
	stop()
	if got, want := rowsAndCosts(w), rowsAndCosts(calm); got != want {
		t.Errorf("rows and costs of the runs during the reads are\n%s\nwant\n%s", got, want)
	}
}
