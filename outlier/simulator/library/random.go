package library

import (
	"encoding/base64"
	"encoding/binary"
	"hash/fnv"
	"math/rand/v2"
)

// purpose separates the random numbers of different properties of one thing.
type purpose uint64

const (
	forChannel purpose = iota + 1
	forChannelID
	forSchedule
	forTime
	forUpload
	forTitle
	forGaps
	forDescription
	forComment
	forTranscript
	forRelevance
	forFormats
	forDiscovery
	ForScan
	ForPicture
)

// Random returns a source that depends only on the seed, the purpose and the numbers of a thing.
// So everything can be computed at any time, and nothing has to be stored.
func Random(seed uint64, s purpose, of ...uint64) *rand.Rand {
	return rand.New(rand.NewPCG(seed, Hash(uint64(s), of...)))
}

// Hash mixes numbers into one (the finalizer of SplitMix64, chained).
func Hash(h uint64, vs ...uint64) uint64 {
	h = mixBits(h)
	for _, v := range vs {
		h = mixBits(h ^ v)
	}
	return h
}

func mixBits(x uint64) uint64 {
	x += 0x9e3779b97f4a7c15
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}

// HashText is FNV-1a.
func HashText(s string) uint64 {
	h := fnv.New64a()
	h.Write([]byte(s)) // a hash takes everything
	return h.Sum64()
}

// Unit maps a hash to [0, 1).
func Unit(h uint64) float64 { return float64(h>>11) / (1 << 53) }

func pickOne[T any](d *rand.Rand, from []T) T { return from[d.IntN(len(from))] }

func Chance(d *rand.Rand, p float64) bool { return d.Float64() < p }

// encodeBits encodes numbers in the alphabet of the interface's identifiers: 11 characters for
// one number, 22 for two.
func encodeBits(vs ...uint64) string {
	b := make([]byte, 0, 16)
	for _, v := range vs {
		b = binary.BigEndian.AppendUint64(b, v)
	}
	return base64.RawURLEncoding.EncodeToString(b)
}

// A video's id is its address in the library, enciphered: 12 bits channel, 1 bit kind, 35
// bits number, 16 bits that are zero. So looking up an id needs no index, and the zero bits
// expose an invented id.

func videoID(seed, address uint64) string { return encodeBits(encipherID(seed, address)) }

// addressOf decodes an id; ok is false for an id that is not of this library.
func addressOf(seed uint64, id string) (address uint64, ok bool) {
	b, err := base64.RawURLEncoding.Strict().DecodeString(id)
	if err != nil || len(b) != 8 {
		return 0, false
	}
	address = decipherID(seed, binary.BigEndian.Uint64(b))
	return address, address>>48 == 0
}

// encipherID is a Feistel network of four rounds, which suffice to look random.
func encipherID(seed, v uint64) uint64 {
	left, right := uint32(v>>32), uint32(v)
	for round := range uint64(4) {
		left, right = right, left^uint32(Hash(seed, round, uint64(right)))
	}
	return uint64(left)<<32 | uint64(right)
}

func decipherID(seed, v uint64) uint64 {
	left, right := uint32(v>>32), uint32(v)
	for round := range uint64(4) {
		left, right = right^uint32(Hash(seed, 3-round, uint64(left))), left
	}
	return uint64(left)<<32 | uint64(right)
}
