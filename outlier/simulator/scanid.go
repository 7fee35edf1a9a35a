package simulator

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"outlierd/internal/lazyregexp"
	"outlierd/outlier"
	"outlierd/outlier/simulator/library"
)

// scan is the content of a scan's id: everything about it except the text of its queries. So
// a new Service continues the scans of another one.
type scan struct {
	started  uint64 // milliseconds since library.Beginning, by the real clock
	standard bool   // in this mode, or else fast
	channels bool   // from channels, or else from queries
	topics   uint64 // what it is about, one bit for each topic of the library
	salt     uint64 // distinguishes scans that are equal otherwise
}

// scanMode is a mode of the interface (Credits per request, and Limits).
type scanMode struct {
	name               string
	outliers, channels int           // the most results, by what it starts from
	shortest, longest  time.Duration // of random phases
}

var (
	fast     = &scanMode{outlier.ModeFast, 1000, 100, 30 * time.Minute, 2 * time.Hour}
	standard = &scanMode{outlier.ModeStandard, 2500, 250, 2 * time.Hour, 4 * time.Hour}
)

func (n *scan) mode() *scanMode {
	if n.standard {
		return standard
	}
	return fast
}

// A scan's id is a UUID of version 4, which leaves 60 bits before and 62 after the
// variant: its head is 42 bits start, 1 bit mode, 1 bit origin and 16 bits that
// confirm the others, its tail 40 bits topics and 22 bits salt.
const tailBits, checkBits, saltBits = 62, 16, 22

func (n *scan) id(seed uint64) string {
	head, tail := n.started<<2|bitIf(n.standard)<<1|bitIf(n.channels), n.topics<<saltBits|n.salt
	head = head<<checkBits | lowestBits(library.Hash(seed, uint64(library.ForScan), head, tail), checkBits)
	return fmt.Sprintf("%08x-%04x-4%03x-%04x-%012x",
		head>>28, head>>12&0xffff, head&0xfff, 0x8000|tail>>48, tail&(1<<48-1))
}

var uuid = lazyregexp.New(`^([0-9a-f]{8})-([0-9a-f]{4})-4([0-9a-f]{3})-([89ab][0-9a-f]{3})-([0-9a-f]{12})$`)

// scanOf decodes an id; ok is false for an id that no service gave.
func scanOf(seed uint64, id string) (s *scan, ok bool) {
	m := uuid().FindStringSubmatch(strings.ToLower(id))
	if m == nil {
		return nil, false
	}
	head, _ := strconv.ParseUint(m[1]+m[2]+m[3], 16, 64) // the pattern allows nothing else
	tail, _ := strconv.ParseUint(m[4]+m[5], 16, 64)
	head, tail = head>>checkBits, lowestBits(tail, tailBits)
	s = &scan{
		started: head >> 2, standard: head&2 != 0, channels: head&1 != 0,
		topics: tail >> saltBits, salt: lowestBits(tail, saltBits),
	}
	return s, s.id(seed) == strings.ToLower(id)
}

func bitIf(set bool) uint64 {
	if set {
		return 1
	}
	return 0
}

func lowestBits(v uint64, bits int) uint64 { return v & (1<<bits - 1) }
