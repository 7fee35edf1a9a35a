package forecast

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"outlierd/outlier"
	"outlierd/sync/job"
	"outlierd/sync/plan"
	"outlierd/sync/runs"
)

// addChanges adds how the next run differs from the last one that followed the file, and which
// searches start from the beginning. Dates change with every run and do not count; another window
// does.
func (c *calculation) addChanges(f *Job, spec *job.Spec, p *plan.Plan, h History) error {
	rows, err := c.Store.Runs.List(spec.Name, 1)
	switch {
	case err != nil:
		return err
	case len(rows) == 0:
		f.Changes = []string{"it has never run"}
		return nil
	case f.Continues != "":
		if !p.Stored.Overridden && rows[0].Request != spec.Request {
			f.Changes = []string{"the file has changed since this run started; " +
				"its changes apply from the next run on"}
		}
		return nil
	}
	last := h.planned()
	if last == nil {
		return nil
	}
	if p.Assumed { // the searches themselves are not known yet
		if last.Request != spec.Request {
			f.Changes = changedSettings(last.Plan, &p.Stored)
		}
		return nil
	}
	both := comparison{known: c.Store.Watermarks, spec: spec, same: last.Request == spec.Request, then: last, now: p, whole: f.whole}
	f.Changes, err = both.listChanges()
	return err
}

// A comparison compares the last run of a job with the next one.
type comparison struct {
	known *runs.Watermarks
	spec  *job.Spec
	same  bool // the job has not changed: its searches can differ only in their cursors
	then  *pastRun
	now   *plan.Plan
	whole outlier.Credits // the worst-case cost of a run
}

// listChanges lists changes of settings, then searches that start from the beginning, then removed searches.
func (c *comparison) listChanges() (changes []string, err error) {
	if !c.same {
		changes = changedSettings(c.then.Plan, &c.now.Stored)
	}
	before := map[string]*runs.Step{}
	for i := range c.then.steps {
		if step := &c.then.steps[i]; step.Scan == "" {
			before[identityOf(step)] = step
		}
	}
	steps := c.now.Steps
	for i := range steps {
		step := &steps[i]
		was := before[identityOf(step)]
		delete(before, identityOf(step))
		said, err := c.compareSearch(was, step)
		if err != nil {
			return nil, err
		}
		changes = append(changes, said...)
	}
	if c.same {
		return changes, nil
	}
	for _, key := range slices.Sorted(maps.Keys(before)) {
		changes = append(changes, describeStep(before[key])+" is no longer searched")
	}
	if len(changes) == 0 {
		changes = []string{job.OnlyValuesChanged}
	}
	return changes, nil
}

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
	return changes
}

// compareSearch returns the changes of one search; was is nil if the last run did not have it. The search
// is not necessarily new then: a manual run may have been about one search of many.
func (c *comparison) compareSearch(was, step *runs.Step) (changes []string, err error) {
	mark, err := c.known.At(c.spec.Name, step.Watermark)
	if err != nil {
		return nil, err
	}
	switch {
	case was == nil && mark.IsZero() && !c.same:
		asked, err := c.known.LastSearched(c.spec.Name, step.Watermark)
		if err != nil || !asked.IsZero() {
			return nil, err
		}
		return []string{describeStep(step) + " is new and starts from the beginning, " + c.priceOf(step.Ordinal)}, nil
	case was == nil:
	case mark.IsZero() && runs.Covered(was.Stop) && c.dependsOnPast(step):
		return []string{describeStep(step) + " has lost its cursor and starts from the beginning, " + c.priceOf(step.Ordinal)}, nil
	}
	return nil, nil
}

// dependsOnPast reports whether a search depends on what it has covered.
func (c *comparison) dependsOnPast(step *runs.Step) bool {
	return c.spec.SinceLastSuccess() || c.spec.SeedsFresh > 0 && len(step.Seeds) > 0
}

// priceOf returns the worst-case price of a search that starts from the beginning, even if the run's share
// of the month spreads it over several runs.
func (c *comparison) priceOf(i int) string {
	each, pages := c.now.WholeOf(i)
	all := min(outlier.Credits(pages)*each, c.whole)
	if pages == 1 {
		return fmt.Sprintf("at %d credits", all)
	}
	return fmt.Sprintf("at %d credits a page, %d in all", each, all)
}

func identityOf(step *runs.Step) string {
	return strings.Join([]string{string(step.Query.Op()), step.Watermark, step.Item}, "\x00")
}

func describeStep(step *runs.Step) string {
	if step.Item != "" {
		return fmt.Sprintf("%s for %q", step.Title(), step.Item)
	}
	return step.Title()
}
