package simulator

import (
	"bytes"
	"encoding/json"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/klauspost/compress/gzip"
)

// reply is what leaves the service after delay: an answer, or less.
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

// half is as much of the body as leaves when the ending is cut or stalled.
func (r *reply) half() []byte { return r.body[:len(r.body)/2] }

// page is a reply with a body of some type.
func page(status int, mime string, body []byte, date time.Time) *reply {
	return &reply{status: status, body: body, header: http.Header{
		"Content-Type":   {mime},
		"Content-Length": {strconv.Itoa(len(body))},
		"Date":           {date.Format(http.TimeFormat)},
	}}
}

const mimeJSON = "application/json; charset=utf-8"

// press turns answers into bytes.
type press struct {
	zippers sync.Pool

	mu    sync.Mutex
	shelf map[string]*reply // of a frozen service, whose answers never change
	bytes int
}

// maxShelf bounds what a frozen service keeps of its answers.
const maxShelf = 64 << 20

// worthZipping is the size from which compression pays.
const worthZipping = 1024

// print encodes an answer. Compression is light: it is the client that is measured.
func (p *press) print(status int, answer any, zip bool, date time.Time) *reply {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(answer); err != nil {
		panic("simulator: an answer that JSON cannot hold: " + err.Error()) // a mistake in shapes.go
	}
	body := bytes.TrimSuffix(b.Bytes(), []byte("\n"))
	if !zip || len(body) < worthZipping {
		return page(status, mimeJSON, body, date)
	}
	r := page(status, mimeJSON, p.zip(body), date)
	r.header.Set("Content-Encoding", "gzip")
	return r
}

func (p *press) zip(body []byte) []byte {
	z, ok := p.zippers.Get().(*gzip.Writer)
	if !ok {
		z, _ = gzip.NewWriterLevel(nil, gzip.BestSpeed) // errs on unknown levels only
	}
	defer p.zippers.Put(z)
	var b bytes.Buffer
	z.Reset(&b)
	z.Write(body) // a bytes.Buffer takes everything
	z.Close()
	return b.Bytes()
}

// keep returns the reply on the shelf, or makes it and puts it there.
func (p *press) keep(key string, find func() *reply) *reply {
	p.mu.Lock()
	r, ok := p.shelf[key]
	p.mu.Unlock()
	if ok {
		return r
	}
	r = find()
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.bytes += len(r.body); p.shelf == nil || p.bytes > maxShelf {
		p.shelf, p.bytes = map[string]*reply{}, len(r.body)
	}
	p.shelf[key] = r
	return r
}

// acceptsGzip reads Accept-Encoding as far as it matters here.
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
