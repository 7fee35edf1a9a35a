package main

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

// record is what the published file tells of the play at its end.
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

	searching span // it was at what it is for
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

// judge holds the rules against the record.
func (p *play) judge() {
	p.note("the rules are held against the record")
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
	p.note("the tables are compared")
	p.tables()
	p.note("the sinks are made anew")
	p.rebuilt()
	p.note("all rules were held against the record")
}

// work finds out when runs were taking pages.
func (r *record) work() {
	last := map[string]time.Time{}
	for _, q := range r.requests {
		if q.Operation == outlier.OpSearch || q.Operation == outlier.OpRelated || q.Operation == outlier.OpScan || q.Operation == outlier.OpStartScan || q.Operation == outlier.OpTrendingFormats {
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
		if run.Job == "rivals" || open[run.Run] { // the data calls of rivals are all that it is for
			if end = run.Ended; end.IsZero() {
				end = time.Now()
			}
		}
		run.searching = span{run.Started, end.Add(200 * time.Millisecond)}
	}
}

// patience is how long a job that is due may be left alone by a program that has
// nothing else to do.
const patience = 5 * time.Second

// everyInstant: every due instant has a run, but for those that passed while nobody kept
// the schedule or a run of the job was taking pages: the next run makes up for them.
func (p *play) everyInstant(r *record, job string, every time.Duration) {
	var rows []*runRecord
	seen := map[time.Time]string{}
	for _, run := range r.runs {
		if run.Job != job || run.Due.IsZero() {
			continue
		}
		if other := seen[run.Due]; other != "" {
			p.violation("%s: runs %s and %s are both of %s", job, other, run.Run, clockOf(run.Due))
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
		i, has := slices.BinarySearchFunc(rows, due, func(run *runRecord, due time.Time) int { return run.Due.Compare(due) })
		if has || job == "topics" && i == len(rows) {
			continue
		}
		if job == "topics" {
			p.violation("%s: no run for %s, and the job catches up on all", job, clockOf(due))
			continue
		}
		until := end
		if i < len(rows) {
			until = rows[i].Started
		}
		if idle := (span{due, until}).without(busy); idle > patience {
			p.violation("%s: no run for %s, and for %v of the time until %s nothing stood in its way", job, clockOf(due), idle.Round(time.Millisecond), clockOf(until))
		}
	}
}

// busy are the times during which a job cannot be begun.
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
	all = append(all, p.proxy.long(time.Now())...)
	all = append(all, p.starved...)
	for _, t := range p.outages {
		if strings.HasPrefix(t.what, "network") { // a call is tried three times before others have their turn
			all = append(all, span{t.from, t.to.Add(3 * time.Second)})
		}
		if strings.HasPrefix(t.what, "disk") {
			held := span{t.from, t.to.Add(time.Minute)} // a run that could not be put on record is tried again after a minute
			for _, s := range p.present {
				if s.to.After(t.from) && s.to.Before(held.to) {
					held.to = s.to // or by the next process
					break
				}
			}
			all = append(all, held)
		}
	}
	return all
}

// without is how much of s no other span covers.
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

// children: a run whose pages were published has one run of the job that comes after it.
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
			p.violation("run %s of news, due %s, ended %s at %s as %s and has %d runs of kin", parent.Run, clockOf(due), clockOf(parent.Started), clockOf(parent.Ended), parent.Status, n)
		}
	}
	for due, n := range children {
		if parents[due] == nil && !byHand[due] {
			p.violation("%d runs of kin are due at %s, and no run of news is", n, clockOf(due))
		}
	}
}

// endings: a run searched, or says why not; only the newest of a job is open.
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
				p.violation("run %s of %s, due %s, is open, has no search, and is not the newest", run.Run, run.Job, clockOf(run.Due))
			}
		case "failed":
			if run.Error == "" || strings.Contains(run.Error, "context canceled") {
				p.violation("run %s of %s failed and does not say why: %q", run.Run, run.Job, run.Error)
			}
		case "ok", "ok_empty":
			if unfinished {
				p.violation("run %s of %s ended as %s and has an open search", run.Run, run.Job, run.Status)
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

// money: the ledger holds what the service charged, and what it holds beyond that is
// unknown; nothing is unknown that the network or a kill did not make so.
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
			if c.Response == nil && c.Operation != outlier.OpStartScan { // a scan that was adopted has none
				p.violation("attempt %d of %s is spent, and no answer is kept", c.ID, c.Operation)
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
			p.violation("%s: the service charged %d, the ledger has %d spent and %d unknown", op, s.charged, s.spent, s.unknown)
		}
	}
	lost := 0
	for identity, n := range p.proxy.disturbances() {
		if strings.HasPrefix(identity, "  ") { // a data call, or the start of a scan
			continue
		}
		lost += n
	}
	lost += p.proxy.lostStarts()
	if unknown > lost+p.kills {
		p.violation("%d paid answers are unknown, but the network spoiled %d and there were %d kills", unknown, lost, p.kills)
	}
	p.identities(r)
}

// identities: each paid request was charged as often as the ledger says, and a run buys
// no page again that it has.
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
			p.violation("%s: charged %d times, in the ledger %d times as spent and %d times as unknown", identity, n.charged, n.spent, n.unknown)
		}
	}
	unread := p.proxy.disturbances("garbage", "login page")
	for key, n := range twice {
		_, identity, _ := strings.Cut(key, " ")
		if n > 1+unread[identity] {
			p.violation("a run bought a page %d times, and only %d answers could not be read: %s", n, unread[identity], key)
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

// caps: at no reservation did a period hold more than the cap that was in force. What
// was given back later is left out, so the sums are never too high.
func (p *play) caps(r *record) {
	held := map[string]int64{}
	for _, c := range r.credits {
		if c.Outcome == "refunded" {
			continue
		}
		for _, scope := range []struct {
			name string
			cap  *int64
		}{{"run " + c.Run, c.CapRun}, {"day " + c.Day, c.CapDay}, {"job " + c.Job + " " + c.Month, c.CapJob}, {"month " + c.Month, c.CapMonth}} {
			held[scope.name] += c.Price
			if scope.cap != nil && c.Operation != "adjustment" && held[scope.name] > *scope.cap {
				p.violation("attempt %d of %s: %s holds %d, and its cap was %d", c.ID, c.Job, scope.name, held[scope.name], *scope.cap)
			}
		}
	}
	days := map[string]bool{}
	for _, c := range r.credits {
		days[c.Day] = true
	}
	if charged := p.service.Books().Total.Spent(); int(charged) > len(days)*p.cap {
		p.violation("the service charged %d credits on %d days, and no cap was ever above %d", charged, len(days), p.cap)
	}
}

// periods: only the service tells what day it is.
func (p *play) periods(r *record) {
	told := map[string]bool{p.began.UTC().Format(time.DateOnly): true, time.Now().UTC().Format(time.DateOnly): true}
	p.proxy.set(func() {
		for day := range p.proxy.told {
			told[day] = true
		}
	})
	wrong := map[string]int{}
	for _, c := range r.credits {
		if c.Day != "" && !told[c.Day] {
			wrong[c.Day]++
		}
	}
	for day, n := range wrong {
		p.violation("%d calls are booked on %s, which the service never told (a gateway did: %v)", n, day, p.proxy.lied[day])
	}
}

// scans: none is started twice by itself.
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
			p.violation("scan %s was started while %s was under way: %s, %s", c.Scan, last.Scan, clockOf(last.At), clockOf(c.At))
		}
		last = c
	}
	if open < 0 {
		p.violation("%d scans of the service are on no record: %s", -open, text)
	}
}

// restored: at the end everything works, so nothing fails.
func (p *play) restored(r *record) {
	last := p.present[len(p.present)-1]
	quiet := map[string]*runRecord{}
	for _, run := range r.runs {
		if run.Started.Before(last.from) || run.Due.IsZero() {
			continue
		}
		quiet[run.Run] = run
		// Calls that failed before, and wait for another try, make a run partial without an error.
		failed := run.Status == "partial" && run.Failures == 0 && run.Error != "" && !strings.Contains(run.Error, "the next run of the job is due")
		if run.Status == "failed" || failed {
			p.violation("run %s of %s began at %s, when all was well, and is %s: %s", run.Run, run.Job, clockOf(run.Started), run.Status, run.Error)
		}
	}
	if len(quiet) == 0 {
		p.violation("when all was well, from %s on, no run was begun", clockOf(last.from))
	}
	for _, s := range r.searches {
		if run := quiet[s.Run]; run != nil && s.Reused > 0 && !r.boughtBefore(run) {
			p.violation("run %s of %s took pages from the journal that are older than a second", run.Run, run.Job)
		}
	}
}

// boughtBefore reports whether another run of the job was answered just before, as one that
// went on first: within a second its pages are used again.
func (r *record) boughtBefore(run *runRecord) bool {
	return slices.ContainsFunc(r.requests, func(q requestRecord) bool {
		return q.Job == run.Job && q.Run != run.Run && q.Answered.After(run.Started.Add(-2*time.Second)) && q.Answered.Before(run.Started.Add(time.Second))
	})
}

// tables: each sink holds the same, what belongs together is there together, and the
// operations tables are those of the state.
func (p *play) tables() {
	for _, table := range slices.Concat(schema.Tables(), schema.OpsTables()) {
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

// rebuilt: sinks that are made anew from the journal hold the same.
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
		p.violation("make the sinks anew from the journal: %v\n%s", err, out)
		return
	}
	for _, table := range schema.Tables() {
		p.equal("rebuilt", table, "true", filepath.Join(fresh, "parquet"))
	}
	for _, table := range schema.OpsTables() { // but for the run that made them anew
		p.equal("rebuilt", table, fmt.Sprintf("id <= (select coalesce(max(id), 0) from %s)", table.Name), filepath.Join(fresh, "parquet"))
	}
}

// lostStarts are the starts of scans whose answers did not come whole.
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

// timesOf writes the times of a JSON text as Go reads them.
func timesOf(text string) string { return zoned.ReplaceAllString(text, `"${1}T$2$3:00"`) }
