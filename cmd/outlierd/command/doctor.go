package command

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/sys/unix"

	"outlierd/cmd/outlierd/daemon"
	"outlierd/cmd/outlierd/report"
	"outlierd/cmd/outlierd/term"
	"outlierd/internal/durable"
	"outlierd/internal/machine"
	"outlierd/outlier"
	"outlierd/sinks/bucket"
	"outlierd/sinks/iceberg"
	"outlierd/sinks/warehouse"
	"outlierd/sync/engine"
	"outlierd/sync/forecast"
	"outlierd/sync/forgotten"
	"outlierd/sync/job"
	"outlierd/sync/ledger"
	"outlierd/sync/notify"
	"outlierd/sync/store"
	"outlierd/sync/yamltree"
)

func doctorCommand(g *globals) *cobra.Command {
	return &cobra.Command{
		Use:   "doctor",
		Short: "Check the setup: service, key, clock, folders, targets",
		Long: `Check everything that runs need: the job file, the data folder and its disk, the state, blocked
calls, sinks that failed, the service with its key and its clock, buckets, lakes, and the targets
of notifications. Each check is one line, and each problem comes with a remedy. Exit code 1 if a
check fails.

One free request is sent to the service, if the rate limit allows it. No credits are spent and
no data changes, so it works while 'outlierd up' runs. Of the targets only the host names are
looked up; 'outlierd notify test' sends to one.`,
		RunE: func(c *cobra.Command, _ []string) error { return runDoctor(c.Context(), g) },
	}
}

// setup is the output of doctor for programs.
type setup struct {
	OK     bool      `json:"ok"`
	Checks []finding `json:"checks"`
}

// finding is the result of one check.
type finding struct {
	Check  string `json:"check"`
	Status string `json:"status"` // ok, warn or fail
	Found  string `json:"found"`
	Remedy string `json:"remedy,omitempty"`
}

// checkup collects the results. Each check runs even if the one before it failed.
type checkup struct {
	g        *globals
	config   *job.Config
	redact   func(string) string
	findings []finding
}

func (c *checkup) ok(check, found string, args ...any) { c.add(check, "ok", "", found, args...) }

func (c *checkup) warn(check, remedy, found string, args ...any) {
	c.add(check, "warn", remedy, found, args...)
}

func (c *checkup) fail(check, remedy, found string, args ...any) {
	c.add(check, "fail", remedy, found, args...)
}

// add records a finding, on one line and without the key, because errors quote foreign text.
func (c *checkup) add(check, status, remedy, found string, args ...any) {
	found = strings.Join(strings.Fields(c.redact(fmt.Sprintf(found, args...))), " ")
	c.findings = append(c.findings, finding{check, status, found, remedy})
}

// setupChecks are the checks of a setup with a valid job file, in the order in which they are printed.
var setupChecks = []func(context.Context, *checkup){
	checkZone, checkFolders, checkDisk, checkRecords, checkDaemon, checkService, checkCopies, checkTargets,
}

// checksWithoutFile do not depend on the job file.
var checksWithoutFile = []func(context.Context, *checkup){checkZone, checkFolders, checkDisk, checkDaemon}

func runDoctor(ctx context.Context, g *globals) error {
	c := &checkup{g: g, redact: func(text string) string { return text }}
	checks, hasFile := setupChecks, checkFile(ctx, c)
	if hasFile {
		c.redact = c.config.Service.Key.Redact
	} else {
		data, daemon := job.DaemonOf(g.config, g.world.env)
		c.config = &job.Config{Path: g.config, Data: data, Daemon: daemon, Timezone: time.UTC}
		checks = checksWithoutFile
	}
	for _, check := range checks {
		check(ctx, c)
	}
	if !hasFile {
		c.warn("not checked", "correct the job file, and run doctor again",
			"state, service, key, clock, rate limit, buckets, lakes and targets: they depend on the job file")
	}
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return c.print()
}

// checkZone says in which time zone times are.
func checkZone(_ context.Context, c *checkup) {
	c.ok("time zone", "it is %s in %s", time.Now().In(c.config.Timezone).Format("Mon 2006-01-02 15:04 MST"), c.config.Timezone)
}

func (c *checkup) print() error {
	failed, text := 0, ""
	for _, f := range c.findings {
		text += fmt.Sprintf("%-4s  %-14s  %s\n", f.Status, f.Check, term.Plain(f.Found))
		if f.Remedy != "" {
			text += fmt.Sprintf("%22s%s\n", "", term.Plain(f.Remedy))
		}
		if f.Status == "fail" {
			failed++
		}
	}
	if err := c.g.out.print(setup{failed == 0, c.findings}, "%s", text); err != nil {
		return err
	}
	if failed > 0 {
		return fmt.Errorf("%d of %s failed", failed, term.Count(len(c.findings), "check"))
	}
	return nil
}

// checkFile reads the job file, and reports whether the checks that depend on it can run.
func checkFile(ctx context.Context, c *checkup) bool {
	remedy := "'outlierd lint' shows where and what to write"
	config, err := c.g.load()
	if err == nil {
		if config, err = config.RunCommands(ctx); err != nil {
			remedy = "" // lint runs no commands
		}
	}
	switch mistakes, ok := errors.AsType[yamltree.Mistakes](err); {
	case ok:
		c.fail("job file", remedy, "%s", daemon.WhyRefused(mistakes))
		config, err = c.g.loadToRead()
	case err != nil:
		c.fail("job file", remedy, "%v", err)
	case len(config.Warnings) > 0:
		c.warn("job file", remedy, "%s", daemon.WhyRefused(yamltree.Mistakes(config.Warnings)))
	default:
		c.ok("job file", "%s has %s and no mistake", config.Files(), term.Count(len(config.Jobs), "job"))
	}
	c.config = config
	return err == nil
}

// checkFolders checks the folders that the program writes to. A state folder that does not exist yet is created in
// the data folder.
func checkFolders(_ context.Context, c *checkup) {
	c.checkFolder("data folder", c.config.Data)
	if folder := stateFolder(c.config); !isMissing(folder) {
		c.checkFolder("state folder", folder)
	}
}

func (c *checkup) checkFolder(name, folder string) {
	there := existing(folder)
	err := tryFolder(there)
	if err == nil {
		err = c.refuseUnwritable(folder)
	}
	found := report.Path(folder) + " can be written to and locked"
	if there != folder {
		found = fmt.Sprintf("%s will be created in %s, which can be written to and locked", report.Path(folder), there)
	}
	switch {
	case errors.Is(err, errNoLocks):
		c.fail(name, "use a local disk, or mount the network file system with locks", "%v", err)
	case errors.Is(err, fs.ErrPermission):
		c.fail(name, accessRemedy(err, there), "%v", err)
	case err != nil:
		c.fail(name, "mount a disk there that can be written to", "%v", err)
	default:
		c.ok(name, "%s", found)
	}
}

// existing returns a folder, or its nearest parent that exists.
func existing(folder string) string {
	for isMissing(folder) && filepath.Dir(folder) != folder {
		folder = filepath.Dir(folder)
	}
	return folder
}

// free is the meter of a free request. It refuses paid requests and records nothing.
type free struct{}

func (free) Reserve(_ context.Context, r *outlier.Request) (outlier.Attempt, error) {
	if r.Paid() {
		return nil, errors.New("doctor makes no call that costs credits")
	}
	return free{}, nil
}

func (free) Sending() error                                { return nil }
func (free) Settle(*outlier.Answer, outlier.Outcome) error { return nil }

var errNoLocks = errors.New("a file cannot be locked")

// tryFolder writes a file, syncs it, and locks it in both ways in which the state is locked. It unlinks
// the file first, so that a kill leaves none.
func tryFolder(folder string) (err error) {
	file, err := os.CreateTemp(folder, ".doctor-*")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, file.Close()) }()
	if err := os.Remove(file.Name()); err != nil {
		return err
	}
	if _, err := file.WriteString("written by outlierd doctor\n"); err != nil {
		return err
	}
	if err := file.Sync(); err != nil {
		return err
	}
	err = unix.Flock(int(file.Fd()), unix.LOCK_EX|unix.LOCK_NB)
	if err == nil {
		err = unix.FcntlFlock(file.Fd(), unix.F_SETLK, &unix.Flock_t{Type: unix.F_WRLCK})
	}
	if err != nil {
		return fmt.Errorf("%w in %s: %w", errNoLocks, folder, err)
	}
	return nil
}

// refuseUnwritable returns an error if there is something in the folder that the program writes to and this user
// may not write. In the data folder that is the state and the folders of sinks: a published DuckDB file
// is replaced, not written to, and other files such as lost+found do not matter.
func (c *checkup) refuseUnwritable(folder string) error {
	paths, err := durable.Match(folder, "*")
	if folder == c.config.Data {
		paths = []string{stateFolder(c.config)}
		for _, s := range c.config.Sinks {
			if s.Kind == job.SinkParquet {
				paths = append(paths, sinkPath(c.config, s))
			}
		}
	}
	for _, path := range paths {
		if denied := unix.Access(path, unix.W_OK); denied != nil && !errors.Is(denied, unix.ENOENT) {
			return &fs.PathError{Op: "write to", Path: path, Err: denied}
		}
	}
	return err
}

func checkDisk(_ context.Context, c *checkup) {
	const remedy = "free some space, or move the data folder to a larger disk"
	there := existing(c.config.Data)
	room, err := machine.FreeSpace(there)
	files, wrong := machine.FreeFiles(there)
	tables, takes := warehouseDisk(c.config)
	switch {
	case err != nil:
		c.fail("disk", remedy, "read the free space of %s: %v", there, cmp.Or(err, wrong))
	case room < store.MinFree:
		c.fail("disk", remedy, "%d MiB are free, and %d MiB are required before anything is bought", room>>20,
			store.MinFree>>20)
	case files < store.MinFiles:
		c.fail("disk", "remove some files, or move the data folder to a disk with more inodes",
			"%d inodes are free, and %d are required before anything is bought", files, store.MinFiles)
	case room == machine.Unknown:
		c.ok("disk", "its file system does not say how much is free")
	case room < store.MinFree+2*tables:
		c.warn("disk", remedy, "%d MiB are free; %s, and its next copies up to %d MiB", room>>20, takes, 2*tables>>20)
	default:
		c.ok("disk", "%d MiB are free; %s", room>>20, takes)
	}
}

// callBytes is what the rows of an average call take in the warehouse, for an estimate.
const callBytes = 10_000

// warehouseDisk returns the size of the warehouse, which no sink names, and says so.
func warehouseDisk(config *job.Config) (bytes uint64, takes string) {
	path := filepath.Join(stateFolder(config), warehouse.Name)
	info, err := os.Stat(path)
	if err != nil {
		return 0, fmt.Sprintf("%s will take about %d kB for each call, whatever the sinks are", report.Path(path), callBytes/1000)
	}
	return uint64(info.Size()), fmt.Sprintf("%s takes %d MiB, whatever the sinks are", report.Path(path), info.Size()>>20)
}

// checkRecords opens the state, and reports what it says in the words of `status` of what keeps runs from working.
func checkRecords(ctx context.Context, c *checkup) {
	tables := published(c.config)
	if isMissing(filepath.Join(stateFolder(c.config), "state.db")) && (tables == "" || isMissing(tables)) {
		c.ok("state", "not created yet; the first run creates it")
		return
	}
	err := c.g.with(ctx, c.config, toRead, func(p *program) error {
		s, err := statusOf(ctx, p)
		if err != nil {
			return err
		}
		in := report.Style{Zone: c.config.Timezone}
		for _, r := range s.Refused {
			c.fail("blocked calls", "remove the cause, then 'outlierd budget resume'", "%s", report.Refusal(r, in))
		}
		add := c.warn
		if !slices.ContainsFunc(s.Sinks, func(sink forecast.SinkStatus) bool { return sink.Error == "" }) {
			add = c.fail // nothing is bought then
		}
		for i := range s.Sinks {
			if s.Sinks[i].Error != "" {
				add("sinks", "the log of the last run says more, and the next run tries again", "%s",
					report.Sink(&s.Sinks[i], s.At, in))
			}
		}
		erased, err := forgotten.Unfinished(p.Engine.Store.DB)
		if erased > 0 {
			c.fail("erasure", "run 'outlierd forget' again with the same ids", "it was stopped, so the tables may still have %s",
				term.Count(erased, "erased id"))
		}
		return err
	})
	if err != nil {
		c.fail("state", "'outlierd check' says more about damage", "%v", err)
		return
	}
	c.ok("state", "readable; 'outlierd status' shows the budget and the backups")
}

// checkDaemon reports whether `up` runs. What does not work in it is in the status.
func checkDaemon(ctx context.Context, c *checkup) {
	switch where, err := checkAlive(ctx, c.g); {
	case err != nil && where == "":
		c.ok("up", "not running")
	case err != nil:
		c.fail("up", "check its log, and restart it", "%v", err)
	default:
		c.ok("up", "it is alive (answered at %s)", where)
	}
}

// callFor is the time limit of a request.
const callFor = 20 * time.Second

// probed is the id of the requested video. It does not matter whether the service has it.
const probed = "dQw4w9WgXcQ"

// checkService makes one free request, which checks four things at once.
func checkService(ctx context.Context, c *checkup) {
	config := c.config.Service
	p := &program{Engine: &engine.Engine{Config: c.config}}
	if err := p.openPace(); err != nil {
		c.fail("rate limit", "", "%v", err)
		return
	}
	limit := p.Engine.Pace.Status()
	switch {
	case config.Simulated():
		c.ok("address", "the built-in simulator, which needs neither a network nor a key")
		return
	case config.URL == "" || config.Key.IsZero():
		return // missing in the job file, which was reported
	case limit.Reset.After(time.Now()):
		c.warn("rate limit", "run doctor again after that", "the next request may be sent at %s, so none was made",
			limit.Reset.In(c.config.Timezone).Format("15:04:05 MST"))
		return
	}
	c.ok("rate limit", "%s; %s may be sent now", limit.Pace(), term.Count(limit.Remaining, "request"))
	transport, err := c.g.world.network(config.CAFile)
	if err != nil {
		c.fail("address", "see service.ca_file and HTTPS_PROXY", "%v", err)
		return
	}
	request, err := outlier.DataRequest(outlier.OpDetails, probed)
	if err != nil {
		c.fail("address", "", "%v", err)
		return
	}
	client := p.Engine.Client
	// A running `up` counts this request as another client's.
	client.Transport, client.Pacer, client.Timeout = transport, nil, callFor
	answer, err := client.Do(ctx, request, free{})
	c.judgeAnswer(answer, err)
}

// judgeAnswer evaluates an answer, or its absence.
func (c *checkup) judgeAnswer(answer *outlier.Answer, err error) {
	kind := outlier.Kind("")
	if e, ok := errors.AsType[*outlier.Error](err); ok {
		kind = e.Kind
	} else if err != nil || answer == nil {
		c.fail("address", "", "%v", err)
		return
	}
	const address = "check service.url, the network, HTTPS_PROXY and service.ca_file"
	switch kind {
	case outlier.Unsent, outlier.Lost:
		c.fail("address", address, "%v", err)
		return
	case outlier.Foreign, outlier.Malformed:
		c.fail("address", "check service.url: something else answers there", "%v", err)
		return
	case outlier.Failed, outlier.Invalid:
		c.warn("address", "the service has a problem; try again later", "%v", err)
	default:
		c.ok("address", "the service answered in %s", answer.ReceivedAt.Sub(answer.SentAt).Round(time.Millisecond))
	}
	c.compareClocks(answer)
	const told = "the service does not report how many credits are left"
	switch kind {
	case outlier.Unauthorized:
		c.fail("key", "set a valid key in the variable or file that service.key names", "%v", err)
	case outlier.NoCredits:
		c.ok("key", "the service accepts it")
		c.fail("subscription", "renew it, or buy credits", "%v", err)
	case outlier.Limited:
		c.warn("key", "try again later", "not checked: %v", err)
	case "", outlier.NotFound:
		c.ok("key", "the service accepts it")
		c.ok("subscription", "free calls are answered; %s", told)
	}
}

// compareClocks compares the local clock with the service's.
func (c *checkup) compareClocks(answer *outlier.Answer) {
	const remedy = "set the clock, for example by NTP"
	service := answer.ServiceTime()
	if service.IsZero() {
		c.warn("clock", "", "the answer has no time of the service")
		return
	}
	here := answer.SentAt.Add(answer.ReceivedAt.Sub(answer.SentAt) / 2)
	off := here.Sub(service).Round(time.Second)
	const found = "it is %s off the service's clock, and schedules use it"
	switch {
	case off.Abs() > ledger.Skew:
		c.fail("clock", remedy, found, off)
	case off.Abs() > time.Minute:
		c.warn("clock", remedy, found, off)
	default:
		c.ok("clock", "it is within %s of the service's clock", max(off.Abs(), time.Second))
	}
}

// checkCopies reads from each bucket and each lake. Whether they can be written to is shown by the next run.
func checkCopies(ctx context.Context, c *checkup) {
	for _, s := range c.config.Sinks {
		switch {
		case s.Lake != nil:
			name, err := "sink "+s.Kind, iceberg.Probe(ctx, lakeOf(c.config, s, "", c.g.world.env))
			switch {
			case errors.Is(err, fs.ErrNotExist):
				c.ok(name, "the tables do not exist yet; the first run creates them")
			case err != nil:
				c.fail(name, "see docs/lake.md", "%v", err)
			default:
				c.ok(name, "the tables in namespace %s can be read", s.Lake.Namespace)
			}
		case s.Bucket != "":
			r, err := bucket.New(sinkPath(c.config, s), bucketOf(c.config, s, c.g.world.env)).Check(ctx, false)
			if err != nil {
				c.fail("bucket", "see docs/buckets.md", "%v", err)
			} else {
				c.ok("bucket", "%s can be read", r.Address)
			}
		}
	}
}

// resolveFor is the time limit of a DNS look-up.
const resolveFor = 5 * time.Second

// checkTargets looks up each target.
func checkTargets(ctx context.Context, c *checkup) {
	for i := range c.config.Targets {
		t := &c.config.Targets[i]
		name := "notify " + t.Name
		if t.Off {
			c.warn(name, "set the variable that holds its address", "its address is empty, so nothing is sent")
		} else if err := c.findTarget(ctx, t); err != nil {
			c.fail(name, "see docs/notifications.md", "%s: %v", notify.Describe(t), err)
		} else {
			c.ok(name, "%s was found; 'outlierd notify test %s' sends a test", notify.Describe(t), t.Name)
		}
	}
}

// findTarget looks up a target's host. Behind a proxy only the proxy resolves names.
func (c *checkup) findTarget(ctx context.Context, t *job.Target) error {
	if t.Kind == job.TargetCommand {
		program := t.Command[0]
		if filepath.Base(program) != program && !filepath.IsAbs(program) {
			program = filepath.Join(c.config.Dir, program)
		}
		_, err := exec.LookPath(program)
		return err
	}
	for _, name := range []string{"HTTPS_PROXY", "https_proxy"} {
		if proxy, _ := c.g.world.env(name); proxy != "" && t.Kind != job.TargetMail {
			return nil
		}
	}
	ctx, cancel := context.WithTimeout(ctx, resolveFor)
	defer cancel()
	_, err := net.DefaultResolver.LookupHost(ctx, cmp.Or(t.Host, t.Mail.Host))
	return err
}
