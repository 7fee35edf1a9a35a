package command

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"outlierd/cmd/outlierd/report"
	"outlierd/cmd/outlierd/term"
	"outlierd/outlier"
	"outlierd/sync/job"
	"outlierd/sync/yamltree"
)

func doctorCommand(g *globals) *cobra.Command {
	return &cobra.Command{
		Use:   "doctor",
		Short: "Check the setup: service, key, folders, sinks, targets",
		Long: `Check everything that runs need: the job file, the data folder and its disk, the state, the
sinks, the service with its key and its clock, and the targets of notifications. Each check is
one line, and each problem comes with a remedy. Exit code 1 if a check fails.

One free request is sent to the service, if the rate limit allows it. No credits are spent and
no data changes, so it works while 'outlierd up' runs. Of the targets only the host names are
looked up; 'outlierd notify test' sends to one.

'outlierd lint' lists all mistakes of a job file, and 'outlierd check' looks for damage.`,
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
	checkZone, checkFolders, checkDisk, checkRecords, checkDaemon, checkService, checkPublished, checkTargets,
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
			"state, service, key, clock, rate limit, sinks and targets: they depend on the job file")
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
	if mistakes, ok := errors.AsType[yamltree.Mistakes](err); ok {
		for _, m := range mistakes[:min(len(mistakes), maxMistakes)] {
			c.fail("job file", "", "%s", m)
		}
		if n := len(mistakes) - maxMistakes; n > 0 {
			c.fail("job file", "", "it has %s more", term.Count(n, "mistake"))
		}
		c.findings[len(c.findings)-1].Remedy = remedy
		config, err = c.g.loadToRead()
	} else if err != nil {
		c.fail("job file", remedy, "%v", err)
	} else if n := len(config.Warnings); n > 0 {
		c.warn("job file", remedy, "%s%s", config.Warnings[0], more(n-1))
	} else {
		c.ok("job file", "%s has %s and no mistake", config.Files(), term.Count(len(config.Jobs), "job"))
	}
	c.config = config
	return err == nil
}

// maxMistakes is the number of mistakes of the job file that are listed.
const maxMistakes = 10

// more returns the number of further problems in words, or "".
func more(n int) string {
	if n == 0 {
		return ""
	}
	return fmt.Sprintf(" (and %d more)", n)
}

// checkFolders checks the folders that the program writes to. A state folder that does not exist yet is created in
// the data folder.
func checkFolders(_ context.Context, c *checkup) {
	for _, folder := range []string{c.config.Data, stateFolder(c.config)} {
		name := "data folder"
		if folder != c.config.Data {
			if name = "state folder"; isMissing(folder) {
				continue
			}
		}
		there := existing(folder)
		err := tryFolder(there)
		if err == nil {
			err = c.refuseUnwritable(folder)
		}
		switch {
		case errors.Is(err, errNoLocks):
			c.fail(name, "use a local disk, or mount the network file system with locks", "%v", err)
		case errors.Is(err, fs.ErrPermission):
			c.fail(name, accessRemedy(err, there), "%v", err)
		case err != nil:
			c.fail(name, "mount a disk there that can be written to", "%v", err)
		case there != folder:
			c.ok(name, "%s will be created in %s, which can be written to and locked", report.Path(folder), there)
		default:
			c.ok(name, "%s can be written to and locked", report.Path(folder))
		}
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
