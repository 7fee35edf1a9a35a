package serve

import (
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

// Order requests a run: POST /v1/runs.
type Order struct {
	job.Asked
	Version string         `json:"version"` // of the job in the command's file; see [job.Spec.Version]
	Trigger engine.Trigger `json:"trigger"` // manual, or after for a job that comes after another
	Due     time.Time      `json:"due,omitzero"`

	Continues  string `json:"continues,omitempty"` // the unfinished run to continue; "" for a new one. Without a job its record says the rest
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
	e := r.engine
	asked := engine.Order{Trigger: o.Trigger, Due: o.Due, Afresh: o.Afresh, UseReserve: o.UseReserve, Key: o.key}
	switch {
	case o.Rest != "":
		return asked, r.resolveRest(o, &asked)
	case o.Continues != "" && o.Job == "":
		return asked, r.resolveRecorded(o, &asked)
	}
	var err error
	asked.Spec, err = e.Config.Asked(o.Asked)
	if err != nil || asked.Spec == nil || o.key == (runs.Key{}) && asked.Spec.Version() != o.Version {
		return asked, errors.Join(r.jobDiffers(o, asked.Spec), err)
	}
	return asked, r.addUnfinished(o, &asked)
}

// addUnfinished adds the run that an order continues, if it has not ended since the command read the state.
func (r resolver) addUnfinished(o *Order, asked *engine.Order) (err error) {
	if asked.Spec.Budget.MaxCredits = o.MaxCredits; o.Continues == "" {
		return nil
	}
	asked.Old, err = r.engine.Facts().Resumed(asked.Spec, o.Continues, asked.Due)
	if err == nil && asked.Old == nil {
		err = requestMistake("run %s has ended meanwhile; nothing was started: repeat the command", o.Continues)
	}
	return err
}

// resolveRecorded resolves an order that continues a run by its id alone: its record says the rest.
func (r resolver) resolveRecorded(o *Order, asked *engine.Order) error {
	row, err := readRun(r.engine, o.Continues)
	if err != nil {
		return err
	}
	if asked.Spec, err = facts.ResumedSpec(r.engine.Config, row); err != nil {
		return err
	}
	if asked.Spec == nil {
		return r.errJobMissing(row)
	}
	return r.addUnfinished(o, asked)
}

// errJobMissing returns the error for a run whose job the daemon's file does not have.
func (r resolver) errJobMissing(row *runs.Run) error {
	return fmt.Errorf("%w: %s has read %s, which has no job %s", ErrOtherJobs, r.about.Name(), r.about.Config, row.Job)
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

// resolveRest resolves an order for the rest of a run.
func (r resolver) resolveRest(o *Order, asked *engine.Order) error {
	row, err := readRun(r.engine, o.Rest)
	if err != nil {
		return err
	}
	if asked.Spec = facts.RestSpec(r.engine.Config, row); asked.Spec == nil {
		return r.errJobMissing(row)
	}
	return r.addUnfinished(o, asked)
}

func readRun(e *engine.Engine, id string) (*runs.Run, error) {
	row, err := e.Store.Runs.Get(id)
	if err == nil && row == nil {
		err = Refuse(http.StatusNotFound, "there is no run %s", id)
	}
	return row, err
}
