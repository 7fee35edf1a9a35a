package engine

import (
	"testing"

	"github.com/apache/arrow-go/v18/parquet/compress"
)

// TestMain makes Arrow's one decompressor outside of any bubble of virtual time: it
// is shared by all tests and holds channels, which must not belong to the first one.
func TestMain(m *testing.M) {
	codec, err := compress.GetCodec(compress.Codecs.Zstd)
	if err != nil {
		panic(err)
	}
	text := []byte("made outside of any bubble")
	codec.Decode(make([]byte, len(text)), codec.Encode(nil, text))
	m.Run()
}
