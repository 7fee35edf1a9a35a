package serve

import (
	"errors"
	"fmt"
	"strings"

	"outlierd/outlier"
	"outlierd/outlier/pace"
	"outlierd/sync/engine"
	"outlierd/sync/load"
	"outlierd/sync/store"
)

var (
	// ErrStopped is the error of a run that the daemon did not finish because it was asked to stop.
	ErrStopped = errors.New("the daemon is stopping")

	// ErrBadRequest is the error of a request that is malformed or cannot be served.
	ErrBadRequest = errors.New("bad request")

	// ErrOtherJobs is the error of an order for a job that is missing or different in the daemon's
	// job file.
	ErrOtherJobs = errors.New("the daemon uses a different job file")
)

// mistakeError is an error of the request itself: an [ErrBadRequest] that reads like any other error.
type mistakeError struct{ error }

// Is implements the interface of [errors.Is].
func (mistakeError) Is(target error) bool { return target == ErrBadRequest }

func (e mistakeError) Unwrap() error { return e.error }

// requestMistake returns an error of the request itself.
func requestMistake(format string, args ...any) error {
	return mistakeError{fmt.Errorf(format, args...)}
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

// kind is a kind of error that commands distinguish.
type kind struct {
	name string
	of   func(error) (detail string, is bool)
	err  func(detail string) error
}

var kinds = []kind{
	typedKind("service", func(e *outlier.Error) string { return string(e.Kind) },
		func(d string) *outlier.Error { return &outlier.Error{Kind: outlier.Kind(d)} }),
	plainKind[*pace.LongWaitError]("long_wait", &pace.LongWaitError{}),
	plainKind[*store.LowSpaceError]("low_space", &store.LowSpaceError{}),
	plainKind[*store.MovedError]("state_moved", &store.MovedError{}),
	plainKind[*load.AheadError]("sink_ahead", &load.AheadError{}),
	plainKind[*load.SinksDownError]("sinks_down", &load.SinksDownError{}),
	plainKind[*outlier.UnkeptError]("unkept", &outlier.UnkeptError{}),
	plainKind[*engine.CancelledError]("cancelled", &engine.CancelledError{}),
	sentinelKind("stopped", ErrStopped),
	sentinelKind("bad_request", ErrBadRequest),
	sentinelKind("other_jobs", ErrOtherJobs),
}

// typedKind returns a kind for errors of one type with one relevant detail.
func typedKind[E error](name string, detail func(E) string, err func(string) E) kind {
	return kind{
		name: name,
		of: func(e error) (string, bool) {
			found, is := errors.AsType[E](e)
			if !is {
				return "", false
			}
			return detail(found), true
		},
		err: func(d string) error { return err(d) },
	}
}

// plainKind returns a kind for errors of one type without details.
func plainKind[E error](name string, any E) kind {
	return typedKind(name, func(E) string { return "" }, func(string) E { return any })
}

func sentinelKind(name string, err error) kind {
	return kind{name, func(e error) (string, bool) { return "", errors.Is(e, err) }, func(string) error { return err }}
}

// failureOf encodes an error; nil for nil.
func failureOf(err error) *Failure {
	if err == nil {
		return nil
	}
	f := &Failure{Message: err.Error()}
	for _, k := range kinds {
		if detail, is := k.of(err); is {
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
				f.causes = append(f.causes, k.err(detail))
			}
		}
	}
	return f
}
