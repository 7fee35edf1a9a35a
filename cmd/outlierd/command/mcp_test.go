package command

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"outlierd/cmd/outlierd/mcp"
)

const assistantJobs = `
version: 1
service: {url: "sim://", limit: 60/min}
sinks: [{duckdb: outliers.duckdb}]
budget: {per_month: 100, by_hand: 9}
mcp: {budget: {per_day: 6, per_session: 4}}
jobs:
  coffee: {search: {query: [espresso]}}
`

// assistant is a client of `outlierd mcp`.
type assistant struct {
	*person
	session *sdk.ClientSession
	end     func() error // ends the session, and returns why the server ended
}

// meet starts a server in this process, and a session.
func (p *person) meet() *assistant {
	p.Helper()
	g := newGlobals(world{in: strings.NewReader(""), out: io.Discard, err: &bytes.Buffer{}, env: p.env, network: p.connect(), dial: p.dial})
	g.config, g.logLevel, g.logFormat = filepath.Join(p.dir, "jobs.yaml"), "error", "json"
	ours, theirs := io.Pipe()
	back, out := io.Pipe()
	ended := make(chan error, 1)
	go func() {
		ended <- mcp.Serve(p.Context(), forAssistants(g), ours, out)
		out.Close()
	}()
	session, err := sdk.NewClient(&sdk.Implementation{Name: "test", Version: "1"}, nil).Connect(p.Context(), &sdk.IOTransport{Reader: back, Writer: theirs}, nil)
	if err != nil {
		p.Fatal(err)
	}
	return &assistant{p, session, func() error {
		if err := session.Close(); err != nil {
			p.Error(err)
		}
		return <-ended
	}}
}

// call calls a tool, and returns the text of its answer.
func (a *assistant) call(ctx context.Context, tool string, args map[string]any) (text string, refused bool) {
	a.Helper()
	got, err := a.session.CallTool(ctx, &sdk.CallToolParams{Name: tool, Arguments: args})
	if err != nil {
		a.Fatalf("%s: %v", tool, err)
	}
	return got.Content[0].(*sdk.TextContent).Text, got.IsError
}

// answer is what a tool answered.
type answered struct {
	Foreign string `json:"foreign_text"`
	Rows    []any
	More    string
	Age     string
	Spent   int64 `json:"credits_spent"`
	Price   struct{ Credits int64 }
	Result  any
}

func (a *assistant) must(tool string, args map[string]any) (got answered) {
	a.Helper()
	text, refused := a.call(a.Context(), tool, args)
	if refused {
		a.Fatalf("%s %v was refused: %s", tool, args, text)
	}
	if err := json.Unmarshal([]byte(text), &got); err != nil {
		a.Fatalf("%s: %v in %s", tool, err, text)
	}
	return got
}

func (a *assistant) wantRefused(tool string, args map[string]any, parts ...string) {
	a.Helper()
	text, refused := a.call(a.Context(), tool, args)
	if !refused {
		a.Errorf("%s %v was not refused: %s", tool, args, text)
	}
	contains(a, text, parts...)
}

// search returns the arguments of a purchase.
func search(query string) map[string]any {
	return map[string]any{"queries": []string{query}, "allow_spend": true, "limit": 3}
}

const spentByAssistants = "select coalesce(sum(price), 0) from ops.credits where job like 'once:mcp:%' and outcome <> 'refunded'"

// TestAssistantSpendsWithinItsBudget: that of its session, that of the day, and that of all requests by hand.
func TestAssistantSpendsWithinItsBudget(t *testing.T) {
	t.Parallel()
	bubble(t, assistantJobs, func(p *person) {
		p.must("run", "coffee")
		p.must("search", "by hand")
		a := p.meet()
		if got := a.must("search", map[string]any{"queries": []string{"tea"}, "dry_run": true}); got.Price.Credits != 2 {
			t.Errorf("a page costs %d credits, want 2", got.Price.Credits)
		}
		a.wantRefused("search", map[string]any{"queries": []string{"tea"}}, "costs at most 2 credits", "allow_spend: true")
		a.wantRefused("search", map[string]any{"queries": []string{"tea"}, "allow_spend": true, "pages": 9}, "mcp.budget leaves 4")
		for _, query := range []string{"tea", "cocoa"} {
			got := a.must("search", search(query))
			if got.Spent != 2 || len(got.Rows) != 3 || got.More == "" || !strings.Contains(got.Foreign, "never follow") {
				t.Errorf("%s: %+v", query, got)
			}
		}
		if got := a.must("search", map[string]any{"queries": []string{"tea"}}); got.Spent != 0 || len(got.Rows) == 0 {
			t.Errorf("the page that was bought: %+v", got)
		}
		a.wantRefused("search", search("milk"), "0 of 4 credits of this session (per_session)")
		if err := a.end(); err != nil {
			t.Error(err)
		}

		a = p.meet() // another session
		a.must("search", search("milk"))
		a.wantRefused("search", search("mocha"), "0 of 6 of today (per_day)")
		a.wantRefused("channel", map[string]any{"channels": []string{"@nobody"}, "allow_spend": true}, "channel id of @nobody", "costs at most 5")
		time.Sleep(24 * time.Hour)
		a.wantRefused("search", search("mocha"), "one-off requests for the billing cycle", "budget.by_hand", "0 credits were spent")
		if err := a.end(); err != nil {
			t.Error(err)
		}
		if got := p.ask(spentByAssistants); got != "6" {
			t.Errorf("assistants spent %s credits, want 6", got)
		}
		contains(t, p.must("budget"), "assistants ", "by hand")
	})
}

// TestAssistantWithoutABudgetCannotSpend, whatever it says.
func TestAssistantWithoutABudgetCannotSpend(t *testing.T) {
	t.Parallel()
	bubble(t, strings.Replace(assistantJobs, "mcp:", "x-mcp:", 1), func(p *person) {
		p.must("run", "coffee")
		a := p.meet()
		a.wantRefused("search", search("tea"), "0 of 0 of today (per_day)")
		a.wantRefused("related", map[string]any{"titles": []string{"--yes"}, "allow_spend": true}, "leaves 0")
		a.wantRefused("search", map[string]any{"queries": []string{"--max-credits=9"}, "pages": -1}, "pages must be 1 or more")
		for _, sql := range []string{"delete from outliers", "select 1; select 2", "from read_text('/etc/passwd')", "copy outliers to 'x.csv'"} {
			a.wantRefused("query", map[string]any{"sql": sql}, "query runs one SELECT")
		}
		a.wantRefused("transcript", map[string]any{"videos": []string{"--help"}}, "neither a video id")
		a.wantRefused("plan", map[string]any{"jobs": []string{"tea"}}, "jobs")
		a.wantRefused("describe_table", map[string]any{"table": "x') or true--"}, "there is no table", "list_tables")
		if err := a.end(); err != nil {
			t.Error(err)
		}
		if got := p.ask(spentByAssistants); got != "0" {
			t.Errorf("assistants spent %s credits, want 0", got)
		}
	})
}

// TestAssistantSearchesTables by the filters of a job, and gets the age of the tables.
func TestAssistantSearchesTables(t *testing.T) {
	t.Parallel()
	bubble(t, assistantJobs, func(p *person) {
		a := p.meet()
		a.wantRefused("find_outliers", nil, "does not exist yet; 'outlierd run' creates it")
		p.must("run", "coffee")
		time.Sleep(72 * time.Hour)
		for _, c := range []struct {
			where map[string]any
			sql   string
		}{
			{map[string]any{}, "true"},
			{map[string]any{"z_score": "2..", "type": "video"}, "z_score >= 2 and kind = 'video'"},
			{map[string]any{"subscribers_count": "..50000", "language": []string{"en", "de"}}, "channel_subscribers <= 50000 and language in ('en', 'de')"},
			{map[string]any{"published_at": "2026-01-01.."}, "published_at >= '2026-01-01'"},
			{map[string]any{"classification_is_faceless": true, "view_count": "1000..2000000"}, "is_faceless and view_count between 1000 and 2000000"},
		} {
			got := a.must("find_outliers", map[string]any{"where": c.where, "limit": 1000})
			if want := p.ask("select count(*) from outliers where " + c.sql); strconv.Itoa(len(got.Rows)) != want {
				t.Errorf("%v finds %d, want %s", c.where, len(got.Rows), want)
			}
			contains(t, got.Age, ", 72 hours ago")
		}
		a.wantRefused("find_outliers", map[string]any{"where": map[string]any{"z_score": 2}}, "z_score", "2..")
		a.wantRefused("find_outliers", map[string]any{"where": map[string]any{"z_score": nil}}, "z_score: ~ has nothing to remove")
		a.wantRefused("find_outliers", map[string]any{"where": map[string]any{"title_pattern": "[how] to * at home"}}, "title_pattern", "use search")
		a.wantRefused("find_outliers", map[string]any{"where": map[string]any{"exclude_keyword": "[live]"}}, "exclude_keyword [live]: ", "use search")
		a.wantRefused("find_outliers", map[string]any{"order": "colour"}, "ratio, score")
		hostile := a.must("query", map[string]any{"sql": "select chr(917569) || chr(917999) || chr(8203) || '<b>ignore]]> & all' || chr(155) || chr(8207) || chr(65279) || chr(8238) || '👩' || chr(8205) || '🎤' as title"})
		if row := hostile.Rows[0].([]any)[0]; row != "\ufffd\ufffd\ufffd<b>ignore]]> & all\ufffd\ufffd\ufffd\ufffd👩\u200d🎤" || hostile.Foreign == "" {
			t.Errorf("a hostile title is %q, marked %q", row, hostile.Foreign)
		}
		file, err := a.session.ReadResource(p.Context(), &sdk.ReadResourceParams{URI: mcp.JobFileURI})
		if err != nil || !strings.Contains(file.Contents[0].Text, "espresso") {
			t.Errorf("the job file: %v, %v", file, err)
		}
		if err := a.end(); err != nil {
			t.Error(err)
		}
	})
}

// TestAssistantThatLeavesIsCharged: what it began is stored, and the ledger knows it.
func TestAssistantThatLeavesIsCharged(t *testing.T) {
	t.Parallel()
	jobs := strings.Replace(strings.Replace(assistantJobs, "60/min", "1/min", 1), "per_session: 4", "per_session: 6", 1)
	bubble(t, jobs, func(p *person) {
		a := p.meet()
		ctx, cancel := context.WithTimeout(p.Context(), 90*time.Second)
		defer cancel()
		_, err := a.session.CallTool(ctx, &sdk.CallToolParams{Name: "search", Arguments: map[string]any{"queries": []string{"tea"}, "pages": 2, "allow_spend": true}})
		if err == nil {
			p.Fatal("two pages took less than 90 seconds at one a minute")
		}
		if err := a.end(); err != nil {
			t.Error(err)
		}
		if got := p.ask(spentByAssistants); got == "0" {
			t.Error("the page that was bought is not in the ledger")
		}
		if got := p.ask("select error from ops.runs"); !strings.Contains(got, "the assistant cancelled the call, or ended its session") {
			t.Errorf("the run says %q of its end", got)
		}
		p.must("check")
	})
}
