package serve

import (
	"cmp"
	"errors"
	"fmt"
	"net/http"
	"time"

	"outlierd/outlier"
	"outlierd/sync/engine"
	"outlierd/sync/facts"
	"outlierd/sync/job"
	"outlierd/sync/runs"
)

// Order requests a run: POST /v1/runs. Without a job the record of the run that it continues, or whose rest it buys,
// says what to do.
type Order struct {
	job.Asked
	Version string         `json:"version"` // of the job in the command's file; see [job.Spec.Version]
	Trigger engine.Trigger `json:"trigger"` // manual, or after for a job that comes after another
	Due     time.Time      `json:"due,omitzero"`

	Continues  string `json:"continues,omitempty"` // the unfinished run to continue
	Rest       string `json:"rest,omitempty"`      // the run whose rest to buy
	Afresh     bool   `json:"afresh,omitempty"`    // do not continue an unfinished run
	UseReserve bool   `json:"use_reserve,omitempty"`

	MaxCredits *outlier.Credits `json:"max_credits,omitempty"` // cap of the run, beside that of its job

	key runs.Key // of a client that has not read the job file: it takes the job as it is
}

// Event is one of the two lines of the answer to an order: the run is recorded, and it has ended.
type Event struct {
	Run    string `json:"run"`
	Joined bool   `json:"joined,omitempty"` // the run was already in progress
	Ended  *Ended `json:"ended,omitempty"`  // in the second line
}

// Ended says how a run ended, or why there is no reason to wait any longer, for example because a
// scheduled run will be continued after an outage. The run's record is in the state.
type Ended struct {
	Status runs.Status `json:"status,omitempty"` // "" if the run is not recorded
	Why    string      `json:"why,omitempty"`    // the reason for the status
	Error  *Failure    `json:"error,omitempty"`
}

// A resolver says what an order means to an engine.
type resolver struct {
	engine *engine.Engine
	about  *About
}

// resolveOrder translates an order for the engine. It reads the engine's state, so it must be called between
// two of the engine's calls.
func (r resolver) resolveOrder(o *Order) (engine.Order, error) {
	asked := engine.Order{Trigger: o.Trigger, Due: o.Due, Afresh: o.Afresh, UseReserve: o.UseReserve, Key: o.key}
	spec, err := r.resolveSpec(o)
	if err != nil {
		return asked, err
	}
	if asked.Spec, spec.Budget.MaxCredits = spec, o.MaxCredits; o.Continues == "" {
		return asked, nil
	}
	asked.Old, err = r.engine.Facts().Resumed(spec, o.Continues, o.Due)
	if err == nil && asked.Old == nil {
		err = requestMistake("run %s has ended meanwhile; nothing was started: repeat the command", o.Continues)
	}
	return asked, err
}

// resolveSpec returns the job of an order.
func (r resolver) resolveSpec(o *Order) (*job.Spec, error) {
	if o.Job != "" || o.Once != nil {
		spec, err := r.engine.Config.Asked(o.Asked)
		if err != nil || spec == nil || o.key == (runs.Key{}) && spec.Version() != o.Version {
			err = errors.Join(r.jobDiffers(o, spec), err)
		}
		return spec, err
	}
	row, err := readRun(r.engine, cmp.Or(o.Rest, o.Continues))
	if err != nil {
		return nil, err
	}
	spec := facts.RestSpec(r.engine.Config, row)
	if o.Rest == "" {
		spec, err = facts.ResumedSpec(r.engine.Config, row)
	}
	if err == nil && spec == nil {
		err = fmt.Errorf("%w: %s has read %s, which has no job %s", ErrOtherJobs, r.about.Name(), r.about.Config, row.Job)
	}
	return spec, err
}

// jobDiffers returns the error for a job that differs from the one that the command has read.
func (r resolver) jobDiffers(o *Order, spec *job.Spec) error {
	what := "with which the request is different"
	switch {
	case spec == nil:
		what = fmt.Sprintf("which has no job %s", o.Job)
	case o.Job != "":
		what = fmt.Sprintf("in which job %s is different", o.Job)
	}
	return fmt.Errorf("%w: %s has read %s, %s; nothing was spent", ErrOtherJobs, r.about.Name(), r.about.Config, what)
}

func readRun(e *engine.Engine, id string) (*runs.Run, error) {
	row, err := e.Store.Runs.Get(id)
	if err == nil && row == nil {
		err = Refuse(http.StatusNotFound, "there is no run %s", id)
	}
	return row, err
}
