// Package excerpt truncates texts: at a character boundary, with a mark at the end, and never
// longer than asked for.
//
// It counts characters and bytes. On a terminal a character takes up to two columns;
// cmd/outlierd/term truncates by columns.
package excerpt

import "unicode/utf8"

// Mark is the end of a text that [Runes] has truncated.
const Mark = "…"

// Runes returns s, or its beginning and [Mark] if it has more than the given number of characters.
// The mark counts as one of them.
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

// Bytes returns s, or its beginning and the given mark if it has more than the given number of
// bytes, including the mark. A truncated slice shares the array of s.
func Bytes[T string | []byte](s T, most int, mark string) T {
	if len(s) <= most {
		return s
	}
	return T(append([]byte(Prefix(s, most-len(mark))), mark...))
}

// Prefix returns the longest beginning of s of at most the given number of bytes that ends at a
// character boundary.
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
