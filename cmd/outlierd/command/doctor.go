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

func doctorCommand(o *options) *cobra.Command {
	var send bool
	c := &cobra.Command{
		Use:   "doctor",
		Short: "Check the setup: service, key, folders, sinks, targets",
		Long: `Check everything that runs need: the job file, the data folder and its disk, the state, the
sinks, the service with its key and its clock, and the targets of notifications. Each check is
one line, and each problem comes with a remedy. Exit code 1 if a check fails.

One free request is sent to the service, if the rate limit allows it. No credits are spent and
no data changes, so it works while 'outlierd up' runs. Of the targets only the host names are
looked up; --notify sends each a test notification.

'outlierd lint' lists all mistakes of a job file, and 'outlierd check' looks for damage.`,
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error { return o.doctor(c.Context(), send) },
	}
	c.Flags().BoolVar(&send, "notify", false, "send a test notification to each target")
	return c
}

// setup is the output of doctor for programs.
type setup struct {
	OK     bool      `json:"ok"`
	Checks []finding `json:"checks"`
}

var checkedSetup = documentOf[setup]("doctor")

// finding is the result of one check.
type finding struct {
	Check  string `json:"check"`
	Status string `json:"status"` // ok, warn or fail
	Found  string `json:"found"`
	Remedy string `json:"remedy,omitempty"`
}

// checkup collects the results. Each check runs even if the one before it failed.
type checkup struct {
	options  *options
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

func (o *options) doctor(ctx context.Context, send bool) error {
	c := &checkup{options: o, redact: func(text string) string { return text }}
	if c.file(ctx) {
		c.redact = c.config.Service.Key.Redact
		c.ok("time zone", "it is %s in %s", time.Now().In(c.config.Timezone).Format("Mon 2006-01-02 15:04 MST"),
			c.config.Timezone)
		c.folders()
		c.disk()
		c.state(ctx)
		c.daemonAlive(ctx)
		c.service(ctx)
		c.sinks(ctx)
		c.targets(ctx, send)
	} else {
		c.withoutFile(ctx)
	}
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return c.print()
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
	if err := checkedSetup.print(c.options, setup{failed == 0, c.findings}, "%s", text); err != nil {
		return err
	}
	if failed > 0 {
		return fmt.Errorf("%d of %s failed", failed, term.Count(len(c.findings), "check"))
	}
	return nil
}

// file reads the job file, and reports whether the other checks can run.
func (c *checkup) file(ctx context.Context) bool {
	remedy := "'outlierd lint' shows where and what to write"
	config, err := c.options.load()
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
		config, err = c.options.loadToRead()
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

// withoutFile runs the checks that do not need a valid job file.
func (c *checkup) withoutFile(ctx context.Context) {
	data, daemon := job.DaemonOf(c.options.config, c.options.world.env)
	c.config = &job.Config{Path: c.options.config, Data: data, Daemon: daemon, Timezone: time.UTC}
	const known = "Europe/Berlin"
	if _, err := time.LoadLocation(known); err != nil {
		c.fail("time zone", "install tzdata, or set ZONEINFO", "the data of %s is missing: %v", known, err)
	} else {
		c.ok("time zone", "it is %s; the data of other zones is installed",
			time.Now().UTC().Format("Mon 2006-01-02 15:04 MST"))
	}
	c.folders()
	c.disk()
	c.daemonAlive(ctx)
	c.warn("not checked", "correct the job file, and run doctor again",
		"state, service, key, clock, rate limit, sinks and targets: they depend on the job file")
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

// folders checks the folders that the program writes to. A state folder that does not exist yet is created in
// the data folder.
func (c *checkup) folders() {
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
			err = c.writable(folder)
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
