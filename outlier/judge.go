package outlier

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"

	"github.com/go-faster/jx"
)

// judge decides what a body that arrived without an error of the transport means
// for the money, and what is wrong with it. It leaves the opened body in a.
//
// A failed request is refunded (interface, Errors, rule 3), but only one of the
// documented shapes proves that the service refused it, see readError; a gateway's
// page, for one, may stand before a service that has done and charged the work. A 429
// needs no shape: whichever server counts requests, it refuses before the work begins. And a
// body may be cut without any error: where its end is the end of the connection, only
// the JSON itself tells.
func judge(a *Answer) (Outcome, *Error) {
	if a.Status < 200 || a.Status >= 300 && a.Status < 400 {
		return Unknown, &Error{Kind: Foreign, Message: redirect(a.Header)}
	}
	body, err := a.JSON()
	if err == nil {
		a.opened = body
	}
	if a.Status >= 400 {
		e, _, own := readError(a.Request.op, a.Status, a.Header, body)
		a.Own = own && err == nil
		if a.Own || a.Status == http.StatusTooManyRequests {
			return Refunded, e
		}
		return Unknown, e
	}
	return judgeSuccess(a, body, err)
}

// judgeSuccess judges a body that came with a status of success. Err is what
// opening it gave.
func judgeSuccess(a *Answer, body []byte, err error) (Outcome, *Error) {
	failure := false
	if err == nil {
		failure, a.Own, err = validate(a.Request.op, body)
	}
	switch {
	case errors.Is(err, io.ErrUnexpectedEOF):
		return Unknown, &Error{
			Kind: Lost, Message: fmt.Sprintf("the answer ends after %d bytes, before its JSON does", len(a.Body)),
		}
	case err != nil && !likeJSON(a.Header, body):
		said := fmt.Sprintf("not an answer of the service (%s)", mediaType(a.Header))
		return Unknown, &Error{Kind: Foreign, Message: said}
	case err != nil:
		return Charged, &Error{Kind: Malformed, Cause: err}
	case failure && a.Own && a.Request.op == OpScan:
		// The record of a scan has a status of its own, and may say what the scan failed of.
	case failure:
		// The status claims success and the body failure. The documented error is one
		// under any status; less than that, or something of an answer beside it, proves
		// neither.
		if e, shaped, own := readError(a.Request.op, a.Status, a.Header, body); shaped {
			if a.Own = own && !a.Own; a.Own {
				return Refunded, e
			}
			return Unknown, e
		}
	}
	return Charged, nil
}

// likeJSON reports whether a body that is not valid JSON begins like JSON. One that does
// not is from another server: a login page of the network, or a gateway's error page.
func likeJSON(h http.Header, body []byte) bool {
	switch start := bytes.TrimLeft(body, " \t\r\n"); {
	case len(start) > 0 && start[0] == '<':
		return false
	case len(start) > 0 && (start[0] == '{' || start[0] == '['):
		return true
	}
	return strings.Contains(strings.ToLower(h.Get("Content-Type")), "json")
}

// marks name what the answers to an operation have at their top: by it the service's
// answer is known from what else comes with a status of success. Of trending formats
// the interface shows nothing.
var marks = map[Operation]struct {
	field string
	kind  jx.Type
}{
	OpSearch: {"hits", jx.Array}, OpRelated: {"hits", jx.Array},
	OpFindChannels: {"hits", jx.Array}, OpFindRelatedChannels: {"hits", jx.Array},
	OpStartScan: {"id", jx.String}, OpScan: {"id", jx.String},
	OpChannelVideos: {"item", jx.Object}, OpChannelShorts: {"item", jx.Object},
	OpDetails: {"items", jx.Array}, OpComments: {"items", jx.Array}, OpTranscript: {"items", jx.Array},
}

// validate accepts one whole JSON object (any value as trending formats) with nothing after
// it. Bytes in its texts that are not UTF-8 cost no answer: who reads it replaces them. It
// reports whether an object has an error, and whether it has the form of the service's own
// answers to op. A body that ends too early, which an empty
// one does too, gives io.ErrUnexpectedEOF.
func validate(op Operation, body []byte) (failure, own bool, err error) {
	d := jx.GetDecoder()
	defer jx.PutDecoder(d)
	d.ResetBytes(body)
	if len(bytes.TrimSpace(body)) == 0 {
		return false, false, io.ErrUnexpectedEOF
	}
	mark := marks[op]
	switch kind := d.Next(); {
	case kind == jx.Object, kind == jx.Invalid:
		err = d.ObjBytes(func(d *jx.Decoder, key []byte) error {
			failure = failure || string(key) == "error"
			own = own || string(key) == mark.field && (d.Next() == mark.kind || d.Next() == jx.Null)
			return d.Skip()
		})
	case op == OpTrendingFormats:
		err = d.Skip()
	default:
		return false, false, fmt.Errorf("the answer is a JSON %s, not an object", kind)
	}
	switch {
	case err != nil:
		return false, false, cutShort(err)
	case d.Skip() != io.EOF:
		return false, false, errors.New("more follows the JSON object of the answer")
	}
	return failure, own, nil
}

// redirect says where an answer wanted to send us, by host only: the rest of the
// address may say too much.
func redirect(h http.Header) string {
	u, err := url.Parse(h.Get("Location"))
	if err != nil || u.Hostname() == "" {
		return "redirected; redirects are not followed, because they could leak the key"
	}
	return fmt.Sprintf("redirected to %s; redirects are not followed, because they could leak the key",
		clean(u.Hostname()))
}
