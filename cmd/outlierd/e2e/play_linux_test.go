package e2e

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"outlierd/cmd/outlierd/programtest"
	"outlierd/outlier/simulator"
	"outlierd/sinks/duckdb/query"
)

var (
	playFor   = flag.Duration("play", 0, "duration of the test with outages, kills and edits; 0 for a short sample")
	playKills = flag.Int("kills", 0, "how often that test kills the program; 0 for every 6 s")
	playSeed  = flag.Uint64("seed", 1, "seed of the random choices of that test")
)

// play is `up` with six jobs and many faults at once: answers are lost, truncated and slow, network, disk and sinks
// fail, the service's clock jumps, the job file is edited, other commands are run, and the program is killed. The
// seed determines what is done; the timing depends on the machine.
//
// At the end the rules of play_rules_linux_test.go are checked against the records.
type play struct {
	*testWorld
	began     time.Time
	length    time.Duration
	scale     time.Duration // of the schedules
	proxy     *proxy
	data      string
	disk      string // mount point of a disk for the data folder; "" if mounting is not allowed
	elsewhere string // address of another service, which must not receive any request

	others sync.RWMutex // held for writing while no other command may start a run

	mu         sync.Mutex
	trace      []string // what was done
	violations []string // of rules
	outages    []outage
	present    []span // when `up` kept the schedule
	starved    []span // when this process did not run for lack of CPU, as probably the program
	upAt       time.Time
	pid        int      // of up
	file       playFile // current
	cap        int      // the highest per_day so far
	kills      int
	dues       map[string]string // due times of runs, as first published
}

// span is a period of time.
type span struct{ from, to time.Time }

// outage is an outage, or a job file that cannot be used.
type outage struct {
	what string
	span // to is zero while it lasts
}

// playFile has the values of the job file that are edited.
type playFile struct {
	pages, top, read, perDay int
	even                     bool
}

// text returns the job file. Its minutes last a second.
func (f *playFile) text(p *play, url string) string {
	pace := ""
	if f.even {
		pace = ", pace: even"
	}
	tomorrow := p.began.UTC().AddDate(0, 0, 1).Day() // in a cycle that ends soon, the shares of even pacing are large
	m := func(n int) string { return fmt.Sprintf("%dm", n*int(p.scale/time.Second)) }
	return fmt.Sprintf(`version: 1
data: disk/data
service: {url: %q, key: "${file:key.txt}", limit: 60/2s}
budget: {per_month: 50000, per_day: %d, renews: on day %d%s}
defaults: {reuse_for: 1m}
jobs:
  news:
    every: %s
    search: {query: [home espresso], sort: z_score desc, where: {published_at: since last success}, pages: %d}
    enrich:
      details: {top: %d, refresh_after: 1m}
      comments: {top: 4, refresh_after: 1m}
      transcript: {top: 3}
  kin:
    after: news
    related: {video_id: {sql: "select video_id from outliers order by last_seen_at desc, video_id limit 2"}, refresh_after: 1m}
  topics:
    every: %s
    catch_up: all
    for_each: {topic: [moka pot, minecraft, latte art]}
    search: {query: "${topic}", pages: 2}
    enrich: {channel_videos: {top: 2, refresh_after: 1m}}
    budget: {per_run: 12}
  deep:
    every: %s
    scan: {query: [espresso machine repair], mode: fast, poll: 1m..2m, read: {pages: %d}}
  rivals:
    every: %s
    catch_up: none
    channels: {id: {sql: select channel_id from outliers group by 1 order by count(*) desc limit 3}, refresh_after: 1m}
  formats:
    every: %s
    trending_formats: {}
    budget: {per_month: 40}
  nothing:
    channels: {id: {file: empty.txt}}
`, url, f.perDay, tomorrow, pace, m(3), f.pages, f.top, m(4), m(10), f.read, m(7), m(5))
}

// scheduled returns the periods of the jobs with a schedule.
func (p *play) scheduled() map[string]time.Duration {
	return map[string]time.Duration{
		"news": 3 * p.scale, "topics": 4 * p.scale, "deep": 10 * p.scale, "rivals": 7 * p.scale, "formats": 5 * p.scale,
	}
}

func TestPlay(t *testing.T) {
	t.Parallel() // it runs processes of its own
	if testing.Short() {
		t.Skip("lasts at least 15 s")
	}
	p := newPlay(t)
	defer p.report()
	p.perform()
	p.check()
}

func newPlay(t *testing.T) *play {
	p := &play{length: 4 * time.Second, scale: time.Second, dues: map[string]string{}}
	if *playFor > 0 {
		p.length, p.scale = *playFor, 2*time.Second
	}
	service := simulator.New(simulator.Options{
		Seed: 1, Limit: 60, Window: 2 * time.Second, CachePeriod: time.Nanosecond, // the books show each repeated purchase
		Scans: func(string) []simulator.Phase {
			return []simulator.Phase{
				{Status: "Queued", Lasts: time.Second}, {Status: "Running", Lasts: 3 * time.Second}, {Status: "Completed"},
			}
		},
	})
	proxy, err := newProxy(service, p.source(1), p.violation)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { proxy.down(false) })
	p.proxy = proxy
	p.testWorld = &testWorld{TB: t, dir: t.TempDir(), service: service, url: "http://" + proxy.address}
	p.data = filepath.Join(p.dir, "disk", "data")
	other := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		p.violation("another service received %s with %q", r.URL.Path, r.Header.Get("Authorization"))
	}))
	t.Cleanup(other.Close)
	p.elsewhere = other.URL
	p.mount()
	p.began = time.Now()
	p.note("started at %s", clockOf(p.began))
	p.put("key.txt", proxy.key)
	p.put("empty.txt", "")
	p.edit(func(f *playFile) { *f = playFile{pages: 2, top: 5, read: 2, perDay: 500} })
	return p
}

// source returns the random numbers of an actor.
func (p *play) source(actor uint64) *rand.Rand { return rand.New(rand.NewPCG(*playSeed, actor)) }

// mount mounts a disk for the data folder, which can become full, if that is allowed.
func (p *play) mount() {
	disk := filepath.Join(p.dir, "disk")
	if err := os.MkdirAll(disk, 0o755); err != nil {
		p.Fatal(err)
	}
	if err := unix.Mount("tmpfs", disk, "tmpfs", 0, roomy); err != nil {
		p.note("no disk can be mounted: %v", err)
		return
	}
	p.disk = disk
	p.Cleanup(func() {
		if err := unix.Unmount(disk, unix.MNT_DETACH); err != nil {
			p.Error(err)
		}
	})
}

const roomy = "size=4000m"

// note adds to the trace.
func (p *play) note(format string, args ...any) {
	p.mu.Lock()
	defer p.mu.Unlock()
	at := time.Duration(0)
	if !p.began.IsZero() {
		at = time.Since(p.began)
	}
	line := strings.ReplaceAll(fmt.Sprintf(format, args...), "\n", " | ")
	p.trace = append(p.trace, fmt.Sprintf("%8.3f %s", at.Seconds(), line[:min(len(line), 300)]))
}

// violation records that a rule was violated.
func (p *play) violation(format string, args ...any) {
	p.note("VIOLATION "+format, args...)
	p.mu.Lock()
	defer p.mu.Unlock()
	p.violations = append(p.violations, fmt.Sprintf(format, args...))
}

// report prints the violations, and after one what was done.
func (p *play) report() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.Logf("seed %d, %v, %d kills, %d outages", *playSeed, p.length, p.kills, len(p.outages))
	const maxShown = 40
	for i, violation := range p.violations {
		if i == maxShown {
			p.Errorf("and %d more", len(p.violations)-maxShown)
			break
		}
		p.Errorf("%s", violation)
	}
	if !p.Failed() {
		return
	}
	kept, err := os.MkdirTemp("", "play-")
	if err == nil {
		err = exec.Command("cp", "-a", p.dir+"/.", kept).Run() // it may have a socket
	}
	p.Logf("the folder is kept in %s (%v); what was done:\n%s", kept, err, strings.Join(p.trace, "\n"))
}

// perform runs all actors at once, then repairs everything and lets the program run without faults.
func (p *play) perform() {
	ctx, cancel := context.WithTimeout(p.Context(), p.length)
	defer cancel()
	var actors, watching sync.WaitGroup
	over := make(chan struct{})
	watching.Go(func() { p.watchLoad(over) })
	defer func() {
		close(over)
		watching.Wait()
	}()
	for i, actor := range []func(context.Context, *rand.Rand){p.faults, p.edits, p.commands, p.clocks} {
		actors.Go(func() { actor(ctx, p.source(uint64(10+i))) })
	}
	p.processes(ctx, p.source(2))
	actors.Wait()
	p.settle()
}

// watchLoad records when the machine is overloaded.
func (p *play) watchLoad(over <-chan struct{}) {
	const beat = 50 * time.Millisecond
	for last := time.Now(); ; {
		select {
		case <-over:
			return
		case <-time.After(beat):
		}
		now := time.Now()
		if now.Sub(last) > 4*beat {
			p.mu.Lock()
			p.starved = append(p.starved, span{last, now})
			p.mu.Unlock()
		}
		last = now
	}
}

// processes starts and kills the program repeatedly.
func (p *play) processes(ctx context.Context, random *rand.Rand) {
	goal := *playKills
	if goal == 0 {
		goal = max(4, int(p.length/(6*time.Second)))
	}
	for ctx.Err() == nil {
		p.mu.Lock()
		left := max(1, goal-p.kills)
		p.mu.Unlock()
		until, _ := ctx.Deadline()
		mean := float64(time.Until(until)) / float64(left)
		life := min(time.Duration(mean*random.ExpFloat64()), time.Until(until))
		switch n := random.IntN(20); {
		case n < 8 || life > 20*time.Second:
			p.up(ctx, life, syscall.SIGKILL, "")
		case n < 15:
			p.up(ctx, life, syscall.SIGKILL, []string{atRequest, atAnswer, atEnd}[random.IntN(3)])
		case n < 17:
			p.up(ctx, life, syscall.SIGTERM, "")
		default:
			p.during(ctx, min(life, 4*time.Second), "run", "--due")
		}
		p.inBetween(ctx, random)
		if random.IntN(4) == 0 {
			sleep(ctx, time.Duration(random.Float64()*1.5*float64(p.scale)))
		}
	}
}

// up runs `up` for a while, and then ends it with a signal; if a stage is given, when the next paid call has reached
// it.
func (p *play) up(ctx context.Context, life time.Duration, signal syscall.Signal, stage string) {
	cmd, log := p.start("up")
	if cmd == nil {
		return
	}
	defer p.ended(log)
	end := make(chan error, 1)
	go func() { end <- cmd.Wait() }()
	select {
	case err := <-end:
		p.leaves()
		p.note("up ended by itself: %v: %s", err, log.last())
		if !p.hadOutage(log.began.Add(-time.Second), "") && !strings.Contains(log.String(), "held by process") {
			p.violation("up ended by itself without an outage: %v: %s", err, log.last())
		}
		sleep(ctx, 300*time.Millisecond)
		return
	case <-time.After(life):
	}
	if stage != "" {
		b := &breakpoint{stage, make(chan struct{}), make(chan struct{})}
		defer close(b.killed)
		p.proxy.set(func() { p.proxy.stop = b })
		select {
		case <-b.reached:
		case <-time.After(2 * p.scale):
		case <-ctx.Done():
		}
		p.proxy.set(func() { p.proxy.stop = nil })
	}
	p.note("%v up %d %s", signal, cmd.Process.Pid, stage)
	p.leaves()
	cmd.Process.Signal(signal)
	if signal == syscall.SIGKILL {
		p.killed()
		<-end
		return
	}
	select {
	case err := <-end:
		p.note("up stopped: %v", err)
		// Without any output, it was stopped before it handled signals.
		if err != nil && !p.hadOutage(log.began, "") && log.String() != "" {
			p.violation("a stop of up ended with %v: %s", err, log.last())
		}
	case <-time.After(60 * time.Second):
		p.violation("a stop of up took more than a minute")
		cmd.Process.Kill()
		<-end
	}
}

// start starts a process and keeps its log.
func (p *play) start(args ...string) (*exec.Cmd, *playLog) {
	cmd, _ := p.command(context.WithoutCancel(p.Context()), args...)
	log := &playLog{began: time.Now()}
	cmd.Stdout, cmd.Stderr = log, log
	p.mu.Lock()
	p.upAt = time.Time{}
	p.mu.Unlock()
	log.seen = func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		p.upAt, p.pid = time.Now(), cmd.Process.Pid
	}
	if err := cmd.Start(); err != nil {
		p.violation("start outlierd %v: %v", args, err)
		return nil, nil
	}
	p.note("%s started as process %d", strings.Join(args, " "), cmd.Process.Pid)
	log.name = fmt.Sprintf("%s-%d.log", args[0], cmd.Process.Pid)
	return cmd, log
}

// command returns a command of the program, for which a minute of the job file lasts a second.
func (p *play) command(ctx context.Context, args ...string) (*exec.Cmd, *bytes.Buffer) {
	cmd, out := p.testWorld.command(ctx, args...)
	cmd.Env = append(cmd.Env, programtest.ShortMinutes+"=1")
	return cmd, out
}

// leaves records that up no longer keeps the schedule.
func (p *play) leaves() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.upAt.IsZero() {
		p.present = append(p.present, span{p.upAt, time.Now()})
	}
	p.upAt, p.pid = time.Time{}, 0
}

// ended checks what a process has printed, and stores it.
func (p *play) ended(log *playLog) {
	p.checkOutput(log.String(), []string{log.name})
	if err := os.WriteFile(filepath.Join(p.dir, log.name), []byte(log.String()), 0o644); err != nil {
		p.Error(err)
	}
}

func (p *play) killed() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.kills++
}

// during runs a command and kills it if it takes longer than life. It returns the exit code, or -1 if the command was
// killed.
func (p *play) during(ctx context.Context, life time.Duration, args ...string) (code int, text string) {
	began := time.Now()
	limited, cancel := context.WithTimeout(context.WithoutCancel(ctx), life)
	defer cancel()
	cmd, out := p.command(limited, args...)
	err := cmd.Run()
	code = cmd.ProcessState.ExitCode()
	if _, exited := errors.AsType[*exec.ExitError](err); err != nil && !exited && limited.Err() == nil {
		p.violation("outlierd %v: %v", args, err)
	}
	if code < 0 {
		p.killed()
	}
	p.note("%s: exit code %d after %v: %s", strings.Join(args, " "), code,
		time.Since(began).Round(time.Millisecond), firstLine(out.String()))
	p.checkOutput(out.String(), args)
	return code, out.String()
}

func firstLine(text string) string {
	line, _, _ := strings.Cut(strings.TrimSpace(text), "\n")
	return line[:min(len(line), 160)]
}

// checkOutput reports texts that the program must never print.
func (p *play) checkOutput(text string, args []string) {
	locked := "database is locked"
	for _, bad := range []string{
		"panic:", "fatal error:", "constraint failed", locked, "malformed", "SQL logic error", "out of memory", "FATAL",
		"INTERNAL",
	} {
		if i := strings.Index(text, bad); i >= 0 && !(bad == locked && p.hadOutage(p.began, lockedByUs)) {
			p.violation("outlierd %v printed %q", args, text[max(0, i-200):min(len(text), i+400)])
		}
	}
}

// playLog is the output of a process.
type playLog struct {
	mu    sync.Mutex
	name  string
	text  bytes.Buffer
	began time.Time
	seen  func() // called once, when the process keeps the schedule
}

func (l *playLog) Write(b []byte) (int, error) {
	l.mu.Lock()
	l.text.Write(b)
	seen := l.seen
	if seen != nil && bytes.Contains(l.text.Bytes(), []byte("job scheduled")) {
		l.seen = nil
	} else {
		seen = nil
	}
	l.mu.Unlock()
	if seen != nil {
		seen()
	}
	return len(b), nil
}

func (l *playLog) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}

// last returns the last line.
func (l *playLog) last() string {
	lines := strings.Split(strings.TrimSpace(l.String()), "\n")
	line := lines[len(lines)-1]
	return line[:min(len(line), 500)]
}

// settle repairs everything and runs `up` without faults.
func (p *play) settle() {
	p.proxy.set(func() { p.proxy.faulty, p.proxy.skew = 0, 0 })
	p.edit(func(f *playFile) { f.perDay, f.even = 40_000, false })
	p.note("everything is repaired")
	p.settleScans()
	p.during(p.Context(), time.Minute, "budget", "resume")
	cmd, log := p.start("up")
	if cmd == nil {
		return
	}
	time.Sleep(max(5*p.scale, p.length/8)) // a run that could not start is tried again after a minute
	p.leaves()
	p.note("last stop of up")
	cmd.Process.Signal(syscall.SIGTERM)
	if err := cmd.Wait(); err != nil {
		p.violation("the last stop of up ended with %v: %s", err, log.last())
	}
	p.ended(log)
}

// inBetween runs commands while no other process holds the state.
func (p *play) inBetween(ctx context.Context, random *rand.Rand) {
	if ctx.Err() != nil {
		return
	}
	p.readDues()
	p.settleScans()
	switch n := random.IntN(20); {
	case n < 3:
		p.overridden(ctx, random)
	case n < 5:
		p.during(ctx, time.Duration(random.Float64()*2*float64(time.Second)), "run", "topics")
	case n == 5:
		p.during(ctx, 3*time.Second, "search", "moka pot", "--yes")
	case n == 6:
		p.during(ctx, time.Duration(random.Float64()*2*float64(time.Second)), "run", "news", "--with-after")
	case n == 7: // the sink is restored from the journal
		for _, name := range []string{"warehouse.duckdb", "warehouse.duckdb.wal"} {
			os.Remove(filepath.Join(p.data, "state", name))
		}
		p.note("warehouse.duckdb was deleted")
	}
}

// overridden runs a job with other flags, which must not move its cursors. It asks for more pages than the file ever
// has: a flag with the value of the file changes nothing.
func (p *play) overridden(ctx context.Context, random *rand.Rand) {
	p.others.Lock()
	defer p.others.Unlock()
	before, ok := p.cursors(ctx, "news")
	if !ok {
		return
	}
	how := [][]string{{"--since", "2d"}, {"--pages", "4"}, {"--no-enrich"}}[random.IntN(3)]
	p.during(ctx, 3*time.Second, append([]string{"run", "news"}, how...)...)
	after, ok := p.cursors(ctx, "news")
	if !ok || how[0] == "--no-enrich" {
		return
	}
	for key, mark := range after {
		// Any command sets a cursor in the future back to now, without changing who set it.
		if was := before[key]; mark.set != was.set || mark.at > was.at {
			p.violation("run news %v moved the cursor of %s from %v to %v", how, key, was, mark)
		}
	}
}

// cursor is the time up to which a job has searched, and the run that set it.
type cursor struct{ at, set string }

// cursors returns the cursors of a job, by the keys of its searches.
func (p *play) cursors(ctx context.Context, name string) (map[string]cursor, bool) {
	code, text := p.during(ctx, 20*time.Second, "cursor", "show", name, "-o", "json")
	if code != 0 {
		return nil, false
	}
	var all []struct {
		Key, At string
		SetBy   string `json:"set_by"`
		SetAt   string `json:"set_at"`
	}
	if err := json.Unmarshal([]byte(text), &all); err != nil {
		p.violation("cursor show %s printed %v: %s", name, err, text)
		return nil, false
	}
	marks := map[string]cursor{}
	for _, m := range all {
		marks[m.Key] = cursor{m.At, m.SetBy + " at " + m.SetAt}
	}
	return marks, true
}

// settleScans adopts or resolves each unconfirmed scan, according to the books of the service.
func (p *play) settleScans() {
	code, text := p.during(p.Context(), 20*time.Second, "scan", "list", "-o", "json")
	if code != 0 {
		return
	}
	var all []struct {
		Intent int64
		ScanID string `json:"scan_id"`
		State  string
	}
	if err := json.Unmarshal([]byte(text), &all); err != nil {
		p.violation("scan list: %v: %s", err, firstLine(text))
		return
	}
	known := map[string]bool{}
	for _, s := range all {
		known[s.ScanID] = true
	}
	started := map[string]time.Time{}
	for _, c := range p.service.Books().Calls {
		if c.Scan != "" && !known[c.Scan] {
			started[c.Scan] = c.At
		}
	}
	for _, s := range all {
		if s.State != "unknown" {
			continue
		}
		// The time of an intent is by the service's clock, which jumps here. But no other scan is started before
		// this one is settled, so it is the first.
		id := ""
		for scan, at := range started {
			if id == "" || at.Before(started[id]) {
				id = scan
			}
		}
		if id == "" {
			p.during(p.Context(), 20*time.Second, "scan", "resolve", "--not-created", fmt.Sprint(s.Intent))
			continue
		}
		if code, _ := p.during(p.Context(), 20*time.Second, "scan", "adopt", id, "--intent", fmt.Sprint(s.Intent)); code == 0 {
			delete(started, id)
		}
	}
}

// readDues checks in the published file that the due times of runs do not change.
func (p *play) readDues() {
	if _, err := os.Stat(p.published()); err != nil {
		return
	}
	began := time.Now()
	err := query.RunUnsafe(p.Context(), p.published(), `select run_id, job || ' ' || coalesce(due_at::varchar, '') from ops.runs`,
		nil, func(values []any) error {
			run, due := values[0].(string), values[1].(string)
			p.mu.Lock()
			was := p.dues[run]
			p.dues[run] = due
			p.mu.Unlock()
			if was != "" && was != due {
				p.violation("the due time of run %s was %s and is %s", run, was, due)
			}
			return nil
		})
	if err != nil && !p.hadOutage(began.Add(-time.Second), "") {
		p.violation("read %s: %v", p.published(), err)
	}
}

func (p *play) published() string { return filepath.Join(p.data, "outliers.duckdb") }

// query queries the published file.
func (p *play) query(text string, row func([]any)) {
	p.Helper()
	err := query.RunUnsafe(p.Context(), p.published(), text, nil, func(values []any) error {
		row(values)
		return nil
	})
	if err != nil {
		p.Fatal(err)
	}
}

// commands runs other commands while `up` keeps the schedule.
func (p *play) commands(ctx context.Context, random *rand.Rand) {
	commands := [][]string{
		{"plan"}, {"budget"}, {"budget", "resume"}, {"queue"}, {"queue", "clear", "news"}, {"queue", "clear", "topics"},
		{"sql", "select count(*) from outliers"}, {"sql", "select * from ops.runs"}, {"cursor", "show"}, {"scan", "list"},
		{"lint"}, {"schema", "drift"}, {"run", "--due"}, {"run", "news", "--pages", "1"}, {"search", "tea"},
		{"budget", "adjust", "--spent", "1", "--why", "elsewhere"}, {"budget", "adjust", "--bought", "1", "--why", "on top"},
		{"budget", "resume"},
	}
	for sleep(ctx, time.Duration(200+random.IntN(800))*time.Millisecond) {
		args := commands[random.IntN(len(commands))]
		p.mu.Lock()
		up := !p.upAt.IsZero()
		p.mu.Unlock()
		if !up && !slices.Contains([]string{"plan", "sql", "cursor", "scan", "lint"}, args[0]) {
			continue
		}
		began := time.Now()
		p.others.RLock()
		code, text := p.during(ctx, 30*time.Second, args...)
		p.others.RUnlock()
		if code == 0 || code == exitHeld || p.hadOutage(began.Add(-time.Second), "") {
			continue
		}
		if code == exitPaused && (strings.Contains(text, "budget.per_day") || strings.Contains(text, "until the clocks agree")) {
			continue // the credits of the day are spent, also by what was said to be spent elsewhere; or a clock has jumped
		}
		if args[0] == "sql" && strings.Contains(text, "does not exist yet") || up && !p.keeps(began) {
			continue // nothing was published yet; or up has ended meanwhile, so that the command failed or ran alone
		}
		p.violation("outlierd %v: exit code %d without an outage: %s", args, code, text)
	}
}

// keeps reports whether up has kept the schedule since a time.
func (p *play) keeps(since time.Time) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return !p.upAt.IsZero() && p.upAt.Before(since)
}

// sleep waits, and reports whether the context is still valid.
func sleep(ctx context.Context, d time.Duration) bool {
	select {
	case <-ctx.Done():
		return false
	case <-time.After(d):
		return ctx.Err() == nil
	}
}
