package outlier

import (
	"cmp"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/go-faster/jx"
)

// readError reads the answer to a request that did not succeed. The interface, Errors, shows four shapes
// of the body and no HTTP statuses, so both decide the kind: the statuses 402 and 429 take precedence
// over any body, and a shape over any other status. A 401 and a 403 are clear only with a shape: gateways
// and firewalls send them too, and then a new key does not help. Every field of a body may be absent.
//
// It also reports whether body has one of the documented shapes (an object whose error is an object with
// a message, errors or a rate limit), and whether the service itself wrote it, which proves that it
// refused the request.
//
// Gateways send {"error":{"message":…}} too, even if the service behind them has done and charged the
// work: only the complete shape counts, which includes its status, with any value. Refusals for the rate
// limit are known to lack the status.
func readError(op Operation, status int, header http.Header, body []byte) (e *Error, shaped, own bool) {
	e = &Error{Op: op, Status: status}
	shaped, whole := e.readBody(body, readDate(header))
	limited := status == http.StatusTooManyRequests || e.Rate != nil && status >= 400 && status < 500
	own = shaped && (whole || limited)
	e.Kind = e.kindOf(shaped, own)
	if e.Message == "" && len(e.Fields) == 0 {
		e.Message = e.ownWords(own, header)
	}
	return e, shaped, own
}

func (e *Error) kindOf(shaped, own bool) Kind {
	switch {
	case own && e.Rate != nil, e.Status == http.StatusTooManyRequests:
		return Limited
	case own && (e.Status == http.StatusUnauthorized || e.Status == http.StatusForbidden):
		return Unauthorized
	case e.Status == http.StatusPaymentRequired:
		return NoCredits
	case own && len(e.Fields) > 0, shaped && e.Status == http.StatusBadRequest:
		return Invalid // the same request would only be refused again
	case own && e.Status == http.StatusNotFound:
		return NotFound
	case own:
		return Failed
	}
	return Foreign
}

// ownWords returns a message for an answer that has none.
func (e *Error) ownWords(own bool, header http.Header) string {
	phrase := strings.ToLower(http.StatusText(e.Status))
	if own || e.Kind != Foreign {
		return phrase
	}
	return strings.TrimPrefix(fmt.Sprintf("%s, not an answer of the service (%s)", phrase, mediaType(header)), ", ")
}

// mediaType returns the declared type of an answer.
func mediaType(header http.Header) string {
	kind, _, _ := strings.Cut(header.Get("Content-Type"), ";")
	if kind = cleanLine(kind); kind == "" {
		return "of no declared type"
	}
	return kind
}

// readBody fills e from an error body. It reports whether the error has a documented shape, and whether
// it is complete, with its status. A body that is not complete JSON has no shape.
func (e *Error) readBody(body value, now time.Time) (shaped, whole bool) {
	if !jx.Valid(body) {
		return false, false
	}
	of := body.at("error")
	message, fields, rate := of.at("message"), of.at("errors"), of.at("rateLimit")
	e.Message = cmp.Or(message.text(), of.text(), body.at("message").text())
	for _, f := range fields.items() {
		e.Fields = append(e.Fields, FieldError{readPath(f.at("path")), f.at("code").text(), f.at("message").text()})
	}
	if rate.kind() == jx.Object {
		e.Rate = &Rate{int(rate.at("limit").whole()), int(rate.at("current").whole()), int(rate.at("remaining").whole()),
			readInstant(rate.at("resetTime").text(), now)}
	}
	shaped = message.kind() == jx.String || fields.kind() == jx.Array || e.Rate != nil
	return shaped, shaped && body.at("status").kind() == jx.String
}

// readPath joins the parts of a path, or returns a path that is one text.
func readPath(path value) string {
	var parts []string
	for _, part := range path.items() {
		parts = append(parts, part.text())
	}
	return cmp.Or(strings.Join(parts, "."), path.text())
}

// readInstant parses a reset time: a date-time as in the interface, or a number, distinguished by size as
// seconds from now, Unix seconds or Unix milliseconds. now is the Date of the same answer. It returns the
// zero time for other texts. The pacer decides whether a time is plausible.
func readInstant(s string, now time.Time) time.Time {
	if t, err := time.Parse(time.RFC3339, s); err == nil {
		return t.UTC()
	}
	n := parseWhole(s)
	switch {
	case n < 0, n >= 253402300800e3: // the year 10000: other programs could not read it
		return time.Time{}
	case n >= 1e11:
		return time.UnixMilli(n).UTC()
	case n >= 5e8:
		return time.Unix(n, 0).UTC()
	case now.IsZero():
		return time.Time{}
	}
	return now.Add(time.Duration(n) * time.Second)
}
