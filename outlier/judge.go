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

// judgeAnswer decides from a body that arrived without a transport error whether the request was charged, and
// what is wrong with the answer. It leaves the decompressed body in a.
//
// A failed request is refunded (interface, Errors, rule 3), but only the documented error shapes prove
// that the service refused it, see readError: a gateway may send an error page although the service has
// done and charged the work. A 429 needs no shape: whichever server counts requests, it refuses them
// before the work begins. A body may be incomplete without any error: if the end of the connection ends
// it, only the JSON shows that something is missing.
func judgeAnswer(a *Answer) (Outcome, *Error) {
	if a.Status < 200 || a.Status >= 300 && a.Status < 400 {
		return Unknown, &Error{Kind: Foreign, Message: redirectHost(a.Header)}
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

// judgeSuccess judges a body with a status of success. err is the error of decompressing it.
func judgeSuccess(a *Answer, body []byte, err error) (Outcome, *Error) {
	failure := false
	if err == nil {
		failure, a.Own, err = validateJSON(a.Request.op, body)
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
		// The record of a scan has a status of its own, and may say why the scan failed.
	case failure:
		// The status says success, and the body failure. The complete documented error counts under any
		// status. An incomplete one, or one beside data of an answer, proves neither.
		if e, shaped, own := readError(a.Request.op, a.Status, a.Header, body); shaped {
			if a.Own = own && !a.Own; a.Own {
				return Refunded, e
			}
			return Unknown, e
		}
	}
	return Charged, nil
}

// likeJSON reports whether a body that is not valid JSON begins like JSON. If it does not, it is from
// another server: a login page of the network, or a gateway's error page.
func likeJSON(h http.Header, body []byte) bool {
	switch start := bytes.TrimLeft(body, " \t\r\n"); {
	case len(start) > 0 && start[0] == '<':
		return false
	case len(start) > 0 && (start[0] == '{' || start[0] == '['):
		return true
	}
	return strings.Contains(strings.ToLower(h.Get("Content-Type")), "json")
}

// marks has the top-level members of the answers to each operation. They distinguish the service's answer
// from others with a status of success. The interface does not show an answer of trending formats.
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

// validateJSON checks that body is one JSON object (any value for trending formats) with nothing after it.
// Invalid UTF-8 in texts is accepted; readers replace it. It reports whether an object has an error, and
// whether it has the form of the service's own answers to op. For a body that ends too early, including
// an empty one, it returns io.ErrUnexpectedEOF.
func validateJSON(op Operation, body []byte) (failure, own bool, err error) {
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

// redirectHost returns the target of a redirect, only its host: the rest of the address may contain secrets.
func redirectHost(h http.Header) string {
	u, err := url.Parse(h.Get("Location"))
	if err != nil || u.Hostname() == "" {
		return "redirected; redirects are not followed, because they could leak the key"
	}
	return fmt.Sprintf("redirected to %s; redirects are not followed, because they could leak the key",
		cleanLine(u.Hostname()))
}
