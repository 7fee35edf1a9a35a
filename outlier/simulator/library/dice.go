package library

import (
	"encoding/base64"
	"encoding/binary"
	"math/rand/v2"
)

// subject keeps the dice of different questions about one thing apart.
type subject uint64

const (
	aboutChannel subject = iota + 1
	aboutChannelID
	aboutLine
	aboutTime
	aboutFate
	aboutTitle
	aboutGaps
	aboutDescription
	aboutComment
	aboutTranscript
	aboutNoise
	aboutLook
	aboutFound
	AboutScan
)

// Dice rolls numbers that follow from the seed, the subject and what it is about
// alone, so that anything can be worked out at any time without being kept.
func Dice(seed uint64, s subject, of ...uint64) *rand.Rand {
	return rand.New(rand.NewPCG(seed, Hash(uint64(s), of...)))
}

// Hash mixes numbers into one (the finalizer of SplitMix64, chained).
func Hash(h uint64, vs ...uint64) uint64 {
	h = scramble(h)
	for _, v := range vs {
		h = scramble(h ^ v)
	}
	return h
}

func scramble(x uint64) uint64 {
	x += 0x9e3779b97f4a7c15
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}

// HashText is FNV-1a.
func HashText(s string) uint64 {
	h := uint64(14695981039346656037)
	for i := range len(s) {
		h = (h ^ uint64(s[i])) * 1099511628211
	}
	return h
}

// Unit maps a hash to [0, 1).
func Unit(h uint64) float64 { return float64(h>>11) / (1 << 53) }

func pick[T any](d *rand.Rand, from []T) T { return from[d.IntN(len(from))] }

func Chance(d *rand.Rand, p float64) bool { return d.Float64() < p }

// spell writes the bits of vs in the alphabet of the interface's identifiers: 11
// characters for one number, 22 for two.
func spell(vs ...uint64) string {
	b := make([]byte, 0, 16)
	for _, v := range vs {
		b = binary.BigEndian.AppendUint64(b, v)
	}
	return base64.RawURLEncoding.EncodeToString(b)
}

// A video's id is its address in the library, enciphered: 12 bits channel, 1 bit
// kind, 35 bits number, 16 bits that are zero. So an id needs no index to be
// looked up, and one that was made up is told by its check bits.

func videoID(seed, address uint64) string { return spell(encipher(seed, address)) }

// addressOf reads an id back; ok is false for an id that the library never gave.
func addressOf(seed uint64, id string) (address uint64, ok bool) {
	b, err := base64.RawURLEncoding.Strict().DecodeString(id)
	if err != nil || len(b) != 8 {
		return 0, false
	}
	address = decipher(seed, binary.BigEndian.Uint64(b))
	return address, address>>48 == 0
}

// encipher is a Feistel network of four rounds: enough to look random.
func encipher(seed, v uint64) uint64 {
	left, right := uint32(v>>32), uint32(v)
	for round := range uint64(4) {
		left, right = right, left^uint32(Hash(seed, round, uint64(right)))
	}
	return uint64(left)<<32 | uint64(right)
}

func decipher(seed, v uint64) uint64 {
	left, right := uint32(v>>32), uint32(v)
	for round := range uint64(4) {
		left, right = right^uint32(Hash(seed, 3-round, uint64(left))), left
	}
	return uint64(left)<<32 | uint64(right)
}
