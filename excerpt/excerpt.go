// Package excerpt knows how a text that is too long is cut short: between two characters,
// with a mark, and never longer than asked for.
//
// Width on a terminal is another measure: there a character takes up to two columns, and
// cmd/outlierd/term cuts by those.
package excerpt

import "unicode/utf8"

// Mark ends what [Runes] has cut.
const Mark = "…"

// Runes is s, or its beginning and [Mark] if it has more than the given number of
// characters. The mark counts as one of them.
func Runes(s string, most int) string {
	if len(s) <= most {
		return s
	}
	n, end := 0, 0 // characters so far, and where the last one begins that the mark replaces
	for i := range s {
		if n == most-1 {
			end = i
		}
		if n++; n > most {
			return s[:end] + Mark
		}
	}
	return s
}

// Bytes is s, or its beginning and the given mark if it has more than the given number of
// bytes, those of the mark included. Of a slice the cut one has the same array.
func Bytes[T string | []byte](s T, most int, mark string) T {
	if len(s) <= most {
		return s
	}
	return T(append([]byte(Prefix(s, most-len(mark))), mark...))
}

// Prefix is the longest beginning of s of at most the given number of bytes that ends between
// two characters.
func Prefix[T string | []byte](s T, most int) T {
	if len(s) <= most {
		return s
	}
	end := max(most, 0)
	for back := 0; back < utf8.UTFMax && end > 0 && !utf8.RuneStart(s[end]); back++ {
		end--
	}
	return s[:end]
}
