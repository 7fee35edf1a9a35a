package serve

import (
	"time"

	"outlierd/outlier"
	"outlierd/sync/engine"
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

// Event is one line of the answer to an order. It has the run, and one of the other fields.
type Event struct {
	Run      string    `json:"run"`
	Joined   bool      `json:"joined,omitempty"` // in the first event: the run was already in progress
	Progress *Progress `json:"progress,omitempty"`
	Ended    *Ended    `json:"ended,omitempty"` // the last event
}

// Ended says how a run ended, or why there is no reason to wait any longer, for example because a
// scheduled run will be continued after an outage. The run's record is in the state.
type Ended struct {
	Status runs.Status `json:"status,omitempty"` // "" if the run is not recorded
	Why    string      `json:"why,omitempty"`    // the reason for the status
	Error  *Failure    `json:"error,omitempty"`
}

// Progress is [engine.Progress] in an answer, with what the JSON of its searches leaves out.
type Progress struct {
	engine.Progress
	Steps []step `json:"steps,omitempty"` // of the searches, in order
}

type step struct {
	Op   outlier.Operation `json:"op"`
	Next int               `json:"next"`
}

func newProgress(p engine.Progress) *Progress {
	all := &Progress{Progress: p}
	for i := range p.Searches {
		all.Steps = append(all.Steps, step{p.Searches[i].Query.Op(), p.Searches[i].Next})
	}
	return all
}

// decode returns the progress as the daemon's engine had it.
func (p *Progress) decode() engine.Progress {
	for i := range min(len(p.Searches), len(p.Steps)) {
		p.Searches[i].Query, p.Searches[i].Next = outlier.UncheckedQuery(p.Steps[i].Op, ""), p.Steps[i].Next
	}
	return p.Progress
}
