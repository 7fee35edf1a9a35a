package outlier

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net/http"
	"sync"
	"time"

	"github.com/klauspost/compress/gzip"
)

// Outcome is what became of the price of a request. There are three, because a
// failed request is refunded (interface, Errors, rule 3) but a lost answer
// proves nothing.
type Outcome string

const (
	Charged  Outcome = "charged"  // a whole answer arrived
	Refunded Outcome = "refunded" // proof of failure: provably unsent, the documented error JSON, or a 429
	Unknown  Outcome = "unknown"  // no proof either way; counts as charged
)

// Answer is all that is known after one attempt, whether or not the service
// replied. Its body stays raw: [Answer.JSON] opens it, package schema decodes it.
type Answer struct {
	Request *Request
	Status  int         // HTTP status; 0 if no status line arrived
	Header  http.Header // as received, without Set-Cookie and the key; nil if none arrived

	// Body is the body as transferred, without bytes after the end of gzip. It may be incomplete. If it
	// contained the key, it is decompressed and the key is removed.
	Body []byte

	// Encoding is that of Body: "gzip" or "". In an answer with Err it may be another one that the
	// service named.
	Encoding string

	Waited     time.Duration
	SentAt     time.Time // just before the first byte could leave; zero if provably unsent
	ReceivedAt time.Time // when the answer was complete, or the attempt was given up
	Err        error     // nil for a usable answer, else usually an *Error

	// Own reports whether the service itself wrote it, and not a gateway: it is complete, and has the
	// form of the service's answers or errors.
	Own bool

	opened []byte // Body without its encoding, once it has been opened
}

// The most that an answer may hold. A page of 40 hits has about 100 KB, a long
// transcript a few MB.
const (
	maxWire = 16 << 20
	maxOpen = 64 << 20
)

// errTooLarge is the error of a body that is larger without its encoding than is kept in memory.
func errTooLarge(body []byte) error {
	return fmt.Errorf("the answer has %d bytes, and more than %d MiB decompressed, which is the limit",
		len(body), maxOpen>>20)
}

// JSON is the body without its encoding. It fails if the body cannot be inflated
// whole, or holds more than 64 MiB; of an answer without Err it never fails.
// The bytes are shared: they must not be changed.
func (a *Answer) JSON() ([]byte, error) {
	if a.opened != nil {
		return a.opened, nil
	}
	return open(a.Body, a.Encoding)
}

// open undoes an encoding, and takes off the byte order mark that some servers
// put before their JSON.
func open(body []byte, encoding string) ([]byte, error) {
	var err error
	switch encoding {
	case "":
	case "gzip":
		body, _, err = inflate(body)
	default:
		return nil, fmt.Errorf("the answer has the encoding %q, which was not requested", clean(encoding))
	}
	return withoutMark(body), err
}

func withoutMark(text []byte) []byte { return bytes.TrimPrefix(text, []byte("\xef\xbb\xbf")) }

// inflate undoes gzip, and returns how many bytes of body it was. What follows, such as the line break
// of a proxy, is not part of the answer; whether the contents are whole is for their JSON to tell.
// The last four bytes say how long the contents are, which is believed as far as it is likely.
func inflate(body []byte) (contents []byte, used int, err error) {
	z, _ := readers.Get().(*gzip.Reader)
	if z == nil {
		z = new(gzip.Reader)
	}
	defer readers.Put(z)
	in := bytes.NewReader(body)
	if err := z.Reset(in); err != nil {
		return nil, 0, fmt.Errorf("inflate the answer: %w", cutShort(err))
	}
	said := int64(binary.LittleEndian.Uint32(body[len(body)-4:]))
	var b bytes.Buffer
	b.Grow(int(min(said, 20*int64(len(body)), maxOpen)) + bytes.MinRead)
	for {
		z.Multistream(false)
		if _, err := b.ReadFrom(io.LimitReader(z, maxOpen+1-int64(b.Len()))); err != nil {
			return nil, 0, fmt.Errorf("inflate the answer: %w", cutShort(err))
		}
		if b.Len() > maxOpen {
			return nil, 0, errTooLarge(body)
		}
		used = len(body) - in.Len()
		if z.Reset(in) != nil { // the end, or something that is not gzip
			return b.Bytes(), used, nil
		}
	}
}

// readers are those of gzip: each has a window of 32 KiB.
var readers sync.Pool

// cutShort gives an input that ends early one name, wherever the end fell.
func cutShort(err error) error {
	if errors.Is(err, io.EOF) {
		return io.ErrUnexpectedEOF
	}
	return err
}

// Date is the time that came with the answer, also with one of a gateway; zero without one.
func (a *Answer) Date() time.Time { return date(a.Header) }

// ServiceTime is the service's clock when it answered: the Date of an answer that is
// its own and comes out of no cache on the way. It is zero if there is none.
func (a *Answer) ServiceTime() time.Time {
	if age := a.Header.Get("Age"); !a.Own || age != "" && age != "0" {
		return time.Time{}
	}
	return a.Date()
}

func date(h http.Header) time.Time {
	t, err := http.ParseTime(h.Get("Date"))
	if err != nil {
		return time.Time{}
	}
	return t
}
