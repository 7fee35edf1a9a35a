package outlier

import (
	"cmp"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"time"
	"unicode"

	"outlierd/excerpt"
)

// Kind says what an [Error] means for the code that reacts to it.
type Kind string

// The four shapes of the interface, Errors, told apart by body and status, and
// the ways in which there is no such answer.
const (
	Invalid      Kind = "invalid"      // 400, or validation shape: a parameter breaks a rule; Fields may name it
	Unauthorized Kind = "unauthorized" // 401, or 403 of the service itself: the key is refused
	NoCredits    Kind = "no_credits"   // 402: the account has too few credits
	NotFound     Kind = "not_found"    // 404 with an error body: no such thing
	Limited      Kind = "limited"      // rate-limit shape, or status 429 whatever its body
	Failed       Kind = "failed"       // any other documented error body
	Unsent       Kind = "unsent"       // provably not sent: DNS, dial, TLS, proxy
	Lost         Kind = "lost"         // sent, and no complete answer: time-out, reset, cut body
	Foreign      Kind = "foreign"      // an answer that is not the service's: a gateway's page, a redirect
	Malformed    Kind = "malformed"    // a complete 2xx answer that is not the JSON expected
)

// Error is every way in which a call can go wrong, in one type.
type Error struct {
	Kind    Kind
	Op      Operation
	Entity  string
	Status  int          // HTTP status, 0 if none arrived
	Message string       // the service's own words, or ours if it said nothing
	Fields  []FieldError // Invalid: the parameters at fault, if the service names them
	Rate    *Rate        // Limited: what the body tells of the limit, if anything
	Cause   error        // the transport's error, if there was one
}

// FieldError is one element of the validation shape.
type FieldError struct {
	Path    string // the parameter, its parts joined by "."; "" if it is not a single one
	Code    string
	Message string
}

// Rate is what an answer says about the rate limit. A field that the answer does
// not carry is negative, Reset then zero (the interface does not promise any).
type Rate struct {
	Limit     int
	Current   int // requests counted in the window; may exceed Limit
	Remaining int
	Reset     time.Time // when the window ends, by the service's clock
}

// Error says what was asked, what came and why: "details dQw4w9WgXcQ: HTTP 404:
// not found". Text of the service is shortened and stripped of control characters.
func (e *Error) Error() string {
	var b strings.Builder
	b.WriteString(strings.TrimSpace(string(e.Op) + " " + e.Entity))
	if e.Status != 0 {
		fmt.Fprintf(&b, ": HTTP %d", e.Status)
	}
	b.WriteString(": " + cmp.Or(e.details(), strings.ReplaceAll(string(e.Kind), "_", " ")))
	if e.Cause != nil {
		b.WriteString(": " + clean(e.Cause.Error())) // nested JSON makes for nested messages
	}
	return b.String()
}

// details is the message, then each parameter at fault.
func (e *Error) details() string {
	var parts []string
	if e.Message != "" {
		parts = append(parts, clean(e.Message))
	}
	for _, f := range e.Fields {
		parts = append(parts, strings.TrimSpace(clean(f.Path)+" "+cmp.Or(clean(f.Message), clean(f.Code))))
	}
	return strings.Join(parts, "; ")
}

// Unwrap gives the transport's error.
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

// redact takes the key out of all that was said from outside: a service may
// quote the key that it refuses.
func (e *Error) redact(k Key) {
	e.Message = k.redact(e.Message)
	for i := range e.Fields {
		f := &e.Fields[i]
		f.Path, f.Code, f.Message = k.redact(f.Path), k.redact(f.Code), k.redact(f.Message)
	}
	if e.Cause == nil {
		return
	}
	if text := e.Cause.Error(); k.redact(text) != text {
		e.Cause = errors.New(k.redact(text))
	}
}

// UnkeptError says that a call was made and that [Attempt.Settle] could not write down
// what became of it. Whatever the service said, what was to be kept with the answer
// is not.
type UnkeptError struct {
	Request *Request
	Outcome Outcome // as it was to be booked
	Cause   error
}

func (e *UnkeptError) Error() string {
	return fmt.Sprintf("%s: settle as %s: %v", e.Request.name(), e.Outcome, e.Cause)
}

// Unwrap gives the error of Settle.
func (e *UnkeptError) Unwrap() error { return e.Cause }

// clean makes foreign text fit for one line of a terminal or a log: at most 300
// characters, none of which moves the cursor or is invisible.
func clean(s string) string {
	return strings.TrimSpace(strings.Map(func(r rune) rune {
		if unicode.IsGraphic(r) {
			return r
		}
		return ' '
	}, excerpt.Runes(s, 300)))
}
