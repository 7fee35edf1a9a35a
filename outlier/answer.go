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

// Outcome says whether a request was charged. There are three outcomes: a failed request is refunded
// (interface, Errors, rule 3), but a lost answer proves nothing.
type Outcome string

const (
	Charged  Outcome = "charged"  // a complete answer arrived
	Refunded Outcome = "refunded" // it provably failed: not sent, or answered by the documented error JSON or a 429
	Unknown  Outcome = "unknown"  // no proof either way; counts as charged
)

// Answer is the result of one attempt, whether or not the service replied. The body stays raw:
// [Answer.JSON] decompresses it, and package schema decodes it.
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
	SentAt     time.Time // just before the first byte may have been sent; zero if provably unsent
	ReceivedAt time.Time // when the answer was complete, or the attempt was cancelled
	Err        error     // nil for a usable answer, otherwise usually an *Error

	// Own reports whether the service itself wrote the answer, and not a gateway: the answer is complete
	// and has the form of the service's answers or errors.
	Own bool

	opened []byte // Body, decompressed, once JSON was called
}

// Size limits of an answer. A page of 40 hits has about 100 KB, a long transcript a few MB.
const (
	maxWire = 16 << 20
	maxOpen = 64 << 20
)

// errTooLarge returns the error for a body whose decompressed size exceeds the limit.
func errTooLarge(body []byte) error {
	return fmt.Errorf("the answer has %d bytes, and more than %d MiB decompressed, which is the limit",
		len(body), maxOpen>>20)
}

// JSON returns the decompressed body. It returns an error if the body cannot be decompressed completely,
// or is larger than 64 MiB. It never fails for an answer without Err. The bytes are shared and must not
// be changed.
func (a *Answer) JSON() ([]byte, error) {
	if a.opened != nil {
		return a.opened, nil
	}
	return Unpack(a.Body, a.Encoding)
}

// Unpack decompresses a body with an encoding, "gzip" or "", and corrects it; see [Lenient].
func Unpack(body []byte, encoding string) ([]byte, error) {
	switch encoding {
	case "":
	case "gzip":
		contents, _, err := gunzipBody(body)
		if err != nil {
			return nil, err
		}
		body = contents
	default:
		return nil, fmt.Errorf("the answer has the encoding %q, which was not requested", cleanLine(encoding))
	}
	return Lenient(body), nil
}

// Pack compresses a body with gzip, in little time.
func Pack(body []byte) []byte {
	z, _ := writers.Get().(*gzip.Writer)
	if z == nil {
		z, _ = gzip.NewWriterLevel(nil, gzip.BestSpeed) // fails for unknown levels only
	}
	defer writers.Put(z)
	var packed bytes.Buffer
	packed.Grow(len(body) / 4)
	z.Reset(&packed)
	_, _ = z.Write(body) // a buffer takes everything
	_ = z.Close()
	return packed.Bytes()
}

// ReadablePart returns as much of a gzip body as can be decompressed.
func ReadablePart(body []byte) []byte {
	contents, _, _ := gunzipBody(body)
	return contents
}

// gunzipBody decompresses gzip, with an error as much as possible, and returns the length of the gzip data in body.
// Bytes after it, such as the line break of a proxy, are not part of the answer. Whether the contents are complete is
// decided by their JSON. The last four bytes have the length of the contents, which is used as far as it is plausible.
func gunzipBody(body []byte) (contents []byte, used int, err error) {
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
			return b.Bytes(), 0, fmt.Errorf("inflate the answer: %w", cutShort(err))
		}
		if b.Len() > maxOpen {
			return b.Bytes(), 0, errTooLarge(body)
		}
		used = len(body) - in.Len()
		if z.Reset(in) != nil { // the end, or bytes that are not gzip
			return b.Bytes(), used, nil
		}
	}
}

// readers and writers pool what takes much memory: the windows of gzip.
var readers, writers sync.Pool

// cutShort returns one error for input that ends too early, wherever it ends.
func cutShort(err error) error {
	if errors.Is(err, io.EOF) {
		return io.ErrUnexpectedEOF
	}
	return err
}

// Date returns the Date header of the answer, including that of a gateway; zero if there is none.
func (a *Answer) Date() time.Time { return readDate(a.Header) }

// ServiceTime returns the service's clock when it answered: the Date of an answer that the service itself
// wrote and that no cache has stored. It is zero if there is none.
func (a *Answer) ServiceTime() time.Time {
	if age := a.Header.Get("Age"); !a.Own || age != "" && age != "0" {
		return time.Time{}
	}
	return a.Date()
}

func readDate(h http.Header) time.Time {
	t, err := http.ParseTime(h.Get("Date"))
	if err != nil {
		return time.Time{}
	}
	return t
}
