package database

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
)

// errDamaged is the error of a part of a DuckDB file that does not have the checksum that DuckDB wrote with it.
var errDamaged = errors.New("is damaged")

func damagedAt(f *os.File, at int64) error {
	return fmt.Errorf("%s %w: the block at byte %d does not have its checksum", f.Name(), errDamaged, at)
}

// A DuckDB file begins with three headers. The last two take turns: DuckDB uses the one with the higher number, which
// also has the number and the size of the blocks that follow. Each header and block begins with the checksum of the
// rest of it.
const headerSize = 4096

// header is the newest header of a file.
type header struct{ number, blocks, size int64 }

// readHeader reads the headers of a file, and returns an error, see [Damaged], if one is damaged.
func readHeader(f *os.File) (h header, err error) {
	headers := make([]byte, 3*headerSize)
	if _, err := f.ReadAt(headers, 0); err != nil {
		return h, fmt.Errorf("read the headers of %s: %w", f.Name(), err)
	}
	number := func(at int64) int64 { return int64(binary.LittleEndian.Uint64(headers[at:])) }
	newest := int64(headerSize)
	if number(2*headerSize+8) > number(headerSize+8) {
		newest = 2 * headerSize
	}
	for _, at := range []int64{0, newest} {
		if !hasChecksum(headers[at:][:headerSize]) {
			return h, damagedAt(f, at)
		}
	}
	return header{number(newest + 8), number(newest + 32), number(newest + 40)}, nil
}

// CountCheckpoints returns how often DuckDB has written a header of a file: once in each checkpoint.
func CountCheckpoints(path string) (int64, error) {
	f, err := os.Open(path)
	if err != nil {
		return 0, err
	}
	defer f.Close()
	h, err := readHeader(f)
	return h.number, err
}

// Verify reads a DuckDB file that no program writes to, and returns an error, see [Damaged], if a header or a block of
// it is damaged.
func Verify(f *os.File) error {
	h, err := readHeader(f)
	if err != nil {
		return err
	}
	block := make([]byte, h.size)
	for n := range h.blocks {
		at := 3*headerSize + n*h.size
		n, err := f.ReadAt(block, at)
		switch {
		case n == 0 && errors.Is(err, io.EOF): // the last blocks were free, and DuckDB has cut them off
			return nil
		case err != nil && !errors.Is(err, io.EOF):
			return err
		case err != nil, !hasChecksum(block) && !isBlank(block):
			return damagedAt(f, at)
		}
	}
	return nil
}

func hasChecksum(part []byte) bool {
	sum := uint64(5381)
	for rest := part[8:]; len(rest) > 0; rest = rest[8:] {
		sum ^= binary.LittleEndian.Uint64(rest) * 0xbf58476d1ce4e5b9
	}
	return binary.LittleEndian.Uint64(part) == sum
}

// isBlank reports whether a block has only zeros: DuckDB leaves some blocks unused and unwritten.
func isBlank(block []byte) bool { return len(bytes.Trim(block, "\x00")) == 0 }
