package command

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/url"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/getkin/kin-openapi/openapi3"
	"github.com/getkin/kin-openapi/openapi3filter"
	"github.com/getkin/kin-openapi/routers"
	"github.com/getkin/kin-openapi/routers/legacy"
	"github.com/google/go-cmp/cmp"

	"outlierd/cmd/outlierd/daemon"
	"outlierd/cmd/outlierd/page"
	"outlierd/internal/testenv"
	"outlierd/outlier/simulator"
	"outlierd/sync/runs"
	"outlierd/sync/serve"
)

const runToken, readToken = "CANARY-4711-RUNS", "CANARY-4711-READS"

const apiJobs = `
version: 1
service: {url: "sim://", limit: 10/min}
budget: {per_month: 100, confirm_over: 20}
sinks: [{duckdb: outliers.duckdb}]
daemon: {listen: "127.0.0.1:7411", token: "${TOKEN}", read_token: "${READ_TOKEN}"}
jobs:
  coffee: {search: {query: moka pot, pages: 2}, enrich: {details: {top: 15}}}
  tea: {schedule: "0 0 1 7 *", search: {query: tea}}
  dear: {search: {query: chess, pages: 9}}
  lost: {channels: {id: {sql: select nosuch}}}
`

// memoryNetwork is a network with one listener, for virtual time.
type memoryNetwork struct {
	conns  chan net.Conn
	closed chan struct{}
	close  sync.Once
}

func newMemoryNetwork() *memoryNetwork {
	return &memoryNetwork{conns: make(chan net.Conn), closed: make(chan struct{})}
}

func (n *memoryNetwork) Accept() (net.Conn, error) {
	select {
	case c := <-n.conns:
		return c, nil
	case <-n.closed:
		return nil, net.ErrClosed
	}
}

func (n *memoryNetwork) Close() error {
	n.close.Do(func() { close(n.closed) })
	return nil
}

func (n *memoryNetwork) Addr() net.Addr { return &net.TCPAddr{} }

func (n *memoryNetwork) dial(ctx context.Context, _, _ string) (net.Conn, error) {
	ours, theirs := net.Pipe()
	select {
	case n.conns <- theirs:
		return ours, nil
	case <-n.closed:
		return nil, net.ErrClosed
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// apiClient is a client of a daemon's interface, which holds each exchange against its description.
type apiClient struct {
	*person
	network *memoryNetwork
	router  routers.Router

	kinds map[int][]string // of errors, by status, as docs/api.md has them

	mu  sync.Mutex
	met map[string]bool // operations with the status of the answer
}

// serveAPI runs work with a client of the daemon, until work calls stop or returns.
func (p *person) serveAPI(work func(c *apiClient, a *program, stop func())) {
	p.Helper()
	p.env = func(name string) (string, bool) {
		token, is := map[string]string{"TOKEN": runToken, "READ_TOKEN": readToken, "KEY": "any"}[name]
		return token, is
	}
	doc, err := openapi3.NewLoader().LoadFromData(serve.Description)
	if err != nil {
		p.Fatal(err)
	}
	doc.Servers = nil // requests are told apart by their paths alone
	router, err := legacy.NewRouter(doc)
	if err != nil {
		p.Fatal(err)
	}
	c := &apiClient{person: p, router: router, kinds: map[int][]string{}, met: map[string]bool{}}
	docs, err := os.ReadFile("../../../docs/api.md")
	if err != nil {
		p.Fatal(err)
	}
	for _, row := range regexp.MustCompile("(?m)^\\| (\\d{3}) \\| `(\\w+)` \\|").FindAllStringSubmatch(string(docs), -1) {
		status, _ := strconv.Atoi(row[1])
		c.kinds[status] = append(c.kinds[status], row[2])
		if !strings.Contains(string(serve.Description), row[2]) {
			p.Errorf("openapi.yaml does not have the kind %s", row[2])
		}
	}
	p.opened(func(prog *program) error {
		if _, err := prog.Engine.Agenda(time.Now()); err != nil {
			return err
		}
		ctx, cancel := context.WithCancel(p.Context())
		commands := newMemoryNetwork()
		prog.serveCommands(ctx, func(string) (net.Listener, error) { return commands, nil })
		p.dial = func(ctx context.Context, dir string) (*serve.Client, error) {
			return serve.Connect(ctx, dir, time.Minute, commands.dial)
		}
		prog.server.Provide(prog.documents(newTables(ctx, prog, time.UTC), nil))
		web := &daemon.Web{Daemon: prog.Engine.Config.Daemon, API: prog.server.API(), Metrics: http.NotFoundHandler()}
		c.network = newMemoryNetwork()
		web.Serve(c.network, slog.New(slog.DiscardHandler))
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			prog.Engine.Serve(ctx)
		}()
		<-prog.Engine.Keeping()
		stop := sync.OnceFunc(func() { cancel(); <-ended })
		defer func() {
			stop()
			if err := web.Close(); err != nil {
				p.Error(err)
			}
		}()
		work(c, prog, stop)
		return nil
	})
}

// send sends a request, and returns the status and the document of its answer.
func (c *apiClient) send(token, method, path, key, body string) (status int, document map[string]any) {
	c.Helper()
	r, err := http.NewRequestWithContext(c.Context(), method, "http://127.0.0.1:7411"+path, strings.NewReader(body))
	if err != nil {
		c.Fatal(err)
	}
	for name, value := range map[string]string{"Authorization": token, "Idempotency-Key": key} {
		if value != "" {
			r.Header.Set(name, value)
		}
	}
	answer, err := (&http.Transport{DialContext: c.network.dial, DisableKeepAlives: true}).RoundTrip(r)
	if err != nil {
		c.Fatalf("%s %s: %v", method, path, err)
	}
	text, err := io.ReadAll(answer.Body)
	if err == nil {
		err = answer.Body.Close()
	}
	if err == nil {
		err = c.check(r, body, answer, text)
	}
	if err == nil && path != "/api/v1/openapi.yaml" {
		err = json.Unmarshal(text, &document)
	}
	if err == nil && answer.StatusCode >= 300 {
		err = c.checkKinds(answer.StatusCode, document)
	}
	if err != nil || strings.Contains(string(text), "CANARY") {
		c.Errorf("%s %s: %s %.500s\n%v", method, path, answer.Status, text, err)
	}
	return answer.StatusCode, document
}

// checkKinds returns how the kinds of an error differ from those of docs/api.md.
func (c *apiClient) checkKinds(status int, document map[string]any) error {
	failure, _ := document["error"].(map[string]any)
	kinds, _ := failure["kinds"].([]any)
	for _, kind := range kinds {
		if !slices.Contains(c.kinds[status], kind.(string)) {
			return fmt.Errorf("HTTP %d has the kind %s, want one of %v", status, kind, c.kinds[status])
		}
	}
	if len(kinds) == 0 && len(c.kinds[status]) > 0 {
		return fmt.Errorf("HTTP %d has no kind, want one of %v", status, c.kinds[status])
	}
	return nil
}

// check returns what the description does not allow.
func (c *apiClient) check(sent *http.Request, body string, answer *http.Response, text []byte) error {
	r := sent.Clone(sent.Context()) // after an early answer, the transport may still be reading the request that was sent
	route, path, err := c.router.FindRoute(r)
	if err != nil {
		return err
	}
	c.mu.Lock()
	c.met[fmt.Sprint(route.Method, " ", route.Path, " ", answer.StatusCode)] = true
	c.mu.Unlock()
	isTooLarge := answer.StatusCode == http.StatusRequestEntityTooLarge
	if r.Body = io.NopCloser(strings.NewReader(body)); body != "" {
		r.Header.Set("Content-Type", "application/json")
	}
	in := &openapi3filter.RequestValidationInput{Request: r, PathParams: path, Route: route, Options: &openapi3filter.Options{
		AuthenticationFunc: openapi3filter.NoopAuthenticationFunc, ExcludeRequestBody: body == "" || isTooLarge,
	}}
	wrong := openapi3filter.ValidateRequest(r.Context(), in)
	for name := range r.URL.Query() {
		if route.Operation.Parameters.GetByInAndName(openapi3.ParameterInQuery, name) == nil { // which OpenAPI cannot express
			wrong = fmt.Errorf("%s is not a parameter", name)
		}
	}
	if isRefused := answer.StatusCode == http.StatusBadRequest; (wrong != nil) != isRefused {
		return fmt.Errorf("HTTP %d, and the description says of the request: %v", answer.StatusCode, wrong)
	}
	out := &openapi3filter.ResponseValidationInput{RequestValidationInput: in, Status: answer.StatusCode, Header: answer.Header}
	return openapi3filter.ValidateResponse(r.Context(), out.SetBodyBytes(text))
}

// start orders a run with daemon.token, and returns its id.
func (c *apiClient) start(job, key, body string) (status int, run string) {
	c.Helper()
	status, doc := c.send("Bearer "+runToken, "POST", "/api/v1/jobs/"+job+"/runs", key, body)
	run, _ = doc["run_id"].(string)
	return status, run
}

// head is what a request with daemon.token begins with, after its path.
const head = " HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer " + runToken + "\r\n"

// begin sends the text of a request, and reads nothing.
func (c *apiClient) begin(text string) net.Conn {
	c.Helper()
	conn, err := c.network.dial(c.Context(), "", "")
	if err == nil {
		_, err = io.WriteString(conn, text)
	}
	if err != nil {
		c.Fatal(err)
	}
	return conn
}

// read gets a document with daemon.read_token.
func (c *apiClient) read(path string) (status int, document map[string]any) {
	c.Helper()
	return c.send("Bearer "+readToken, "GET", "/api/v1/"+path, "", "")
}

// awaitRun polls until a run has ended.
func (c *apiClient) awaitRun(run string) map[string]any {
	c.Helper()
	for {
		if _, doc := c.read("runs/" + run + "?wait=60s"); doc["status"] != "running" {
			return doc
		}
	}
}

// TestInterfaceIsAsDescribed: every answer, to good and bad requests, is as openapi.yaml says, and only good requests
// spend.
func TestInterfaceIsAsDescribed(t *testing.T) {
	t.Parallel()
	bubble(t, apiJobs, func(p *person) {
		var coffee, recorded map[string]any
		p.serveAPI(func(c *apiClient, a *program, stop func()) {
			refused := func(want int, says, token, method, path, key, body string) {
				t.Helper()
				status, doc := c.send(token, method, "/api/v1/"+path, key, body)
				failure, _ := doc["error"].(map[string]any)
				if message, _ := failure["message"].(string); status != want || !strings.Contains(message, says) {
					t.Errorf("%s %s: HTTP %d %v, want %d with %q", method, path, status, doc, want, says)
				}
			}
			runs := "Bearer " + runToken
			if status, _ := c.read("outliers"); status != http.StatusServiceUnavailable {
				t.Errorf("outliers before the first run: HTTP %d", status)
			}
			refused(401, "daemon.token or daemon.read_token is needed", "", "POST", "jobs/coffee/runs", "a", "")
			refused(401, "is needed", "Bearer wrong", "GET", "status", "", "")
			refused(403, "may only read", "Bearer "+readToken, "POST", "jobs/coffee/runs", "a", "")
			refused(400, "the header Idempotency-Key", runs, "POST", "jobs/coffee/runs", "", "")
			refused(400, "1 to 200 characters", runs, "POST", "jobs/coffee/runs", strings.Repeat("x", 201), "")
			refused(400, "unknown field", runs, "POST", "jobs/coffee/runs", "a", `{"max_credit": 4}`)
			refused(400, "max_credits must be from 1", runs, "POST", "jobs/coffee/runs", "a", `{"max_credits": 0}`)
			refused(413, "too large", runs, "POST", "jobs/coffee/runs", "a", `{"max_credits": `+strings.Repeat(" ", 10_000_000)+"1}")
			refused(404, `has no job "cofee"; did you mean coffee?`, runs, "POST", "jobs/cofee/runs", "a", "")
			refused(409, "may cost more than 20 credits (budget.confirm_over): dear up to 60; nothing was started", runs, "POST", "jobs/dear/runs", "a", "")
			refused(500, "nosuch", runs, "POST", "jobs/lost/runs", "a", "")
			refused(404, "there is no run 01a2", runs, "GET", "runs/01a2", "", "")
			refused(400, "wait must be", runs, "GET", "runs/01a2?wait=soon", "", "")
			p.act(a, page.Action{Verb: page.PauseJob, Job: "tea", Why: "holidays"})
			refused(409, "job tea is paused until resumed (holidays); nothing was started", runs, "POST", "jobs/tea/runs", "a", "")

			status, run := c.start("coffee", "a", `{"max_credits": 4}`)
			if status != http.StatusCreated {
				t.Fatalf("the first request: HTTP %d", status)
			}
			for range 3 { // while the run is in progress, and when it has ended
				status, again := c.start("coffee", "a", `{"max_credits": 4}`)
				other, joined := c.start("coffee", "b", "")
				if status != http.StatusOK || again != run || other != http.StatusOK || joined != run {
					t.Errorf("the same key: HTTP %d, run %s; another one: HTTP %d, run %s; want run %s", status, again, other, joined, run)
				}
				began := time.Now()
				_, coffee = c.read("runs/" + run + "?wait=40s")
				if took := time.Since(began); coffee["status"] == "running" && took != 40*time.Second || took > 40*time.Second {
					t.Errorf("an answer after %s: %v", took, coffee)
				}
			}
			if coffee = c.awaitRun(run); coffee["status"] != "ok" || coffee["credits"] != 4.0 {
				t.Errorf("the run ended as %v", coffee)
			}
			refused(422, "use a new key", runs, "POST", "jobs/coffee/runs", "a", "")
			refused(422, "use a new key", runs, "POST", "jobs/dear/runs", "a", `{"max_credits": 4}`)
			if status, dear := c.start("dear", "c", `{"max_credits": 2}`); status != http.StatusCreated || c.awaitRun(dear)["credits"] != 2.0 {
				t.Errorf("a run with a price that was confirmed: HTTP %d %v", status, c.awaitRun(dear))
			}

			for _, path := range []string{"status", "budget", "openapi.yaml"} {
				if status, doc := c.send("Basic "+base64.StdEncoding.EncodeToString([]byte("n8n:"+readToken)), "GET", "/api/v1/"+path, "", ""); status != http.StatusOK {
					t.Errorf("%s: HTTP %d %v", path, status, doc)
				}
			}
			var titles []string
			next := "outliers?order=views"
			for next != "" {
				_, list := c.read(strings.TrimPrefix(next, "/api/v1/"))
				rows, is := list["rows"].([]any)
				if !is {
					t.Fatalf("%s: %v", next, list)
				}
				for _, row := range rows {
					titles = append(titles, row.(map[string]any)["video_id"].(string))
				}
				next, _ = list["next"].(string)
			}
			if want := strings.Fields(p.ask("select video_id from outliers order by view_count desc nulls last, video_id")); !slices.Equal(titles, want) || len(want) <= page.PerPage {
				t.Errorf("outliers %v, want %v", titles, want)
			}
			refused(400, `"ordr": unknown parameter`, runs, "GET", "outliers?ordr=views", "", "")
			_, recorded = c.read("runs/" + run)
			c.describes()
			for met := 0; met != http.StatusTooManyRequests; {
				met, _ = c.read("runs/01a2")
			}
			stop()
		})
		var printed map[string]any
		if err := json.Unmarshal([]byte(p.must("runs", coffee["run_id"].(string), "-o", "json")), &printed); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(printed, recorded); diff != "" {
			t.Errorf("a run as the command prints it, and as the interface does (-want +got):\n%s", diff)
		}
		if spent := p.ask("select sum(price)::bigint from ops.credits"); spent != "6" {
			t.Errorf("%s credits were spent, want 6", spent)
		}
	})
}

// describes checks that every operation and each of its statuses has been met.
func (c *apiClient) describes() {
	c.Helper()
	doc, err := openapi3.NewLoader().LoadFromData(serve.Description)
	if err != nil {
		c.Fatal(err)
	}
	for path, item := range doc.Paths.Map() {
		for method, operation := range item.Operations() {
			for status := range operation.Responses.Map() {
				if status != "default" && !c.met[method+" "+path+" "+status] {
					c.Errorf("%s %s was never answered with %s", method, path, status)
				}
			}
		}
	}
	var names []string
	for _, parameter := range doc.Paths.Find("/api/v1/outliers").Get.Parameters {
		names = append(names, parameter.Value.Name)
	}
	err = page.CheckNames(url.Values{"nosuch": nil})
	if !strings.HasSuffix(err.Error(), strings.Join(names, ", ")) {
		c.Errorf("the parameters of outliers are %v, and those of the page: %v", names, err)
	}
}

// act does what a person does on the page.
func (p *person) act(prog *program, asked page.Action) {
	p.Helper()
	offer, err := prog.offerAction(p.Context(), asked)
	if err == nil {
		_, err = offer.Do(p.Context())
	}
	if err != nil {
		p.Errorf("%s %s: %v", asked.Verb, asked.Job, err)
	}
}

// TestHangingClientsStartNothing, and hold nothing up: one that sends half a request, one that stops waiting, and one
// that still waits when the daemon stops.
func TestHangingClientsStartNothing(t *testing.T) {
	t.Parallel()
	bubble(t, apiJobs, func(p *person) {
		p.serveAPI(func(c *apiClient, a *program, stop func()) {
			began := time.Now()
			for _, half := range []string{"POST /api/v1/jobs/tea/runs HTTP/1.1\r\nHost: ",
				"POST /api/v1/jobs/tea/runs" + head + "Idempotency-Key: a\r\nContent-Length: 100\r\n\r\n{\"max_"} {
				conn := c.begin(half)
				answer, _ := io.ReadAll(conn) // until the daemon closes the connection
				if took := time.Since(began); took > 30*time.Second || strings.HasPrefix(string(answer), "HTTP/1.1 2") ||
					strings.HasSuffix(half, "max_") && !strings.Contains(string(answer), "it did not arrive within 10s") {
					t.Errorf("after %s the answer to %q is %s", took, half, answer)
				}
			}
			if rows, err := a.Engine.Store.Runs.List(runs.Filter{Job: "tea"}, 1); err != nil || len(rows) > 0 {
				t.Errorf("half a request started %v, %v", rows, err)
			}
			_, run := c.start("coffee", "a", `{"max_credits": 4}`)
			if err := c.begin("GET /api/v1/runs/" + run + "?wait=60s" + head + "\r\n").Close(); err != nil {
				t.Fatal(err)
			}
			waited := make(chan time.Duration)
			go func() {
				began := time.Now()
				if status, doc := c.read("runs/" + run + "?wait=60s"); status != http.StatusOK || doc["run_id"] != run {
					t.Errorf("HTTP %d %v, want run %s", status, doc, run)
				}
				waited <- time.Since(began)
			}()
			time.Sleep(5 * time.Second)
			go stop()
			if took := <-waited; took > 10*time.Second {
				t.Errorf("a client waited %s although the daemon stops", took)
			}
			stop()
			if status, _ := c.start("coffee", "b", `{"max_credits": 4}`); status != http.StatusServiceUnavailable {
				t.Errorf("a request while the daemon stops: HTTP %d", status)
			}
		})
	})
}

// TestDaysOfClients: a program that loses answers and repeats its requests, assistants that buy what they can, a person
// and the schedule share a daemon that is restarted now and then. Each key has one run, all caps hold, and the ledger
// and the service agree.
func TestDaysOfClients(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("plays days")
	}
	days, month, flow := 3, 20, 8
	if *long {
		days, month, flow = 10, 50, 14
	}
	file := fmt.Sprintf(`
version: 1
service: {url: "https://service.example", key: "${KEY}", limit: 60/min}
budget: {per_month: %d, per_day: 10}
mcp: {budget: {per_day: 4, per_session: 6}}
sinks: [{duckdb: outliers.duckdb}]
daemon: {listen: "127.0.0.1:7411", token: "${TOKEN}", read_token: "${READ_TOKEN}"}
jobs:
  daily: {schedule: "30 6 * * *", search: {query: moka pot, pages: 2}}
  flow: {search: {query: tea, pages: 3}, budget: {per_month: %d}}
`, month, flow)
	dice := testenv.Random(t)
	bubble(t, file, func(p *person) {
		service := simulator.New(simulator.Options{Seed: 1, Key: "any"})
		p.network = func(string) (http.RoundTripper, error) { return service.Transport(), nil }
		runsOf, paused, byAssistants := map[string]string{}, 0, int64(0) // the runs by key
		refusals := map[string]int{}                                     // of assistants, by the cap that they name
		buy := func(a *assistant, query string, pages int) (spent int64) {
			text, isRefused := a.call(p.Context(), "search", map[string]any{"queries": []string{query}, "pages": pages, "allow_spend": true})
			left := regexp.MustCompile(`leaves \d+: (\d+) of 6 credits of this session.* and (\d+) of 4 of today`).FindStringSubmatch(text)
			switch {
			case isRefused && left != nil && left[1] < left[2]:
				refusals["per_session"]++
			case isRefused && left != nil:
				refusals["mcp.per_day"]++
			case isRefused && strings.Contains(text, "(budget.per_day)"):
				refusals["per_day"]++
			case isRefused && strings.Contains(text, "(budget.per_month"):
				refusals["per_month"]++
			case isRefused:
				t.Errorf("search %s was refused: %s", query, text)
			}
			var got answered
			if err := json.Unmarshal([]byte(text), &got); err != nil && !isRefused {
				t.Error(err)
			}
			return got.Spent
		}
		order := func(c *apiClient, job, key, body string) {
			if dice.IntN(3) == 0 { // the answer is lost
				if err := c.begin(fmt.Sprintf("POST /api/v1/jobs/%s/runs%sIdempotency-Key: %s\r\nContent-Length: %d\r\n\r\n%s",
					job, head, key, len(body), body)).Close(); err != nil {
					t.Error(err)
				}
			}
			var both sync.WaitGroup
			var status [2]int
			var run [2]string
			for i := range 2 {
				both.Go(func() { status[i], run[i] = c.start(job, key, body) })
			}
			both.Wait()
			if runsOf[key] == "" {
				runsOf[key] = run[0]
			}
			if max(status[0], status[1]) >= 300 || runsOf[key] != run[0] || run[0] != run[1] {
				t.Errorf("%s with key %s: HTTP %d, run %s; want %s", job, key, status, run, runsOf[key])
			}
		}
		for day := 1; day <= days; {
			p.serveAPI(func(c *apiClient, a *program, stop func()) {
				session, bought := p.meet(), int64(0)
				for left := 1 + dice.IntN(6); left > 0 && day <= days; left, day = left-1, day+1 {
					order(c, "flow", fmt.Sprint("flow-", day), `{"max_credits": 6}`)
					time.Sleep(time.Duration(dice.IntN(12)) * time.Hour)
					for n := range 3 {
						bought += buy(session, fmt.Sprint("query ", day, n), 1+dice.IntN(2))
					}
					order(c, "flow", fmt.Sprint("flow-", 1+dice.IntN(day)), `{"max_credits": 6}`) // perhaps a run of an earlier day
					time.Sleep(time.Duration(dice.IntN(60)) * time.Second)
					if dice.IntN(2) == 0 {
						p.act(a, page.Action{Verb: page.RunJob, Job: "flow"})
					}
					if ended := c.awaitRun(runsOf[fmt.Sprint("flow-", day)]); ended["status"] == "paused_budget" {
						paused++
					}
					time.Sleep(time.Until(time.Date(2000, 1, day+1, 0, 0, 0, 0, time.UTC).Add(time.Duration(dice.IntN(30)) * time.Second)))
				}
				if bought > 6 {
					t.Errorf("a session of an assistant spent %d credits, want at most 6", bought)
				}
				if err := session.end(); err != nil {
					t.Error(err)
				}
				byAssistants += bought
			})
		}
		t.Logf("assistants spent %d credits, and met caps: %v", byAssistants, refusals)
		if paused == 0 || len(runsOf) != days || refusals["per_session"]+refusals["mcp.per_day"] == 0 {
			t.Errorf("%d keys, %d runs met a cap, and assistants %v; want %d keys, and some", len(runsOf), paused, refusals, days)
		}
		if booked := p.ask(spentByAssistants); booked != fmt.Sprint(byAssistants) {
			t.Errorf("the ledger has %s credits of assistants, their answers said %d", booked, byAssistants)
		}
		for query, most := range map[string]int{
			"select max(n) from (select sum(price) n from ops.credits where outcome <> 'refunded' group by reserved_at::date)":                           10,
			"select sum(price) from ops.credits where outcome <> 'refunded'":                                                                             month,
			"select sum(price) from ops.credits where outcome <> 'refunded' and job = 'flow'":                                                            flow,
			"select max(n) from (select sum(price) n from ops.credits where outcome <> 'refunded' and job like 'once:mcp:%' group by reserved_at::date)": 4,
		} {
			if n, err := strconv.ParseFloat(p.ask(query), 64); err != nil || n == 0 || n > float64(most) {
				t.Errorf("%s: %v, %v; want at most %d", query, n, err, most)
			}
		}
		if booked, charged := p.ask("select sum(price)::bigint from ops.credits where outcome <> 'refunded'"), service.Books().Total.Spent(); booked != fmt.Sprint(charged) {
			t.Errorf("the ledger has %s credits, the service charged %d", booked, charged)
		}
	})
}
