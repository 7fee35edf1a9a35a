package parquet

import (
	"github.com/apache/arrow-go/v18/parquet/compress"
	"github.com/klauspost/compress/zstd"
)

// window is how far back zstd looks for repetitions in a page of more than one block, in bytes.
const window = 512 << 10

// arrowCodec is zstd as arrow-go implements it.
type arrowCodec interface {
	compress.ErrorCodec
	compress.StreamingCodec
}

// codec compresses with one encoder for the whole process. arrow-go keeps encoders in pools, which each
// garbage collection empties, and a new encoder allocates 8 MB for the window of its first long page.
type codec struct {
	arrowCodec
	encoder *zstd.Encoder
}

// EncodeLevel implements [compress.Codec]. All our files have the fastest level.
func (c codec) EncodeLevel(dst, src []byte, level int) []byte {
	if zstd.EncoderLevelFromZstd(level) != zstd.SpeedFastest {
		return c.arrowCodec.EncodeLevel(dst, src, level)
	}
	return c.encoder.EncodeAll(src, dst[:0])
}

func init() {
	arrows, err := compress.GetCodec(compress.Codecs.Zstd)
	if err != nil {
		panic(err)
	}
	encoder, err := zstd.NewWriter(nil, zstd.WithEncoderLevel(zstd.SpeedFastest), zstd.WithEncoderConcurrency(1),
		zstd.WithWindowSize(window), zstd.WithZeroFrames(true), zstd.WithAllLitEntropyCompression(true))
	if err != nil {
		panic(err) // a mistake in these options
	}
	// The first calls create the channels of the encoder and of Arrow's only decoder. Were they made in a test's
	// synctest bubble, calls from all other bubbles would end the process.
	arrows.Decode(nil, encoder.EncodeAll(nil, nil))
	compress.RegisterCodec(compress.Codecs.Zstd, codec{arrows.(arrowCodec), encoder})
}
