package journal

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"io"

	"github.com/klauspost/compress/zstd"

	"outlierd/outlier"
)

// The encodings of stored bodies. A gzip body is stored as received; a plain one is compressed with
// zstd unless it is too small to benefit. Any other name is an encoding that was not requested: the
// bytes are stored, but cannot be decompressed.
const (
	asPlain = ""
	asGzip  = "gzip"
	asZstd  = "zstd"
)

// tooSmall is the size in bytes below which compression does not help.
const tooSmall = 256

// maxPlain is the largest body that is decompressed with zstd, in bytes.
const maxPlain = 64 << 20

// Packed is the body of an answer as it is stored.
type Packed struct {
	encoding string
	body     []byte
	sum      []byte // SHA-256 of body; computed by CPU instructions in a few µs
}

// Pack compresses and hashes the body of an answer, outside the transaction that stores it.
func Pack(answer *outlier.Answer) Packed { return packBody(answer.Body, answer.Encoding) }

func packBody(body []byte, encoding string) Packed {
	if encoding == asPlain && len(body) >= tooSmall {
		// It fails for unknown options only. By default it has a coder for each processor.
		encoder, _ := zstd.NewWriter(nil, zstd.WithEncoderLevel(zstd.SpeedFastest), zstd.WithEncoderConcurrency(1))
		body, encoding = encoder.EncodeAll(body, make([]byte, 0, len(body)/4)), asZstd
	}
	if body == nil {
		body = []byte{} // NULL would say that nothing was kept
	}
	sum := sha256.Sum256(body)
	return Packed{encoding, body, sum[:]}
}

func (k Packed) isIntact() bool {
	sum := sha256.Sum256(k.body)
	return bytes.Equal(sum[:], k.sum)
}

// unpack returns the plain body. It fails if the body cannot be decompressed, such as a truncated one.
func (k Packed) unpack() ([]byte, error) {
	if k.encoding != asZstd {
		return outlier.Unpack(k.body, k.encoding)
	}
	decoder, err := zstd.NewReader(nil, zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxMemory(maxPlain))
	if err != nil {
		return nil, err
	}
	defer decoder.Close()
	plain, err := decoder.DecodeAll(k.body, nil)
	if err != nil {
		return nil, err
	}
	return outlier.Lenient(plain), nil
}

// readablePart returns what can be read of a body, and whether that is all of it: an answer that broke off is
// all there is, but a damaged one, or one of an unknown encoding, may have more.
func (k Packed) readablePart() (body []byte, all bool) {
	if len(k.body) == 0 {
		return nil, true
	}
	body, err := k.unpack()
	if err != nil && k.encoding == asGzip {
		return outlier.ReadablePart(k.body), errors.Is(err, io.ErrUnexpectedEOF)
	}
	return body, err == nil
}
