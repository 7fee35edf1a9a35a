package engine

import (
	"errors"
	"net/http"
	"time"

	"outlierd/outlier"
	"outlierd/outlier/pace"
	"outlierd/sync/ledger"
	"outlierd/sync/load"
	"outlierd/sync/runs"
	"outlierd/sync/store"
)

// # What a failure means
//
// An error means the same wherever it arrives: [judge] decides it, and nothing else looks at the type of an
// error. What is repeated, parked, ended or paused follows from the scope of the verdict. The cases are in
// the order of what matters most if several errors are joined.

// A scope is what an error concerns. A wider scope includes the narrower ones.
type scope int

const (
	ofNothing scope = iota
	ofCall          // this call; others may succeed
	ofStep          // this search; others of its run may go on
	ofRun           // the run; for a data call, the queue
	ofPages         // all that is bought, while data calls can be made
	ofAll           // everything, for a time
)

// A verdict is what an error means.
type verdict struct {
	scope  scope
	status runs.Status  // of a run that the error ends
	kind   outlier.Kind // of the service's error; "" for any other error

	// retryAt is set if nothing has failed: the call cannot leave before that time. With
	// the scope ofAll, that is later than the job file lets a person wait.
	retryAt time.Time

	// repeat says whether the call is worth another attempt, and what that counts as.
	repeat repeat
}

// A repeat is why another attempt is made.
type repeat int

const (
	never        repeat = iota
	afterFailure        // nothing proves what has become of the call, or the service has failed
	afterRefusal        // the service did not take the call, for its rate limit or the key
)

// outage reports whether the service is the problem, rather than the program, its files or the key. The calls
// of a run can be made later.
func (v verdict) outage() bool { return v.kind != "" && v.kind != outlier.Unauthorized }

// waits reports whether nothing has failed and the call cannot leave yet.
func (v verdict) waits() bool { return v.scope == ofCall && !v.retryAt.IsZero() }

// passes reports whether the error ends by itself or with another key: the service has sent it, or its rate limit
// has.
func (v verdict) passes() bool { return v.kind != "" || v.status == runs.PausedQuota }

// judge returns what an error means.
func judge(err error) verdict {
	wait, waits := errors.AsType[*waitError](err)
	long, isLong := errors.AsType[*pace.LongWaitError](err)
	service, isService := errors.AsType[*outlier.Error](err)
	switch {
	case err == nil:
		return verdict{}
	case waits:
		return verdict{scope: ofCall, status: runs.Failed, retryAt: wait.until}
	case isA[*UnsettledScanError](err):
		return verdict{scope: ofStep, status: runs.Failed}
	case isA[*CancelledError](err):
		return verdict{scope: ofRun, status: runs.Interrupted}
	case isLong:
		return verdict{scope: ofAll, status: runs.PausedQuota, retryAt: long.Until}
	case isA[*store.LowSpaceError](err), isA[*store.MovedError](err):
		return verdict{scope: ofAll, status: runs.Failed}
	case isA[*load.SinksDownError](err):
		return verdict{scope: ofPages, status: runs.Failed}
	}
	v := verdict{scope: ofRun, status: runs.Failed}
	if isService && !isA[*outlier.UnkeptError](err) && !isA[*NotServiceError](err) {
		v = judgeService(service)
	}
	if isA[*ledger.Exceeded](err) || isA[*RequestsError](err) || isA[*ClockError](err) || isA[*cappedError](err) {
		v.scope, v.status = ofStep, runs.PausedBudget
	}
	if isA[*QueuedError](err) && v.status != runs.PausedBudget {
		v.status = runs.Partial
	}
	return v
}

// judgeService returns what an error of the service, or of the way to it, means.
func judgeService(e *outlier.Error) verdict {
	v := verdict{scope: ofCall, status: runs.Failed, kind: e.Kind}
	switch e.Kind {
	case outlier.NoCredits:
		v.scope, v.status = ofStep, runs.PausedBudget
	case outlier.Unauthorized:
		v.scope, v.repeat = ofRun, afterRefusal // with a key that has changed meanwhile
	case outlier.Limited:
		v.scope, v.repeat = ofRun, afterRefusal
	case outlier.Unsent:
		v.scope, v.repeat = ofRun, afterFailure
	case outlier.Lost, outlier.Failed:
		v.repeat = afterFailure
	case outlier.Foreign:
		if !isForeignPage(e) {
			v.repeat = afterFailure
		}
	}
	return v
}

// isForeignPage reports whether something other than the service answers, without saying that it failed: a
// login page, a redirect, a firewall, or a server that does not know the path. A retry a
// second later would only be counted as spent again.
func isForeignPage(e *outlier.Error) bool {
	return e.Kind == outlier.Foreign && e.Status < 500 && e.Status != http.StatusRequestTimeout
}

// isBudget reports whether a cap, the credits or the clock keep something from being bought.
func isBudget(err error) bool { return judge(err).status == runs.PausedBudget }

func isA[E error](err error) bool {
	_, is := errors.AsType[E](err)
	return is
}
