package engine

import (
	"fmt"
	"maps"
	"net/url"
	"slices"
	"strings"

	"outlierd/sync/job"
	"outlierd/sync/state"
)

// changed says what the next run does otherwise than the last one, and what of it
// starts afresh. Windows move with every run and are no change.
func (e *Engine) changed(f *JobForecast, spec *job.Spec, steps []state.Step) error {
	runs, err := e.Store.Runs(spec.Name, 1)
	switch {
	case err != nil:
		return err
	case len(runs) == 0:
		f.Changes = []string{"it has never run"}
		return nil
	case runs[0].Config == spec.Hash:
		return nil
	case f.Continues != "":
		f.Changes = []string{"the file has changed since this run began; what it says now applies from the next one on"}
		return nil
	}
	old, err := e.Store.Steps(runs[0].ID)
	if err != nil {
		return err
	}
	f.Changes = e.compare(old, steps)
	return nil
}

// compare tells the steps of two runs apart: those that are there no more, those that
// are new, and of the others the filters that changed.
func (e *Engine) compare(old, steps []state.Step) (changes []string) {
	before := map[string]*state.Step{}
	for i := range old {
		if old[i].Scan == "" {
			before[identity(&old[i])] = &old[i]
		}
	}
	for i := range steps {
		step := &steps[i]
		was := before[identity(step)]
		delete(before, identity(step))
		if was == nil {
			changes = append(changes, fmt.Sprintf("%s is new and starts afresh, at %d credits a page", named(step), e.priceOf(step)))
			continue
		}
		for _, change := range filterChanges(was.Params, step.Params) {
			changes = append(changes, fmt.Sprintf("%s: %s; what it has covered stays covered", named(step), change))
		}
	}
	for _, key := range slices.Sorted(maps.Keys(before)) {
		changes = append(changes, named(before[key])+" is asked for no more")
	}
	return changes
}

func identity(step *state.Step) string {
	return strings.Join([]string{string(step.Op), step.Watermark, step.Item}, "\x00")
}

func named(step *state.Step) string {
	if step.Item != "" {
		return fmt.Sprintf("%s for %q", describe(step), step.Item)
	}
	return describe(step)
}

// filterChanges are the parameters that differ, but for the window and for what
// belongs to the identity of a search.
func filterChanges(was, is string) (changes []string) {
	old, _ := url.ParseQuery(was) // both were encoded by us
	now, _ := url.ParseQuery(is)
	names := slices.Sorted(maps.Keys(old))
	for name := range now {
		if !old.Has(name) {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	for _, name := range names {
		if slices.Contains([]string{"publishedAtFrom", "publishedAtTo", "query"}, name) || slices.Equal(old[name], now[name]) {
			continue
		}
		changes = append(changes, fmt.Sprintf("%s was %s and is %s", name, orNone(old[name]), orNone(now[name])))
	}
	return changes
}

func orNone(values []string) string {
	if len(values) == 0 {
		return "not set"
	}
	return strings.Join(values, ", ")
}
