package metrics

import (
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus/testutil/promlint"
	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"

	"outlierd/outlier"
	"outlierd/outlier/pace"
	"outlierd/schema"
	"outlierd/sync/job"
	"outlierd/sync/journal"
	"outlierd/sync/ledger"
	"outlierd/sync/load"
	"outlierd/sync/queue"
	"outlierd/sync/runs"
	"outlierd/sync/state"
	"outlierd/sync/state/statetest"
	"outlierd/sync/store"
)

// measured is a job file's metrics over an empty state.
type measured struct {
	testing.TB
	*Metrics
	config  *job.Config
	store   *state.Store
	handler http.Handler
}

const file = `
version: 1
service: {url: "sim://"}
budget: {per_month: 400, per_day: 40}
daemon: {listen: "127.0.0.1:7411"}
backup: {to: /mnt/backup/outlierd}
jobs:
  ideas: {every: 1h, search: {query: chess}}
  by-hand: {search: {query: tea}}
  next: {after: ideas, search: {query: go}}
  late: {every: 1h, jitter: 50m, search: {query: xiangqi}}
  once: {search: {query: shogi}}
  other: {search: {query: checkers}}
`

func measure(t testing.TB) *measured {
	t.Helper()
	return measureIn(t, filepath.Join(t.TempDir(), "state"))
}

// measureIn are the metrics over the state in a folder.
func measureIn(t testing.TB, folder string) *measured {
	t.Helper()
	config, err := job.Parse("/etc/outlierd/jobs.yaml", []byte(file), func(string) (string, bool) { return "", false })
	if err != nil {
		t.Fatal(err)
	}
	m := &measured{TB: t, config: config, store: statetest.Open(t, folder)}
	m.start()
	return m
}

// start counts anew, as a process that has just been started.
func (m *measured) start() {
	m.Helper()
	limiter, err := pace.Open(m.config.Service.Limit, pace.Options{Path: filepath.Join(m.TempDir(), "pace.json")})
	if err != nil {
		m.Fatal(err)
	}
	m.Metrics = New(m.config, "v1", "v1.5.5")
	m.handler = m.Handler(Sources{Store: m.store, Pace: limiter, Waited: waits, Beat: time.Now, Log: slog.New(slog.DiscardHandler)})
}

func waits() map[string]time.Duration {
	return map[string]time.Duration{"pace": 90 * time.Second, "limit": 1500 * time.Millisecond, "retry": 0}
}

// scrape is what a scrape is answered with.
func (m *measured) scrape() string {
	m.Helper()
	w := httptest.NewRecorder()
	m.handler.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/metrics", nil))
	if w.Code != http.StatusOK {
		m.Fatalf("HTTP %d: %s", w.Code, w.Body)
	}
	return w.Body.String()
}

// has reports the lines that a scrape lacks.
func (m *measured) has(lines ...string) {
	m.Helper()
	text := m.scrape()
	for _, line := range lines {
		if !strings.Contains("\n"+text, "\n"+line+"\n") {
			name, _, _ := strings.Cut(line, "{")
			m.Errorf("no %s, but\n%s", line, strings.Join(regexp.MustCompile(`(?m)^`+name+`.*$`).FindAllString(text, -1), "\n"))
		}
	}
}

// everything lets each metric have a value.
func (m *measured) everything() {
	m.Helper()
	m.buy("ideas", statetest.AnswerTo(statetest.SearchRequest("0"), `{}`), outlier.Charged)
	m.buy("ideas", statetest.ErrorTo(statetest.SearchRequest("1"), 429, outlier.Limited), outlier.Refunded)
	statetest.Enqueue(m, m.store, queue.Task{Job: "ideas", Run: "run-1", Op: outlier.OpDetails, Entity: "dQw4w9WgXcQ"})
	statetest.Update(m, m.store, func(tx *store.Tx) error {
		_, err := journal.NoteDrift(tx, []schema.Drift{{Op: outlier.OpSearch, Path: "x", Problem: "new", Count: 3, First: time.Now(), Last: time.Now()}}, 1)
		return err
	})
	statetest.BeginRun(m, m.store, "run-2")
	ended := runs.Run{ID: "run-2", Job: "ideas", Status: runs.OK, Started: time.Now().Add(-time.Minute), Ended: time.Now()}
	if err := errors.Join(m.store.Finish(ended), m.store.Sinks.SetPublished("duckdb", 1)); err != nil {
		m.Fatal(err)
	}
	m.RunEnded(ended, false)
	m.Observe(load.Step{Took: time.Second, Rows: map[string]int64{"outliers": 40}})
	m.Observe(load.Step{Sink: "duckdb", Took: time.Second})
}

func (m *measured) buy(name string, answer *outlier.Answer, o outlier.Outcome) {
	m.Helper()
	p := statetest.Capped(1000)
	p.Job = name
	statetest.Buy(m, m.store, p, answer, o)
}

func TestWhatIsServedPassesTheLinter(t *testing.T) {
	t.Parallel()
	m := measure(t)
	m.everything()
	problems, err := promlint.New(strings.NewReader(m.scrape())).Lint()
	if err != nil || len(problems) > 0 {
		t.Errorf("%v, error %v", problems, err)
	}
}

// families are the metrics of our own in a text.
func families(t *testing.T, text string) map[string]*dto.MetricFamily {
	t.Helper()
	parser := expfmt.NewTextParser(model.LegacyValidation)
	all, err := parser.TextToMetricFamilies(strings.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	for name := range all {
		if !strings.HasPrefix(name, "outlierd_") {
			delete(all, name)
		}
	}
	return all
}

// TestTheManualHasEveryMetric with its labels and its type, and no other.
func TestTheManualHasEveryMetric(t *testing.T) {
	t.Parallel()
	m := measure(t)
	m.everything()
	var served []string
	all := families(t, m.scrape())
	for name, family := range all {
		var labels []string
		for _, pair := range family.Metric[0].Label {
			labels = append(labels, "`"+pair.GetName()+"`")
		}
		served = append(served, fmt.Sprintf("`%s` | %s | %s", name, strings.ToLower(family.GetType().String()), strings.Join(labels, ", ")))
	}
	manual, err := os.ReadFile("../../docs/monitoring.md")
	if err != nil {
		t.Fatal(err)
	}
	var listed []string
	for _, row := range regexp.MustCompile("(?m)^\\| (`outlierd_[^|]* \\| [^|]* \\|[^|]*) \\|").FindAllStringSubmatch(string(manual), -1) {
		listed = append(listed, strings.TrimSpace(row[1]))
	}
	for i := range served {
		served[i] = strings.TrimSpace(served[i])
	}
	slices.Sort(served)
	slices.Sort(listed)
	if diff := cmp.Diff(served, listed); diff != "" {
		t.Errorf("docs/monitoring.md (-served +listed)\n%s", diff)
	}
	for _, name := range regexp.MustCompile(`outlierd_[a-z_]+(_total|_seconds|_credits|_bytes|_blocked|_up|_paused|_successful)\b`).FindAllString(string(manual), -1) {
		if all[name] == nil {
			t.Errorf("docs/monitoring.md asks for %s, which is not served", name)
		}
	}
}

// TestDashboardAsksForWhatIsServed: its metrics, and the labels by which it selects or groups them.
func TestDashboardAsksForWhatIsServed(t *testing.T) {
	t.Parallel()
	m := measure(t)
	m.everything()
	all := families(t, m.scrape())
	text, err := os.ReadFile("../../deploy/grafana/outlierd.json")
	if err != nil {
		t.Fatal(err)
	}
	var dashboard struct {
		Panels []struct {
			Title   string
			Targets []struct{ Expr, LegendFormat string }
		}
	}
	if err := json.Unmarshal(text, &dashboard); err != nil || len(dashboard.Panels) == 0 {
		t.Fatalf("%d panels, %v", len(dashboard.Panels), err)
	}
	for _, panel := range dashboard.Panels {
		for _, target := range panel.Targets {
			metrics := regexp.MustCompile(`outlierd_\w+`).FindAllString(target.Expr, -1)
			labels := map[string]bool{"exported_job": true} // our job, as Prometheus stores it
			for _, name := range metrics {
				if all[name] == nil {
					t.Errorf("%s asks for %s, which is not served", panel.Title, name)
					continue
				}
				for _, pair := range all[name].Metric[0].Label {
					labels[pair.GetName()] = true
				}
			}
			if len(metrics) == 0 {
				t.Errorf("%s asks for none of our metrics: %s", panel.Title, target.Expr)
			}
			for _, use := range regexp.MustCompile(`(\w+)="|by \((\w+)\)|\{\{(\w+)\}\}`).FindAllStringSubmatch(target.Expr+target.LegendFormat, -1) {
				if name := use[1] + use[2] + use[3]; !labels[name] {
					t.Errorf("%s uses the label %s, which %s does not have", panel.Title, name, metrics)
				}
			}
		}
	}
}

func TestCallsCountOnceRecorded(t *testing.T) {
	t.Parallel()
	m := measure(t)
	p := statetest.Capped(1000)
	open := statetest.Reserve(t, m.store, p, statetest.SearchRequest("0"))
	if err := open.Sending(); err != nil {
		t.Fatal(err)
	}
	m.buy("ideas", statetest.ErrorTo(statetest.SearchRequest("1"), 500, outlier.Failed), outlier.Refunded)
	if text := m.scrape(); strings.Contains(text, "outlierd_credits_spent_total{") {
		t.Error("a call that is under way counts as spent")
	}
	if err := open.Settle(statetest.Lost(statetest.SearchRequest("0")), outlier.Unknown); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		m.has(
			`outlierd_api_wait_seconds_total{reason="pace"} 90`, `outlierd_api_wait_seconds_total{reason="limit"} 1.5`,
			`outlierd_build_info{duckdb="v1.5.5",version="v1"} 1`,
			`outlierd_api_requests_total{endpoint="search",outcome="lost"} 1`,
			`outlierd_api_requests_total{endpoint="search",outcome="failed"} 1`,
			`outlierd_credits_spent_total{endpoint="search",job="ideas"} 2`,
			`outlierd_credits_refunded_total{job="ideas"} 2`,
			`outlierd_budget_credits{scope="month",state="used"} 2`,
			`outlierd_budget_credits{scope="month",state="left"} 398`,
			`outlierd_budget_credits{scope="day",state="limit"} 40`,
		)
	}
}

// TestCountersBeginWithTheProcess: what the ledger has from before counts no more, but when a
// job last succeeded is known.
func TestCountersBeginWithTheProcess(t *testing.T) {
	t.Parallel()
	m := measure(t)
	m.buy("ideas", statetest.AnswerTo(statetest.SearchRequest("0"), `{}`), outlier.Charged)
	statetest.BeginRun(t, m.store, "run-1")
	if err := m.store.Finish(runs.Run{ID: "run-1", Job: "ideas", Status: runs.OK, Ended: statetest.Noon}); err != nil {
		t.Fatal(err)
	}
	m.start()
	text := m.scrape()
	if strings.Contains(text, "outlierd_api_requests_total{") || strings.Contains(text, "outlierd_runs_total{") {
		t.Error("what was done before the start is counted")
	}
	m.has(fmt.Sprintf(`outlierd_run_last_success_timestamp_seconds{job="ideas"} %v`, float64(statetest.Noon.Unix())))
}

// TestLabelsAreBoundedByTheFile: whatever names the state has, and apart from jobs of such names.
func TestLabelsAreBoundedByTheFile(t *testing.T) {
	t.Parallel()
	m := measure(t)
	for i := range 30 {
		m.RunEnded(runs.Run{ID: fmt.Sprint("gone-", i), Job: fmt.Sprintf("gone-%d", i), Status: runs.Failed}, false)
		m.RunEnded(runs.Run{ID: fmt.Sprint("search-", i), Job: fmt.Sprintf("once:search-%d", i), Status: runs.OK}, false)
		m.RunEnded(runs.Run{ID: fmt.Sprint("once-", i), Job: "once", Status: runs.OK}, false)
		m.RunEnded(runs.Run{ID: fmt.Sprint("other-", i), Job: "other", Status: runs.Failed}, false)
		statetest.Enqueue(t, m.store, queue.Task{Job: fmt.Sprintf("gone-%d", i), Run: "r", Op: outlier.OpDetails, Entity: fmt.Sprintf("video%06d", i)})
	}
	m.has(
		`outlierd_runs_total{job="(other)",status="failed"} 30`,
		`outlierd_runs_total{job="(once)",status="ok"} 30`,
		`outlierd_runs_total{job="other",status="failed"} 30`,
		`outlierd_runs_total{job="once",status="ok"} 30`,
		`outlierd_tasks{endpoint="details",job="(other)"} 30`,
	)
}

// TestSinksAreShownAsRecorded, also by an earlier process.
func TestSinksAreShownAsRecorded(t *testing.T) {
	t.Parallel()
	m := measure(t)
	m.buy("ideas", statetest.AnswerTo(statetest.SearchRequest("0"), `{}`), outlier.Charged)
	if err := m.store.Sinks.SetDisabled("duckdb", errors.New("locked")); err != nil {
		t.Fatal(err)
	}
	m.start()
	m.has(`outlierd_sink_up{sink="duckdb"} 0`, `outlierd_sink_lag_responses{sink="duckdb"} 1`, `outlierd_sink_up{sink="parquet"} 1`)
	if err := m.store.Sinks.SetPublished("duckdb", 1); err != nil {
		t.Fatal(err)
	}
	m.has(`outlierd_sink_up{sink="duckdb"} 1`, `outlierd_sink_lag_responses{sink="duckdb"} 0`)
}

// TestWithoutAnAddressNothingIsCounted and all methods may be called.
func TestWithoutAnAddressNothingIsCounted(t *testing.T) {
	t.Parallel()
	m := New(&job.Config{}, "v1", "v1.5.5")
	m.RunEnded(runs.Run{}, false)
	m.Use(&job.Config{})
	m.Reloaded(false)
	if m.Observe(load.Step{}); m != nil {
		t.Errorf("metrics %v, want none", m)
	}
}

// TestRunsCountOnceForEachStatus, however often one waits for the rate limit. Its duration counts once, at its end.
func TestRunsCountOnceForEachStatus(t *testing.T) {
	t.Parallel()
	m := measure(t)
	for range 3 {
		m.RunEnded(runs.Run{ID: "1", Job: "ideas", Status: runs.PausedQuota}, false)
	}
	m.RunEnded(runs.Run{ID: "2", Job: "ideas", Status: runs.PausedQuota}, false)
	m.RunEnded(runs.Run{ID: "1", Job: "ideas", Status: runs.OK}, false)
	m.RunEnded(runs.Run{ID: "2", Job: "ideas", Status: runs.Interrupted}, true)
	third := runs.Run{ID: "3", Job: "ideas", Started: time.Now()}
	for i, status := range []runs.Status{runs.PausedBudget, runs.PausedBudget, runs.Failed, runs.Failed} {
		third.Status, third.Ended = status, third.Started.Add(time.Duration(i)*time.Minute)
		m.RunEnded(third, i == 3)
	}
	m.has(
		`outlierd_runs_total{job="ideas",status="paused_quota"} 2`,
		`outlierd_runs_total{job="ideas",status="ok"} 1`,
		`outlierd_runs_total{job="ideas",status="interrupted"} 1`,
		`outlierd_run_duration_seconds_count{job="ideas"} 3`,
		`outlierd_run_duration_seconds_sum{job="ideas"} 180`,
	)
}

func TestBlocksAreCountedWhileTheyStand(t *testing.T) {
	t.Parallel()
	m := measure(t)
	m.has(`outlierd_calls_blocked{reason="key"} 0`, `outlierd_calls_blocked{reason="credits"} 0`, `outlierd_calls_blocked{reason="clock"} 0`)
	key := m.config.Service.Key.Fingerprint()
	block := func(kind ledger.BlockKind, until time.Time) {
		t.Helper()
		if err := m.store.DB.Update(func(tx *store.Tx) error { return ledger.SetBlock(tx, kind, key, "refused", until) }); err != nil {
			t.Fatal(err)
		}
	}
	block(ledger.BlockKey, time.Time{})
	block(ledger.BlockCredits, time.Now().Add(time.Hour))
	m.has(`outlierd_calls_blocked{reason="key"} 1`, `outlierd_calls_blocked{reason="credits"} 1`, `outlierd_calls_blocked{reason="clock"} 0`)
	block(ledger.BlockCredits, time.Now().Add(-time.Second))
	m.has(`outlierd_calls_blocked{reason="key"} 1`, `outlierd_calls_blocked{reason="credits"} 0`)
}

// TestNextRunFollowsSchedule: it has jitter, and while the job is paused there is none.
func TestNextRunFollowsSchedule(t *testing.T) {
	t.Parallel()
	m := measure(t)
	late := m.config.Job("late")
	before := late.Coming(time.Now(), time.UTC)
	text := m.scrape()
	after := late.Coming(time.Now(), time.UTC)
	begins := func(due time.Time) string {
		return fmt.Sprintf("outlierd_job_next_fire_timestamp_seconds{job=\"late\"} %v\n", float64(late.Begins(due, time.UTC).Unix()))
	}
	if !strings.Contains(text, begins(before)) && !strings.Contains(text, begins(after)) {
		t.Errorf("no %s in\n%s", begins(before), text)
	}
	if err := m.store.Schedule.Pause([]runs.Pause{{Job: "ideas", Since: time.Now()}}); err != nil {
		t.Fatal(err)
	}
	m.has(`outlierd_job_paused{job="ideas"} 1`, `outlierd_job_paused{job="next"} 1`, `outlierd_job_paused{job="late"} 0`)
	if strings.Contains(m.scrape(), `outlierd_job_next_fire_timestamp_seconds{job="ideas"}`) {
		t.Error("a job that is paused has a next run")
	}
	if err := m.store.Schedule.Unpause([]string{"ideas"}); err != nil {
		t.Fatal(err)
	}
	m.has(`outlierd_job_paused{job="next"} 0`)
	if !strings.Contains(m.scrape(), `outlierd_job_next_fire_timestamp_seconds{job="ideas"}`) {
		t.Error("a job that was resumed has no next run")
	}
}

func TestRefusedFileIsShown(t *testing.T) {
	t.Parallel()
	m := measure(t)
	m.has(`outlierd_config_last_reload_successful 1`)
	m.Reloaded(false)
	m.has(`outlierd_config_last_reload_successful 0`)
	m.Use(m.config)
	m.has(`outlierd_config_last_reload_successful 1`)
}
