package e2e

import (
	"encoding/json"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	"outlierd/outlier"
	"outlierd/outlier/simulator"
	"outlierd/schema"
)

// record has the rows of the published file at the end.
type record struct {
	runs     []*runRecord
	searches []searchRecord
	requests []requestRecord
	credits  []creditRecord
}

type runRecord struct {
	ID                        int64
	Run                       string `json:"run_id"`
	Job, Trigger, Status      string
	Due                       time.Time `json:"due_at"`
	Started                   time.Time `json:"started_at"`
	Ended                     time.Time `json:"ended_at"`
	Error                     string
	Pages, Requests, Failures int64

	searching span // when it made its calls, apart from enrichment
}

type searchRecord struct {
	Run       string `json:"run_id"`
	Job, Item string
	Operation outlier.Operation
	Stop      *string `json:"stop_reason"`
	Pages     int64
	Reused    int64
}

type requestRecord struct {
	ID        int64
	Run       string `json:"run_id"`
	Job       string
	Operation outlier.Operation
	Params    map[string]any `json:"parameters"`
	Sent      time.Time      `json:"sent_at"`
	Answered  time.Time      `json:"answered_at"`
	Outcome   string
	Response  *int64 `json:"response_id"`
}

type creditRecord struct {
	ID         int64
	Run        string `json:"run_id"`
	Job        string
	Operation  outlier.Operation
	Price      int64
	Outcome    string
	Day, Month string
	CapRun     *int64 `json:"cap_run"`
	CapDay     *int64 `json:"cap_day"`
	CapJob     *int64 `json:"cap_job_month"`
	CapMonth   *int64 `json:"cap_month"`
	Response   *int64 `json:"response_id"`
}

// recorded reads rows of the published file.
func recorded[T any](p *play, table string) (all []T) {
	p.Helper()
	p.query(fmt.Sprintf("select to_json(t)::varchar from %s t order by id", table), func(values []any) {
		var row T
		text := timesOf(values[0].(string))
		if err := json.Unmarshal([]byte(text), &row); err != nil {
			p.Fatalf("%s: %v: %s", table, err, text)
		}
		all = append(all, row)
	})
	return all
}

// check checks the rules.
func (p *play) check() {
	p.note("check the rules")
	p.readDues()
	if len(p.present) == 0 {
		p.violation("up never kept the schedule")
		return
	}
	r := &record{
		runs: recorded[*runRecord](p, "ops.runs"), searches: recorded[searchRecord](p, "ops.searches"),
		requests: recorded[requestRecord](p, "ops.requests"), credits: recorded[creditRecord](p, "ops.credits"),
	}
	p.Logf("%d runs, %d searches, %d requests, %d reservations; the service charged %d credits",
		len(r.runs), len(r.searches), len(r.requests), len(r.credits), p.service.Books().Total.Spent())
	r.work()
	for job, every := range p.scheduled() {
		p.everyInstant(r, job, every)
	}
	p.children(r)
	p.endings(r)
	p.money(r)
	p.caps(r)
	p.periods(r)
	p.scans(r)
	p.restored(r)
	p.note("compare the tables")
	p.tables()
	p.note("rebuild the sinks")
	p.rebuilt()
	p.note("all rules were checked")
}

// work determines when runs requested pages.
func (r *record) work() {
	last := map[string]time.Time{}
	for _, q := range r.requests {
		switch q.Operation {
		case outlier.OpSearch, outlier.OpRelated, outlier.OpScan, outlier.OpStartScan, outlier.OpTrendingFormats:
			at := q.Answered
			if at.IsZero() {
				at = q.Sent
			}
			if at.After(last[q.Run]) {
				last[q.Run] = at
			}
		}
	}
	open := map[string]bool{}
	for _, s := range r.searches {
		open[s.Run] = open[s.Run] || s.Stop == nil
	}
	for _, run := range r.runs {
		end := last[run.Run]
		if end.Before(run.Started) {
			end = run.Started
		}
		if run.Job == "rivals" || open[run.Run] { // rivals makes only data calls
			if end = run.Ended; end.IsZero() {
				end = time.Now()
			}
		}
		run.searching = span{run.Started, end.Add(200 * time.Millisecond)}
	}
}

// patience is how long a due job may wait while nothing prevents its run.
const patience = 5 * time.Second

// everyInstant: every due time has a run, except for those that passed while no process kept the schedule or a run of
// the job requested pages: the next run makes up for them.
func (p *play) everyInstant(r *record, job string, every time.Duration) {
	var rows []*runRecord
	seen := map[time.Time]string{}
	for _, run := range r.runs {
		if run.Job != job || run.Due.IsZero() {
			continue
		}
		if other := seen[run.Due]; other != "" {
			p.violation("%s: runs %s and %s both have the due time %s", job, other, run.Run, clockOf(run.Due))
		}
		seen[run.Due] = run.Run
		rows = append(rows, run)
	}
	slices.SortFunc(rows, func(a, b *runRecord) int { return a.Due.Compare(b.Due) })
	busy := p.busy(r, job)
	end := p.present[len(p.present)-1].to
	first := p.present[0].from
	passed := time.Duration(first.UnixNano()) % every
	for due := first.Add(every - passed); due.Before(end.Add(-patience)); due = due.Add(every) {
		i, has := slices.BinarySearchFunc(rows, due, func(run *runRecord, due time.Time) int {
			return run.Due.Compare(due)
		})
		if has || job == "topics" && i == len(rows) {
			continue
		}
		if job == "topics" {
			p.violation("%s: no run for %s, but the job has catch_up: all", job, clockOf(due))
			continue
		}
		until := end
		if i < len(rows) {
			until = rows[i].Started
		}
		if idle := (span{due, until}).without(busy); idle > patience {
			p.violation("%s: no run for %s, and for %v of the time until %s nothing prevented it",
				job, clockOf(due), idle.Round(time.Millisecond), clockOf(until))
		}
	}
}

// busy returns the times during which a job cannot start.
func (p *play) busy(r *record, job string) (all []span) {
	last := p.began
	for _, s := range p.present {
		all = append(all, span{last, s.from})
		last = s.to
	}
	for _, run := range r.runs {
		if run.Job == job {
			all = append(all, run.searching)
		}
	}
	all = append(all, p.proxy.longCalls(time.Now())...)
	all = append(all, p.starved...)
	for _, t := range p.outages {
		if strings.HasPrefix(t.what, "network") { // a call is tried three times before the next one
			all = append(all, span{t.from, t.to.Add(3 * time.Second)})
		}
		if strings.HasPrefix(t.what, "disk") {
			blocked := span{t.from, t.to.Add(time.Minute)} // a run that could not be recorded is tried again after a minute
			for _, s := range p.present {
				if s.to.After(t.from) && s.to.Before(blocked.to) {
					blocked.to = s.to // or by the next process
					break
				}
			}
			all = append(all, blocked)
		}
	}
	return all
}

// without returns how much of s is not covered by other spans.
func (s span) without(others []span) time.Duration {
	others = slices.Clone(others)
	slices.SortFunc(others, func(a, b span) int { return a.from.Compare(b.from) })
	free, at := time.Duration(0), s.from
	for _, o := range others {
		if o.from.After(s.to) {
			break
		}
		if o.from.After(at) {
			free += o.from.Sub(at)
		}
		if o.to.After(at) {
			at = o.to
		}
	}
	if s.to.After(at) {
		free += s.to.Sub(at)
	}
	return free
}

func clockOf(t time.Time) string { return t.UTC().Format("15:04:05.000") }

// children: a run whose pages were published has one run of the job after it.
func (p *play) children(r *record) {
	parents, children := map[time.Time]*runRecord{}, map[time.Time]int{}
	byHand := map[time.Time]bool{}
	for _, run := range r.runs {
		byHand[run.Started] = run.Job == "news" && run.Trigger == "manual" // with --with-after
		if run.Job == "kin" && !run.Due.IsZero() {
			children[run.Due]++
		}
		if run.Job == "news" && run.Trigger != "manual" && !run.Due.IsZero() {
			parents[run.Due] = run
		}
	}
	end := p.present[len(p.present)-1].to
	for due, parent := range parents {
		fired := slices.Contains([]string{"ok", "ok_empty", "partial"}, parent.Status) && parent.Ended.Before(end.Add(-patience))
		if n := children[due]; fired && n != 1 {
			p.violation("run %s of news, due %s, started %s, ended %s with status %s, has %d runs of kin, want 1",
				parent.Run, clockOf(due), clockOf(parent.Started), clockOf(parent.Ended), parent.Status, n)
		}
	}
	for due, n := range children {
		if parents[due] == nil && !byHand[due] {
			p.violation("%d runs of kin have the due time %s, but no run of news has it", n, clockOf(due))
		}
	}
}

// endings: a run searched, or has an error; only the newest run of a job is open.
func (p *play) endings(r *record) {
	newest, open := map[string]int64{}, map[string]string{}
	for _, run := range r.runs {
		newest[run.Job] = max(newest[run.Job], run.ID)
	}
	for _, s := range r.searches {
		if s.Stop == nil {
			open[s.Run] = s.Item
		}
	}
	for _, run := range r.runs {
		_, unfinished := open[run.Run]
		switch run.Status {
		case "running":
			if newest[run.Job] != run.ID && run.searchesOf(r) == 0 {
				p.violation("run %s of %s, due %s, is open without a search, and is not the newest",
					run.Run, run.Job, clockOf(run.Due))
			}
		case "failed":
			if run.Error == "" || strings.Contains(run.Error, "context canceled") {
				p.violation("run %s of %s failed without a reason: error %q", run.Run, run.Job, run.Error)
			}
		case "ok", "ok_empty":
			if unfinished {
				p.violation("run %s of %s ended with status %s and has an open search", run.Run, run.Job, run.Status)
			}
		}
	}
}

func (run *runRecord) searchesOf(r *record) (n int) {
	for _, s := range r.searches {
		if s.Run == run.Run {
			n++
		}
	}
	return n
}

// money: the ledger has what the service charged. Anything beyond that has the outcome unknown, and only disturbed
// calls and kills have that outcome.
func (p *play) money(r *record) {
	type sums struct{ spent, unknown, charged int64 }
	of := map[outlier.Operation]*sums{}
	at := func(op outlier.Operation) *sums {
		if of[op] == nil {
			of[op] = &sums{}
		}
		return of[op]
	}
	unknown := 0
	for _, c := range r.credits {
		switch {
		case c.Operation == "adjustment":
		case c.Outcome == "spent":
			at(c.Operation).spent += c.Price
			if c.Response == nil && c.Operation != outlier.OpStartScan { // an adopted scan has no answer
				p.violation("attempt %d of %s is spent, but has no answer", c.ID, c.Operation)
			}
		case c.Outcome == "unknown":
			at(c.Operation).unknown += c.Price
			unknown++
		case c.Outcome == "reserved":
			p.violation("attempt %d of %s is still reserved", c.ID, c.Operation)
		}
	}
	for op, total := range p.service.Books().Operations {
		at(op).charged = int64(total.Spent())
	}
	for op, s := range of {
		if s.charged < s.spent || s.charged > s.spent+s.unknown {
			p.violation("%s: the service charged %d credits, the ledger has %d spent and %d unknown",
				op, s.charged, s.spent, s.unknown)
		}
	}
	lost := 0
	for identity, n := range p.proxy.disturbances() {
		if strings.HasPrefix(identity, "  ") { // of a data call, or of the start of a scan
			continue
		}
		lost += n
	}
	lost += p.proxy.lostStarts()
	if unknown > lost+p.kills {
		p.violation("%d paid attempts are unknown, but only %d calls were disturbed and there were %d kills",
			unknown, lost, p.kills)
	}
	p.identities(r)
}

// identities: each paid request was charged as often as the ledger says, and a run buys no page that it has already.
func (p *play) identities(r *record) {
	type counts struct{ spent, unknown, charged int }
	of := map[string]*counts{}
	at := func(identity string) *counts {
		if of[identity] == nil {
			of[identity] = &counts{}
		}
		return of[identity]
	}
	twice := map[string]int{}
	for _, q := range r.requests {
		if q.Operation != outlier.OpSearch && q.Operation != outlier.OpRelated && q.Operation != outlier.OpTrendingFormats {
			continue
		}
		identity := string(q.Operation) + "  " + q.values().Encode()
		switch q.Outcome {
		case "charged":
			at(identity).spent++
			twice[q.Run+" "+identity]++
		case "unknown":
			at(identity).unknown++
		}
	}
	for _, call := range p.service.Books().Calls {
		if _, paid := of[call.Identity]; call.Charged > call.Refunded && (paid || call.Op != outlier.OpStartScan) {
			at(call.Identity).charged++
		}
	}
	for identity, n := range of {
		if n.charged < n.spent || n.charged > n.spent+n.unknown {
			p.violation("%s: charged %d times, in the ledger %d times as spent and %d times as unknown",
				identity, n.charged, n.spent, n.unknown)
		}
	}
	unread := p.proxy.disturbances("garbage", "login page")
	for key, n := range twice {
		_, identity, _ := strings.Cut(key, " ")
		if n > 1+unread[identity] {
			p.violation("a run bought a page %d times, but only %d answers were unreadable: %s", n, unread[identity], key)
		}
	}
}

func (q *requestRecord) values() url.Values {
	v := url.Values{}
	for name, value := range q.Params {
		switch value := value.(type) {
		case []any:
			for _, one := range value {
				v.Add(name, fmt.Sprint(one))
			}
		default:
			v.Add(name, fmt.Sprint(value))
		}
	}
	return v
}

// caps: at each reservation, a period had at most the cap at that time. Attempts that were refunded later are not
// counted, so the sums are never too high.
func (p *play) caps(r *record) {
	held := map[string]int64{}
	for _, c := range r.credits {
		if c.Outcome == "refunded" {
			continue
		}
		for _, scope := range []struct {
			name string
			cap  *int64
		}{
			{"run " + c.Run, c.CapRun}, {"day " + c.Day, c.CapDay},
			{"job " + c.Job + " " + c.Month, c.CapJob}, {"month " + c.Month, c.CapMonth},
		} {
			held[scope.name] += c.Price
			if scope.cap != nil && c.Operation != "adjustment" && held[scope.name] > *scope.cap {
				p.violation("attempt %d of %s: %s has %d credits, but its cap was %d",
					c.ID, c.Job, scope.name, held[scope.name], *scope.cap)
			}
		}
	}
	days := map[string]bool{}
	for _, c := range r.credits {
		days[c.Day] = true
	}
	if charged := p.service.Books().Total.Spent(); int(charged) > len(days)*p.cap {
		p.violation("the service charged %d credits on %d days, but the highest cap was %d", charged, len(days), p.cap)
	}
}

// periods: only the clock of the service determines the day of an attempt.
func (p *play) periods(r *record) {
	days := map[string]bool{p.began.UTC().Format(time.DateOnly): true, time.Now().UTC().Format(time.DateOnly): true}
	p.proxy.set(func() {
		for day := range p.proxy.serviceDays {
			days[day] = true
		}
	})
	wrong := map[string]int{}
	for _, c := range r.credits {
		if c.Day != "" && !days[c.Day] {
			wrong[c.Day]++
		}
	}
	for day, n := range wrong {
		p.violation("%d calls are booked on %s, which no answer of the service had as its date (one of a gateway: %t)",
			n, day, p.proxy.gatewayDays[day])
	}
}

// scans: no run starts more than one scan.
func (p *play) scans(r *record) {
	starts := map[string]int{}
	for _, c := range r.credits {
		if c.Operation == outlier.OpStartScan && c.Outcome != "refunded" {
			starts[c.Run]++
		}
	}
	for run, n := range starts {
		if n > 1 {
			p.violation("run %s started %d scans", run, n)
		}
	}
	code, text := p.during(p.Context(), time.Minute, "scan", "list", "-o", "json")
	var all []struct {
		Intent   int64
		ScanID   string `json:"scan_id"`
		State    string
		Intended time.Time `json:"intended_at"`
		Seen     time.Time `json:"seen_at"`
	}
	if err := json.Unmarshal([]byte(text), &all); err != nil || code != 0 {
		p.violation("scan list: exit code %d, %v: %s", code, err, firstLine(text))
		return
	}
	known, open := map[string]bool{}, 0
	for _, s := range all {
		known[s.ScanID] = true
		if s.State == "unknown" {
			open++
		}
	}
	var last simulator.Call
	for _, c := range p.service.Books().Calls {
		if c.Scan == "" {
			continue
		}
		if !known[c.Scan] {
			open--
		}
		if !last.At.IsZero() && c.At.Sub(last.At) < 4*time.Second {
			p.violation("scan %s was started at %s while scan %s of %s was running",
				c.Scan, clockOf(c.At), last.Scan, clockOf(last.At))
		}
		last = c
	}
	if open < 0 {
		p.violation("%d scans of the service are not recorded: %s", -open, text)
	}
}

// restored: after the repair no run fails.
func (p *play) restored(r *record) {
	last := p.present[len(p.present)-1]
	quiet := map[string]*runRecord{}
	for _, run := range r.runs {
		if run.Started.Before(last.from) || run.Due.IsZero() {
			continue
		}
		quiet[run.Run] = run
		// Calls that failed before, and wait for another try, make a run partial without an error.
		failed := run.Status == "partial" && run.Failures == 0 && run.Error != "" &&
			!strings.Contains(run.Error, "the next run of the job is due")
		if run.Status == "failed" || failed {
			p.violation("run %s of %s, started at %s after the repair, is %s: %s",
				run.Run, run.Job, clockOf(run.Started), run.Status, run.Error)
		}
	}
	if len(quiet) == 0 {
		p.violation("after the repair, from %s on, no run started", clockOf(last.from))
	}
	for _, s := range r.searches {
		if run := quiet[s.Run]; run != nil && s.Reused > 0 && !r.boughtBefore(run) {
			p.violation("run %s of %s used pages of the journal that are more than a second old", run.Run, run.Job)
		}
	}
}

// boughtBefore reports whether another run of the job was answered just before: within a second its pages are used
// again.
func (r *record) boughtBefore(run *runRecord) bool {
	return slices.ContainsFunc(r.requests, func(q requestRecord) bool {
		return q.Job == run.Job && q.Run != run.Run &&
			q.Answered.After(run.Started.Add(-2*time.Second)) && q.Answered.Before(run.Started.Add(time.Second))
	})
}

// tables: both sinks have the same rows, and rows that belong together are complete.
func (p *play) tables() {
	for _, table := range schema.AllTables() {
		p.equal("in Parquet", table, "true", filepath.Join(p.data, "parquet"))
	}
	for what, query := range map[string]string{
		"outliers without a history": `select count(*) from (select video_id from outliers_history except select video_id from outliers)`,
		"transcripts without lines":  `select count(*) from transcripts t where event_count != (select count(*) from transcript_events e where e.video_id = t.video_id)`,
		"counts without comments":    `select count(*) from comment_counts c where sampled != (select count(*) from comments m where m.video_id = c.video_id)`,
		"missing, and there since":   `select count(*) from missing m join transcripts t on t.video_id = m.id where m.endpoint = 'transcript' and t.observed_at > m.checked_at`,
		"missing details, and there": `select count(*) from missing m join videos t on t.video_id = m.id where m.endpoint = 'details' and t.last_seen_at > m.checked_at`,
	} {
		p.query(query, func(values []any) {
			if n := number(values[0]); n != 0 {
				p.violation("%s: %.0f", what, n)
			}
		})
	}
}

// equal compares a table of the published file with a folder of Parquet files.
func (p *play) equal(where string, table *schema.Table, which, folder string) {
	var columns []string
	for _, c := range table.Columns {
		columns = append(columns, fmt.Sprintf("%q::varchar as %[1]q", c.Name))
	}
	rows := strings.Join(columns, ", ")
	files := filepath.Join(folder, table.FileName())
	from := fmt.Sprintf("read_parquet('%s/**/*.parquet', hive_partitioning = false) where true", files)
	if matches, _ := filepath.Glob(filepath.Join(files, "*")); len(matches) == 0 {
		from = table.Name + " where false"
	}
	query := fmt.Sprintf(`with a as (select %s from %s), b as (select %[1]s from %[3]s and %[4]s)
		select '-', to_json(x)::varchar from (select * from a except all select * from b) x
		union all select '+', to_json(x)::varchar from (select * from b except all select * from a) x`, rows, table.Name, from, which)
	n := 0
	p.query(query, func(values []any) {
		if n++; n <= 3 {
			text := values[1].(string)
			p.violation("table %s, published (-) and %s (+): %s %s", table.Name, where, values[0], text[:min(len(text), 600)])
		}
	})
	if n > 3 {
		p.violation("table %s, published and %s: %d rows differ", table.Name, where, n)
	}
}

// rebuilt: sinks that are rebuilt from the journal have the same rows.
func (p *play) rebuilt() {
	fresh := p.TempDir()
	if err := os.MkdirAll(filepath.Join(fresh, "state"), 0o700); err != nil {
		p.Fatal(err)
	}
	for _, name := range []string{"state.db", "state.db-wal", "pace.json"} {
		text, err := os.ReadFile(filepath.Join(p.data, "state", name))
		if err == nil {
			err = os.WriteFile(filepath.Join(fresh, "state", name), text, 0o600)
		}
		if err != nil && !os.IsNotExist(err) {
			p.Fatal(err)
		}
	}
	cmd, out := p.command(p.Context(), "run", "nothing")
	cmd.Env = append(cmd.Env, "OUTLIERD_DATA="+fresh)
	if err := cmd.Run(); err != nil {
		p.violation("rebuild the sinks from the journal: %v\n%s", err, out)
		return
	}
	for _, table := range schema.Tables() {
		p.equal("rebuilt", table, "true", filepath.Join(fresh, "parquet"))
	}
	for _, table := range schema.OpsTables() { // except for the run that rebuilt them
		older := fmt.Sprintf("id <= (select coalesce(max(id), 0) from %s)", table.Name)
		p.equal("rebuilt", table, older, filepath.Join(fresh, "parquet"))
	}
}

// lostStarts counts the starts of scans whose answers did not arrive complete.
func (f *proxy) lostStarts() (n int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, c := range f.calls {
		if c.path == "/scan" && c.disturbed() {
			n++
		}
	}
	return n
}

var zoned = regexp.MustCompile(`"(\d{4}-\d\d-\d\d) (\d\d:\d\d:\d\d(?:\.\d+)?)([+-]\d\d)"`)

// timesOf converts the times in a JSON text to RFC 3339.
func timesOf(text string) string { return zoned.ReplaceAllString(text, `"${1}T$2$3:00"`) }
