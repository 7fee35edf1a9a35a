package main

import (
	"context"
	"fmt"
	"slices"
	"time"

	"outlierd/sync/engine"
	"outlierd/sync/job"
	"outlierd/sync/state"
)

// restOf is the run that buys what the searches of another left. The job need not be named.
func restOf(ctx context.Context, p *program, names []string, id string) ([]errand, error) {
	row, err := p.Store.Run(id)
	if err != nil {
		return nil, err
	}
	if row == nil {
		return nil, usageError{fmt.Errorf("--rest %s: no such run is on record; the summary of a run and ops.runs have its id", id)}
	}
	if len(names) > 0 && names[0] != row.Job {
		return nil, usageError{fmt.Errorf("--rest %s: the run is one of job %s, not of %s", id, row.Job, names[0])}
	}
	spec := restSpec(p, row)
	if spec == nil {
		return nil, usageError{fmt.Errorf("--rest %s: %s has no job %q any more, whose caps hold for it", id, p.Config.Path, row.Job)}
	}
	rest, err := p.Rest(spec, row)
	if err != nil {
		return nil, err
	}
	if rest.Nothing() {
		if err := p.Publish(ctx); err != nil { // what bought it may have been killed at its very end
			return nil, err
		}
		text := fmt.Sprintf("nothing is left of run %s", id)
		if rest.After != id {
			text += fmt.Sprintf(": run %s has bought the rest", rest.After)
		}
		return nil, idle(text)
	}
	return []errand{{Appointment: engine.Appointment{Spec: spec, Trigger: engine.Manual}, rest: rest}}, nil
}

// restSpec is the job of a run that buys the rest of another: that of the file, for its
// caps, or for what was asked for once one without caps of its own; nil if it is in no file.
func restSpec(p *program, row *state.Run) *job.Spec {
	spec := &job.Spec{Name: row.Job}
	if !isOnce(row.Job) {
		if spec = p.Config.Job(row.Job); spec == nil {
			return nil
		}
	}
	own := *spec
	own.Overridden, own.Flags = true, engine.RestFlags(row.ID)
	return &own
}

// agedAfter is the age from which on the service's results have probably another order.
const agedAfter = 24 * time.Hour

// beforeRest tells what the rest of a run costs at most.
func beforeRest(e *engine.Engine, spec *job.Spec, rest *engine.Rest) string {
	line := fmt.Sprintf("%s: the rest of the run of %s: %s", spec.Name,
		rest.Of.Started.In(e.Config.Timezone).Format("2006-01-02 15:04 MST"), costText(e, rest.Cost))
	if rest.Run != nil {
		line += "\n  continuing run " + rest.Run.ID
	}
	if age := time.Since(rest.Began()); !rest.Began().IsZero() && age > agedAfter {
		line += fmt.Sprintf("\n  page one was bought %d days ago: the order may have changed since, so that hits repeat or are missing",
			int(age.Hours()/24))
	}
	return line
}

// offerRest adds to what is told of a run that has ended the command that buys what its
// searches left.
func (o *options) offerRest(p *program, told *outcome) error {
	ended := []state.Status{state.OK, state.OKEmpty, state.Partial}
	if !slices.Contains(ended, told.row.Status) || !slices.ContainsFunc(told.ends, func(e engine.Ending) bool { return e.Leaves() }) {
		return nil
	}
	spec := restSpec(p, told.row)
	if spec == nil {
		return nil
	}
	rest, err := p.Rest(spec, told.row)
	if err != nil || rest.Nothing() {
		return err
	}
	told.rest = rest
	for i := range told.ends {
		if told.ends[i].Leaves() {
			name := told.row.Job + " "
			if isOnce(told.row.Job) {
				name = "" // which no person typed
			}
			told.ends[i].Rest = o.typed("run " + name + spec.Flags)
		}
	}
	return nil
}

// restLine is the command that buys what several searches left; one alone has it at its end.
func restLine(told outcome) []string {
	left := slices.DeleteFunc(slices.Clone(told.ends), func(e engine.Ending) bool { return e.Rest == "" })
	if len(left) < 2 {
		return nil
	}
	return []string{fmt.Sprintf("the rest of these %d searches costs %s: %s", len(left), count(told.rest.Credits, "credit"), left[0].Rest)}
}
