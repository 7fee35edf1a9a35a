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

	causes []error // one per kind
}

func (f *Failure) Error() string { return f.Message }

func (f *Failure) Unwrap() []error { return f.causes }

// kind is a kind of error that commands distinguish; its detail is "" for most.
type kind struct {
	name   string
	detail func(error) (detail string, is bool)
	decode func(detail string) error
}

var kinds = []kind{
	{"service", func(err error) (string, bool) {
		e, is := errors.AsType[*outlier.Error](err)
		if !is {
			return "", false
		}
		return string(e.Kind), true
	}, func(detail string) error { return &outlier.Error{Kind: outlier.Kind(detail)} }},
	newKind("long_wait", &pace.LongWaitError{}),
	newKind("low_space", &store.LowSpaceError{}),
	newKind("state_moved", &store.MovedError{}),
	newKind("sink_ahead", &load.AheadError{}),
	newKind("sinks_down", &load.SinksDownError{}),
	newKind("unkept", &outlier.UnkeptError{}),
	newKind("cancelled", &engine.CancelledError{}),
	plainKind("stopped", ErrStopped),
	plainKind("other_jobs", ErrOtherJobs),
	newKind("key_used", &runs.KeyError{}),
	refusedKind("bad_request", http.StatusBadRequest),
	refusedKind("unauthorized", http.StatusUnauthorized),
	refusedKind("forbidden", http.StatusForbidden),
	refusedKind("not_found", http.StatusNotFound),
	refusedKind("conflict", http.StatusConflict),
	refusedKind("too_large", http.StatusRequestEntityTooLarge),
	refusedKind("too_many_requests", http.StatusTooManyRequests),
	refusedKind("unavailable", http.StatusServiceUnavailable),
}

// newKind returns the kind of errors of one type.
func newKind[E error](name string, one E) kind {
	return kind{name, func(err error) (string, bool) {
		_, is := errors.AsType[E](err)
		return "", is
	}, func(string) error { return one }}
}

// plainKind returns the kind of one error.
func plainKind(name string, one error) kind {
	return kind{name, func(err error) (string, bool) { return "", errors.Is(err, one) }, func(string) error { return one }}
}

// refusedKind returns the kind of a [RefusedError] with a status.
func refusedKind(name string, status int) kind {
	return kind{name, func(err error) (string, bool) {
		refused, is := errors.AsType[*RefusedError](err)
		return "", is && refused.Status == status
	}, func(string) error { return Refuse(status, "%s", name) }}
}

// failureOf encodes an error; nil for nil.
func failureOf(err error) *Failure {
	if err == nil {
		return nil
	}
	f := &Failure{Message: err.Error()}
	for _, k := range kinds {
		if detail, is := k.detail(err); is {
			f.Kinds = append(f.Kinds, strings.TrimSuffix(k.name+":"+detail, ":"))
		}
	}
	return f
}

// decodeFailure decodes an error. It wraps the errors that its kinds stand for.
func decodeFailure(f *Failure) error {
	if f == nil {
		return nil
	}
	for _, text := range f.Kinds {
		name, detail, _ := strings.Cut(text, ":")
		for _, k := range kinds {
			if k.name == name {
				f.causes = append(f.causes, k.decode(detail))
			}
		}
	}
	return f
}
