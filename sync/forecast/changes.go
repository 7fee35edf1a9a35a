package forecast

import (
	"errors"
	"fmt"
	"strings"

	"outlierd/sync/job"
	"outlierd/sync/plan"
	"outlierd/sync/runs"
)

// addChanges adds how the settings of the next run differ from those of the last one that followed the file, and which
// searches start from the beginning, because they have no cursor.
func (c *calculation) addChanges(f *Job, spec *job.Spec, p *plan.Plan, h History) error {
	newest, err := c.Store.Runs.Last(runs.Filter{Job: spec.Name})
	moves, failed := c.movesRecords(spec)
	switch {
	case err != nil || failed != nil:
		return errors.Join(err, failed)
	case moves:
		f.Changes = []string{fmt.Sprintf("the next 'outlierd run' or 'up' renames %s: its cursors, unfinished runs and "+
			"spending come along then, and are left out here", spec.Was)}
		return nil
	case newest == nil && len(h) == 0:
		f.Changes = []string{"it has never run"}
		return nil
	case f.Continues != "":
		if !p.Stored.Overridden && newest.Request != spec.Request {
			f.Changes = []string{"the file has changed since this run started; " +
				"its changes apply from the next run on"}
		}
		return nil
	}
	last := h.planned()
	if last == nil {
		return nil
	}
	if last.Request != spec.Request {
		f.Changes = changedSettings(last.Plan, &p.Stored)
	}
	if p.Assumed { // the searches are not known yet
		return nil
	}
	var begin []string
	for i := range p.Steps {
		step := &p.Steps[i]
		dependsOnPast := spec.SinceLastSuccess() || spec.SeedsFresh > 0 && len(step.Seeds) > 0
		if step.Stop != "" || !dependsOnPast {
			continue
		}
		mark, err := c.Store.Watermarks.At(spec.Name, step.Watermark)
		if err != nil {
			return err
		}
		if mark.IsZero() {
			_, credits := p.LeftOf(i, f.whole)
			begin = append(begin, fmt.Sprintf("%s starts from the beginning, at most %d credits", describeStep(step), credits))
		}
	}
	if more := len(begin) - maxBeginnings; more > 0 {
		begin = append(begin[:maxBeginnings], fmt.Sprintf("and %d more start from the beginning", more))
	}
	f.Changes = append(f.Changes, begin...)
	return nil
}

// movesRecords reports whether a job has cursors or unfinished runs under its former name, which only a command that
// changes the state moves to its name.
func (c *calculation) movesRecords(spec *job.Spec) (bool, error) {
	if spec.Was == "" {
		return false, nil
	}
	open, err := c.Store.Runs.Unfinished(spec.Was)
	marks, failed := c.Store.Watermarks.List(spec.Was)
	return len(open)+len(marks) > 0, errors.Join(err, failed)
}

// maxBeginnings limits the number of searches that are named: a list may have thousands of new values.
const maxBeginnings = 8

// changedSettings lists changes of the job in the words of the file. After a change of a filter the searches
// keep their cursors.
func changedSettings(then, now *plan.Stored) []string {
	changes := job.Differences(then.Settings, now.Settings)
	for i, change := range changes {
		name, _, _ := strings.Cut(strings.TrimPrefix(change, "read."), " ")
		if strings.HasPrefix(name, "where.") && name != "where.published_at" {
			changes[i] += "; 'cursor reset' searches earlier dates again"
		}
	}
	if len(changes) == 0 {
		return []string{job.OnlyValuesChanged}
	}
	return changes
}

func describeStep(step *plan.Step) string {
	if step.Item != "" {
		return fmt.Sprintf("%s for %q", step.Title(), step.Item)
	}
	return step.Title()
}
