package outlier

import (
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
func (e *Error) readBody(body []byte, now time.Time) (shaped, whole bool) {
	if !jx.Valid(body) {
		return false, false
	}
	labelled := false
	err := readObject(jx.DecodeBytes(body), func(d *jx.Decoder, key string) error {
		switch {
		case key == "error" && d.Next() == jx.Object:
			var err error
			shaped, err = e.readShape(d, now)
			return err
		case key == "error", key == "message" && e.Message == "":
			return readText(d, &e.Message)
		case key == "status":
			labelled = d.Next() == jx.String
		}
		return d.Skip()
	})
	shaped = err == nil && shaped
	return shaped, shaped && labelled
}

func (e *Error) readShape(d *jx.Decoder, now time.Time) (documented bool, err error) {
	err = readObject(d, func(d *jx.Decoder, key string) error {
		switch key {
		case "message":
			documented = documented || d.Next() == jx.String
			return readText(d, &e.Message)
		case "errors":
			documented = documented || d.Next() == jx.Array
			return e.readFields(d)
		case "rateLimit":
			documented = documented || d.Next() == jx.Object
			return e.readRate(d, now)
		}
		return d.Skip()
	})
	return documented, err
}

func (e *Error) readFields(d *jx.Decoder) error {
	return readArray(d, func(d *jx.Decoder) error {
		var f FieldError
		err := readObject(d, func(d *jx.Decoder, key string) error {
			switch key {
			case "code":
				return readText(d, &f.Code)
			case "message":
				return readText(d, &f.Message)
			case "path":
				return readPath(d, &f.Path)
			}
			return d.Skip()
		})
		e.Fields = append(e.Fields, f)
		return err
	})
}

// readPath joins the parts of a path, or returns a path that is one text.
func readPath(d *jx.Decoder, to *string) error {
	if d.Next() != jx.Array {
		return readText(d, to)
	}
	var parts []string
	err := d.Arr(func(d *jx.Decoder) error {
		var part string
		err := readText(d, &part)
		parts = append(parts, part)
		return err
	})
	*to = strings.Join(parts, ".")
	return err
}

func (e *Error) readRate(d *jx.Decoder, now time.Time) error {
	if d.Next() != jx.Object {
		return d.Skip()
	}
	limit, current, remaining := int64(-1), int64(-1), int64(-1)
	e.Rate = &Rate{}
	err := d.Obj(func(d *jx.Decoder, key string) error {
		switch key {
		case "limit":
			return readWhole(d, &limit)
		case "current":
			return readWhole(d, &current)
		case "remaining":
			return readWhole(d, &remaining)
		case "resetTime":
			var s string
			err := readText(d, &s)
			e.Rate.Reset = readInstant(s, now)
			return err
		}
		return d.Skip()
	})
	e.Rate.Limit, e.Rate.Current, e.Rate.Remaining = int(limit), int(current), int(remaining)
	return err
}

// readInstant parses a reset time: a date-time as in the interface, or a number, distinguished by size as
// seconds from now, Unix seconds or Unix milliseconds. now is the Date of the same answer. It returns the
// zero time for other texts. The pacer decides whether a time is plausible.
func readInstant(s string, now time.Time) time.Time {
	if t, err := time.Parse(time.RFC3339, s); err == nil {
		return t.UTC()
	}
	var n int64 = -1
	if readWhole(jx.DecodeStr(s), &n) != nil || n < 0 {
		return time.Time{}
	}
	switch {
	case n >= 253402300800e3: // the year 10000: other programs could not read it
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
