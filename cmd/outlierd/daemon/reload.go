package daemon

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"outlierd/sync/job"
	"outlierd/sync/serve"
	"outlierd/sync/yamltree"
)

// # Reloading the job file
//
// An edit takes effect without a restart: at once on SIGHUP, and with `daemon.reload: auto` within
// about a minute. Only the texts of the file, and of those that it includes or names in ${file:…},
// count, so it does not matter how an editor or a mounted volume replaces them. A file is used if it is the
// same at two checks in a row, so that none is used half written. A file with a mistake is refused as a whole.

// reloadEvery is how often the file is checked.
const reloadEvery = 30 * time.Second

// maxMistakes is the maximum number of mistakes logged for a refused file.
const maxMistakes = 10

// A reloader applies edits of the job file.
type reloader struct {
	Options
	log     *slog.Logger
	seen    string                  // state of the file at the last check
	refused atomic.Pointer[refusal] // that was logged last; nil if the file was not refused
}

// refusal is why a state of the file is not used.
type refusal struct{ state, why string }

// isRefused reports whether a state of the file is the one that was refused last.
func (r *reloader) isRefused(state string) bool {
	last := r.refused.Load()
	return last != nil && last.state == state
}

// serve reads the file on every hangup, and when it has changed, until ctx ends.
func (r *reloader) serve(ctx context.Context, hangup <-chan os.Signal) {
	tick := time.NewTicker(reloadEvery)
	defer tick.Stop()
	for {
		select {
		case <-hangup:
			config, err := r.Load()
			again := err == nil && config.HasCommands() // what they print may have changed
			if err == nil && !again && config.Fingerprint == r.InUse.Load().Fingerprint {
				r.log.Info("job file read again; it has not changed")
			}
			r.refused.Store(nil)
			r.takeFile(ctx, config, err, again)
		case <-tick.C:
			if r.InUse.Load().Daemon.Reload == job.ReloadAuto {
				r.checkFile(ctx)
			}
		case <-ctx.Done():
			return
		}
	}
}

// checkFile uses the file if it is the same as at the last check.
func (r *reloader) checkFile(ctx context.Context) {
	config, err := r.InUse.Load(), error(nil)
	if !config.Unchanged() { // so that the demo, which plays 80,000 checks, is not mostly this
		config, err = r.Load()
	}
	state := stateOf(config, err)
	if state == r.seen {
		r.takeFile(ctx, config, err, false)
	}
	r.seen = state
}

// compareFile returns why the file that was read last is not used, and when the file will be read, if it differs from
// that and from the one in use.
func (r *reloader) compareFile() (refused, changed string) {
	if last := r.refused.Load(); last != nil {
		refused = last.why
	}
	used := r.InUse.Load()
	switch state := stateOf(r.Load()); {
	case state == used.Fingerprint || r.isRefused(state):
	case used.Daemon.Reload == job.ReloadAuto:
		changed = serve.ReadSoon
	default:
		changed = serve.ReadOnSignal
	}
	return refused, changed
}

// stateOf identifies the content of the file, including unreadable files.
func stateOf(config *job.Config, err error) string {
	if err != nil {
		return err.Error()
	}
	return config.Fingerprint
}

// takeFile applies a file that has changed and has no mistakes. With again it applies an unchanged one, too. Commands
// for secrets run only here.
func (r *reloader) takeFile(ctx context.Context, config *job.Config, err error, again bool) {
	state, used := stateOf(config, err), r.InUse.Load()
	if state == used.Fingerprint && !again {
		r.refused.Store(nil) // an edit was reverted
		r.Report(nil)
		return
	}
	if r.isRefused(state) {
		return
	}
	if err == nil {
		err = checkFixed(used, config)
	}
	if err == nil {
		config, err = config.RunCommands(ctx)
	}
	if err == nil {
		err = r.Check(ctx, config)
	}
	if ctx.Err() != nil {
		return
	}
	if err != nil {
		r.refused.Store(&refusal{state, WhyRefused(err)})
		r.logRefusal(err)
		r.Report(err)
		return
	}
	if err := r.Apply(ctx, config); err != nil {
		if ctx.Err() == nil {
			r.log.Error("job file not applied, the old one stays in use; will be read again", "err", err)
		}
		return
	}
	r.InUse.Store(config)
	r.logChanges(used, config)
	r.refused.Store(nil)
	r.Report(nil)
}

// logRefusal logs why the file is not used, a line for each of its mistakes.
func (r *reloader) logRefusal(err error) {
	mistakes, _ := errors.AsType[yamltree.Mistakes](err)
	if len(mistakes) == 0 {
		r.log.Error("job file refused, the old one stays in use", "err", err)
		return
	}
	r.log.Error("job file refused, the old one stays in use", "mistakes", len(mistakes))
	for _, m := range mistakes[:min(len(mistakes), maxMistakes)] {
		r.log.Error("mistake in the job file", "err", m.String())
	}
}

// WhyRefused returns the reason on one line; "" for nil.
func WhyRefused(err error) string {
	if mistakes, ok := errors.AsType[yamltree.Mistakes](err); ok {
		why := mistakes[0].String()
		if n := len(mistakes) - 1; n > 0 {
			why += fmt.Sprintf(" (and %d more)", n)
		}
		return why
	}
	if err == nil {
		return ""
	}
	return err.Error()
}

// logChanges logs the changed settings. The engine logs changed jobs.
func (r *reloader) logChanges(used, config *job.Config) {
	r.log.Info("job file reloaded", "jobs", len(config.Jobs), "changes", config.SettingsSince(used))
	if names := config.Changed(used, job.ChangeAtRestart); len(names) > 0 {
		r.log.Warn("changed settings take effect at a restart", "settings", strings.Join(names, ", "))
	}
	for _, w := range config.Warnings {
		if !slices.ContainsFunc(used.Warnings, func(old yamltree.Mistake) bool { return old.Message == w.Message }) {
			r.log.Warn("job file warning", "err", w.String())
		}
	}
}

// checkFixed refuses a file that needs a restart.
func checkFixed(used, config *job.Config) error {
	if names := config.Changed(used, job.ChangeRefused); len(names) > 0 {
		return fmt.Errorf("%s changed, which needs a restart of outlierd; change it back to use the rest of the file",
			strings.Join(names, " and "))
	}
	return nil
}
