package outlier

import "time"

// Tries are the attempts at a call that have failed and are made again, before the call as a whole has failed.
type Tries struct {
	Failures  int       `json:"failures,omitzero"`   // the service failed, or nothing proves what became of the attempt
	Refusals  int       `json:"refusals,omitzero"`   // for the rate limit, or a key that has changed
	NotBefore time.Time `json:"not_before,omitzero"` // when the next one may be made
}
