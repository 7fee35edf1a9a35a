package parquet

import (
	"bytes"
	"runtime"
	"strconv"
	"testing"
	"testing/synctest"

	"github.com/apache/arrow-go/v18/parquet/compress"
)

// TestLongPagesAreCompressedWithoutNewMemory although garbage was collected since the last one, and are
// read back.
func TestLongPagesAreCompressedWithoutNewMemory(t *testing.T) {
	zstd, err := compress.GetCodec(compress.Codecs.Zstd)
	if err != nil {
		t.Fatal(err)
	}
	var page []byte
	for i := 0; len(page) < 4*window; i++ {
		page = append(page, "line "+strconv.Itoa(i*7919)+" of what is said\n"...)
	}
	room := make([]byte, 0, zstd.CompressBound(int64(len(page))))
	packed := zstd.EncodeLevel(room, page, 1)
	if got := zstd.Decode(nil, packed); !bytes.Equal(got, page) || len(packed) > len(page)/3 {
		t.Errorf("%d bytes became %d and then %d, want the same ones", len(page), len(packed), len(got))
	}
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	for range 3 {
		runtime.GC()
		runtime.GC() // a pool keeps what the first one found for one round more
		zstd.EncodeLevel(room, page, 1)
	}
	runtime.ReadMemStats(&after)
	if took := after.TotalAlloc - before.TotalAlloc; took > 1<<20 {
		t.Errorf("three pages took %d bytes of new memory", took)
	}
}

// TestCodecWorksInEveryBubble compresses and decompresses in one synctest bubble after another: encoder and decoder
// are shared, and a channel of one bubble must not be used in another.
func TestCodecWorksInEveryBubble(t *testing.T) {
	zstd, err := compress.GetCodec(compress.Codecs.Zstd)
	if err != nil {
		t.Fatal(err)
	}
	page := []byte("page")
	for range 2 {
		synctest.Test(t, func(t *testing.T) {
			if got := zstd.Decode(nil, zstd.EncodeLevel(nil, page, 1)); !bytes.Equal(got, page) {
				t.Errorf("%q became %q", page, got)
			}
		})
	}
}
