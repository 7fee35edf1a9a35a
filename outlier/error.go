package outlier

import (
	"cmp"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"time"
	"unicode"

	"outlierd/internal/excerpt"
)

// Kind classifies an [Error] for the code that handles it.
type Kind string

// The four error shapes of the interface, Errors, distinguished by body and status, and the cases without
// such an answer.
const (
	Invalid      Kind = "invalid"      // 400, or validation shape: a parameter breaks a rule; Fields may name it
	Unauthorized Kind = "unauthorized" // 401 or 403 of the service itself: the key is refused
	NoCredits    Kind = "no_credits"   // 402: the account has too few credits
	NotFound     Kind = "not_found"    // 404 with an error body: the entity does not exist
	Limited      Kind = "limited"      // rate-limit shape, or status 429 with any body
	Failed       Kind = "failed"       // any other documented error body
	Unsent       Kind = "unsent"       // provably not sent: DNS, dial, TLS, proxy
	Lost         Kind = "lost"         // sent, but no complete answer: time-out, reset, truncated body
	Foreign      Kind = "foreign"      // an answer of another server: a gateway's page, a redirect
	Malformed    Kind = "malformed"    // a complete 2xx answer that is not the expected JSON
)

// Error is any failure of a call.
type Error struct {
	Kind    Kind
	Op      Operation
	Entity  string
	Status  int          // HTTP status, 0 if none arrived
	Message string       // the service's message, or ours if it has none
	Fields  []FieldError // of Invalid: the invalid parameters, if the service names them
	Rate    *Rate        // of Limited: what the body says about the limit; nil for nothing
	Cause   error        // the transport's error, if there was one
}

// FieldError is one element of the validation shape.
type FieldError struct {
	Path    string // the parameter, with parts joined by "."; "" if it is about several
	Code    string
	Message string
}

// Rate is what an answer says about the rate limit. Missing numbers are negative, and a missing Reset is
// zero: the interface guarantees none of them.
type Rate struct {
	Limit     int
	Current   int // requests counted in the window; may exceed Limit
	Remaining int
	Reset     time.Time // when the window ends, by the service's clock
}

// Error returns the request, the status and the cause: "details dQw4w9WgXcQ: HTTP 404: not found". It
// shortens text of the service and removes control characters.
func (e *Error) Error() string {
	var b strings.Builder
	b.WriteString(strings.TrimSpace(string(e.Op) + " " + e.Entity))
	if e.Status != 0 {
		fmt.Fprintf(&b, ": HTTP %d", e.Status)
	}
	b.WriteString(": " + cmp.Or(e.details(), strings.ReplaceAll(string(e.Kind), "_", " ")))
	if e.Cause != nil {
		b.WriteString(": " + cleanLine(e.Cause.Error())) // nested JSON causes nested messages
	}
	return b.String()
}

// details returns the message and the invalid parameters.
func (e *Error) details() string {
	var parts []string
	if e.Message != "" {
		parts = append(parts, cleanLine(e.Message))
	}
	for _, f := range e.Fields {
		parts = append(parts, strings.TrimSpace(cleanLine(f.Path)+" "+cmp.Or(cleanLine(f.Message), cleanLine(f.Code))))
	}
	return strings.Join(parts, "; ")
}

// Unwrap returns the transport's error.
func (e *Error) Unwrap() error { return e.Cause }

// LogValue implements [slog.LogValuer].
func (e *Error) LogValue() slog.Value {
	attrs := []slog.Attr{slog.String("kind", string(e.Kind)), slog.String("op", string(e.Op))}
	if e.Entity != "" {
		attrs = append(attrs, slog.String("entity", e.Entity))
	}
	if e.Status != 0 {
		attrs = append(attrs, slog.Int("status", e.Status))
	}
	if d := e.details(); d != "" {
		attrs = append(attrs, slog.String("message", d))
	}
	if e.Cause != nil {
		attrs = append(attrs, slog.String("cause", e.Cause.Error()))
	}
	return slog.GroupValue(attrs...)
}

// redactKey removes the key from all text from outside: a service may quote a key that it refuses.
func (e *Error) redactKey(k Key) {
	e.Message = k.Redact(e.Message)
	for i := range e.Fields {
		f := &e.Fields[i]
		f.Path, f.Code, f.Message = k.Redact(f.Path), k.Redact(f.Code), k.Redact(f.Message)
	}
	if e.Cause == nil {
		return
	}
	if text := e.Cause.Error(); k.Redact(text) != text {
		e.Cause = errors.New(k.Redact(text))
	}
}

// UnkeptError says that a call was made but [Attempt.Settle] could not record the result. Whatever the
// service answered, the answer is not stored.
type UnkeptError struct {
	Request *Request
	Outcome Outcome // the outcome that was to be recorded
	Cause   error
}

func (e *UnkeptError) Error() string {
	return fmt.Sprintf("%s: settle as %s: %v", e.Request.name(), e.Outcome, e.Cause)
}

// Unwrap returns the error of Settle.
func (e *UnkeptError) Unwrap() error { return e.Cause }

// cleanLine makes untrusted text safe for one line of a terminal or a log: at most 300 characters, without
// control characters and invisible ones.
func cleanLine(s string) string {
	return strings.TrimSpace(strings.Map(func(r rune) rune {
		if unicode.IsGraphic(r) {
			return r
		}
		return ' '
	}, excerpt.Runes(s, 300)))
}
