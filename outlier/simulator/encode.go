package simulator

import (
	"bytes"
	"encoding/json"
	"net/http"
	"strconv"
	"time"

	"outlierd/outlier"
)

// reply is what leaves the service after delay: an answer, or a part of it.
type reply struct {
	status int
	header http.Header
	body   []byte
	ending ending
	delay  time.Duration
}

// ending is how the connection ends.
type ending int

const (
	whole   ending = iota
	reset          // at once
	closed         // before the status line
	cut            // in the middle of the body
	stalled        // never, after half of the body
)

// newPage is a reply with a body of the given type.
func newPage(status int, mime string, body []byte, date time.Time) *reply {
	return &reply{status: status, body: body, header: http.Header{
		"Content-Type":   {mime},
		"Content-Length": {strconv.Itoa(len(body))},
		"Date":           {date.Format(http.TimeFormat)},
	}}
}

const mimeJSON = "application/json; charset=utf-8"

// worthCompressing is the size in bytes from which compression pays.
const worthCompressing = 1024

// encodeReply encodes an answer as JSON, compressed if the client accepts it.
func encodeReply(status int, answer any, zip bool, date time.Time) *reply {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(answer); err != nil {
		panic("simulator: an answer that JSON cannot hold: " + err.Error()) // a mistake of the library
	}
	body := bytes.TrimSuffix(b.Bytes(), []byte("\n"))
	if !zip || len(body) < worthCompressing {
		return newPage(status, mimeJSON, body, date)
	}
	r := newPage(status, mimeJSON, outlier.Pack(body), date)
	r.header.Set("Content-Encoding", "gzip")
	return r
}
