package simulator

import (
	"bytes"
	"encoding/json"
	"net/http"
	"strconv"
	"strings"
	"sync"
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

// frozen has the answers of a frozen service, which never change.
type frozen struct {
	mu    sync.Mutex
	kept  map[string]*reply // by identity
	bytes int
}

// maxKept bounds the answers that a frozen service keeps, in bytes.
const maxKept = 64 << 20

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

// replyFor returns the reply kept under a key, or makes and keeps it.
func (p *frozen) replyFor(key string, find func() *reply) *reply {
	p.mu.Lock()
	r, ok := p.kept[key]
	p.mu.Unlock()
	if ok {
		return r
	}
	r = find()
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.bytes += len(r.body); p.kept == nil || p.bytes > maxKept {
		p.kept, p.bytes = map[string]*reply{}, len(r.body)
	}
	p.kept[key] = r
	return r
}

// acceptsGzip reports whether an Accept-Encoding header allows gzip.
func acceptsGzip(h http.Header) bool {
	for part := range strings.SplitSeq(h.Get("Accept-Encoding"), ",") {
		coding, weight, weighted := strings.Cut(part, ";")
		if strings.TrimSpace(coding) != "gzip" {
			continue
		}
		q, err := strconv.ParseFloat(strings.TrimPrefix(strings.TrimSpace(weight), "q="), 64)
		return !weighted || err == nil && q > 0
	}
	return false
}
