package serve

import (
	"errors"
	"fmt"
	"net/http"
	"strings"

	"outlierd/outlier"
	"outlierd/outlier/pace"
	"outlierd/sync/engine"
	"outlierd/sync/load"
	"outlierd/sync/runs"
	"outlierd/sync/store"
)

var (
	// ErrStopped is the error of a run that the daemon did not finish because it was asked to stop.
	ErrStopped = errors.New("the daemon is stopping")

	// ErrOtherJobs is the error of an order for a job that is missing or different in the daemon's
	// job file.
	ErrOtherJobs = errors.New("the daemon uses a different job file")
)

// RefusedError is why a request is malformed or cannot be served. Its HTTP status decides its kind.
type RefusedError struct {
	Status int
	Err    error
}

func (e *RefusedError) Error() string { return e.Err.Error() }

func (e *RefusedError) Unwrap() error { return e.Err }

// Refuse returns a [RefusedError].
func Refuse(status int, format string, args ...any) error {
	return &RefusedError{status, fmt.Errorf(format, args...)}
}

// requestMistake returns an error of the request itself.
func requestMistake(format string, args ...any) error {
	return Refuse(http.StatusBadRequest, format, args...)
}

// Failure is an error in an answer to a command. Its kinds have what determines exit codes and remedies,
// so that commands handle it like an error of their own.
type Failure struct {
	Message string   `json:"message"`
	Kinds   []string `json:"kinds,omitempty"` // such as "long_wait" or "service:unauthorized"

	causes []error
}

func (f *Failure) Error() string { return f.Message }

func (f *Failure) Unwrap() []error { return f.causes }

// A kind is an error that commands distinguish.
type kind struct {
	name  string
	means error
	is    func(error) bool
}

var kinds = []kind{
	newKind("long_wait", &pace.LongWaitError{}),
	newKind("low_space", &store.LowSpaceError{}),
	newKind("state_moved", &store.MovedError{}),
	newKind("sink_ahead", &load.AheadError{}),
	newKind("sinks_down", &load.SinksDownError{}),
	newKind("unkept", &outlier.UnkeptError{}),
	newKind("cancelled", &engine.CancelledError{}),
	newKind("key_used", &runs.KeyError{}),
	{"stopped", ErrStopped, func(err error) bool { return errors.Is(err, ErrStopped) }},
	{"other_jobs", ErrOtherJobs, func(err error) bool { return errors.Is(err, ErrOtherJobs) }},
}

// newKind returns the kind of errors of one type.
func newKind[E error](name string, one E) kind {
	return kind{name, one, func(err error) bool {
		_, is := errors.AsType[E](err)
		return is
	}}
}

// refusals are the kinds of a [RefusedError] by its status. They are for other programs; a command prints the message.
var refusals = map[int]string{
	http.StatusBadRequest: "bad_request", http.StatusUnauthorized: "unauthorized", http.StatusForbidden: "forbidden",
	http.StatusNotFound: "not_found", http.StatusConflict: "conflict", http.StatusRequestEntityTooLarge: "too_large",
	http.StatusTooManyRequests: "too_many_requests", http.StatusServiceUnavailable: "unavailable",
}

// ofService is the prefix of the kind of an [outlier.Error].
const ofService = "service:"

// failureOf encodes an error; nil for nil.
func failureOf(err error) *Failure {
	if err == nil {
		return nil
	}
	f := &Failure{Message: err.Error()}
	if e, is := errors.AsType[*outlier.Error](err); is {
		f.Kinds = append(f.Kinds, ofService+string(e.Kind))
	}
	for _, k := range kinds {
		if k.is(err) {
			f.Kinds = append(f.Kinds, k.name)
		}
	}
	if refused, is := errors.AsType[*RefusedError](err); is {
		f.Kinds = append(f.Kinds, refusals[refused.Status])
	}
	return f
}

// decodeFailure decodes an error. It wraps the errors that its kinds stand for.
func decodeFailure(f *Failure) error {
	if f == nil {
		return nil
	}
	for _, name := range f.Kinds {
		if detail, is := strings.CutPrefix(name, ofService); is {
			f.causes = append(f.causes, &outlier.Error{Kind: outlier.Kind(detail)})
		}
		for _, k := range kinds {
			if k.name == name {
				f.causes = append(f.causes, k.means)
			}
		}
	}
	return f
}
