package journal

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"

	"github.com/klauspost/compress/gzip"
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

// maxBody is the largest body that is decompressed, in bytes.
const maxBody = 64 << 20

// packed is a body as it is stored.
type packed struct {
	encoding string
	body     []byte
	sum      []byte // SHA-256 of body; computed by CPU instructions in a few µs
}

// packer compresses and decompresses bodies. It reuses its coders, which are expensive to create.
type packer struct {
	encoder *zstd.Encoder
	decoder *zstd.Decoder
}

func newPacker() (*packer, error) {
	encoder, err := zstd.NewWriter(nil, zstd.WithEncoderLevel(zstd.SpeedFastest), zstd.WithEncoderConcurrency(1))
	if err != nil {
		return nil, fmt.Errorf("make a compressor: %w", err)
	}
	decoder, err := zstd.NewReader(nil, zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxMemory(maxBody))
	if err != nil {
		return nil, fmt.Errorf("make a decompressor: %w", err)
	}
	return &packer{encoder: encoder, decoder: decoder}, nil
}

func (p *packer) packAnswer(a *outlier.Answer) packed {
	kept := packed{encoding: a.Encoding, body: a.Body}
	if kept.encoding == asPlain && len(a.Body) >= tooSmall {
		kept.encoding = asZstd
		kept.body = p.encoder.EncodeAll(a.Body, make([]byte, 0, len(a.Body)/4))
	}
	if kept.body == nil {
		kept.body = []byte{} // NULL would say that nothing was kept
	}
	sum := sha256.Sum256(kept.body)
	kept.sum = sum[:]
	return kept
}

func (k packed) isIntact() bool {
	sum := sha256.Sum256(k.body)
	return bytes.Equal(sum[:], k.sum)
}

// opener decompresses bodies into the same buffer.
type opener struct {
	packer *packer
	gzip   *gzip.Reader
	buffer bytes.Buffer
	plain  []byte
}

// openBody returns the plain body, valid until the next call. It fails if the body cannot be decompressed,
// such as a truncated one.
func (o *opener) openBody(k packed) ([]byte, error) {
	body, err := o.inflateBody(k)
	if err != nil {
		return nil, fmt.Errorf("decompress %d bytes: %w", len(k.body), err)
	}
	return outlier.Lenient(body), nil
}

// readablePart returns what can be read of a body, and whether that is all of it: an answer that broke off is
// all there is, but a damaged one, or one of an unknown encoding, may have more. It is valid until the
// next call.
func (o *opener) readablePart(k packed) (body []byte, all bool) {
	if len(k.body) == 0 {
		return nil, true
	}
	body, err := o.openBody(k)
	if err != nil && k.encoding == asGzip {
		return o.buffer.Bytes(), errors.Is(err, io.ErrUnexpectedEOF)
	}
	return body, err == nil
}

func (o *opener) inflateBody(k packed) ([]byte, error) {
	switch k.encoding {
	case asPlain:
		return k.body, nil
	case asZstd:
		plain, err := o.packer.decoder.DecodeAll(k.body, o.plain[:0])
		o.plain = plain
		return plain, err
	case asGzip:
		return o.gunzipBody(k.body)
	}
	return nil, fmt.Errorf("unknown encoding %q", k.encoding)
}

func (o *opener) gunzipBody(body []byte) ([]byte, error) {
	o.buffer.Reset()
	if o.gzip == nil {
		o.gzip = new(gzip.Reader)
	}
	if err := o.gzip.Reset(bytes.NewReader(body)); err != nil {
		return nil, err
	}
	if _, err := o.buffer.ReadFrom(io.LimitReader(o.gzip, maxBody+1)); err != nil {
		return nil, err
	}
	if o.buffer.Len() > maxBody {
		return nil, fmt.Errorf("the limit is %d MiB of JSON, and it has more", maxBody>>20)
	}
	return o.buffer.Bytes(), nil
}
