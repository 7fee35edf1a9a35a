package main

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

// plain makes a text harmless to a terminal. Titles and comments are written by
// strangers: a control character in one could move the cursor or worse.
func plain(s string) string {
	if !utf8.ValidString(s) {
		s = strings.ToValidUTF8(s, "\ufffd")
	}
	return strings.Map(func(r rune) rune {
		switch {
		case unicode.IsSpace(r): // line ends of every kind among them
			return ' '
		case unsafe(r):
			return '\ufffd'
		}
		return r
	}, s)
}

// unsafe characters act on a terminal instead of showing on it, or turn the text
// after them around.
func unsafe(r rune) bool { return unicode.IsControl(r) || unicode.Is(unicode.Bidi_Control, r) }

// width is how many columns of a terminal a text takes.
func width(s string) int {
	n := 0
	for _, r := range s {
		n += columns(r)
	}
	return n
}

// columns is 2 for East Asian characters and most emoji, and 0 for marks and joiners,
// which show on the character before them.
func columns(r rune) int {
	switch {
	case r < 0x300:
		return 1
	case unicode.In(r, unicode.Mn, unicode.Me, unicode.Cf), r >= 0x1160 && r <= 0x11ff: // vowels and finals of Hangul
		return 0
	case unicode.Is(wide, r):
		return 2
	}
	return 1
}

// wide are the characters that Unicode's East_Asian_Width calls wide or fullwidth,
// as far as people use them.
var wide = &unicode.RangeTable{
	R16: []unicode.Range16{
		{0x1100, 0x115f, 1}, {0x231a, 0x231b, 1}, {0x2329, 0x232a, 1}, {0x23e9, 0x23ec, 1}, {0x23f0, 0x23f3, 3},
		{0x25fd, 0x25fe, 1}, {0x2614, 0x2615, 1}, {0x2648, 0x2653, 1}, {0x267f, 0x2693, 0x14}, {0x26a1, 0x26aa, 9},
		{0x26ab, 0x26bd, 0x12}, {0x26be, 0x26c4, 6}, {0x26c5, 0x26ce, 9}, {0x26d4, 0x26ea, 0x16}, {0x26f2, 0x26f3, 1},
		{0x26f5, 0x26fa, 5}, {0x26fd, 0x2705, 8}, {0x270a, 0x270b, 1}, {0x2728, 0x274c, 0x24}, {0x274e, 0x2753, 5},
		{0x2754, 0x2755, 1}, {0x2757, 0x2795, 0x3e}, {0x2796, 0x2797, 1}, {0x27b0, 0x27bf, 0xf}, {0x2b1b, 0x2b1c, 1},
		{0x2b50, 0x2b55, 5}, {0x2e80, 0x303e, 1}, {0x3041, 0x4dbf, 1}, {0x4e00, 0xa4cf, 1}, {0xa960, 0xa97c, 1},
		{0xac00, 0xd7a3, 1}, {0xf900, 0xfaff, 1}, {0xfe10, 0xfe19, 1}, {0xfe30, 0xfe6b, 1}, {0xff01, 0xff60, 1}, {0xffe0, 0xffe6, 1},
	},
	R32: []unicode.Range32{
		{0x16fe0, 0x1b2fb, 1}, {0x1f004, 0x1f0cf, 0xcb}, {0x1f18e, 0x1f191, 3}, {0x1f192, 0x1f19a, 1}, {0x1f200, 0x1f320, 1},
		{0x1f32d, 0x1f335, 1}, {0x1f337, 0x1f37c, 1}, {0x1f37e, 0x1f393, 1}, {0x1f3a0, 0x1f3ca, 1}, {0x1f3cf, 0x1f3d3, 1},
		{0x1f3e0, 0x1f3f0, 1}, {0x1f3f4, 0x1f3f8, 4}, {0x1f3f9, 0x1f43e, 1}, {0x1f440, 0x1f442, 2}, {0x1f443, 0x1f4fc, 1},
		{0x1f4ff, 0x1f53d, 1}, {0x1f54b, 0x1f54e, 1}, {0x1f550, 0x1f567, 1}, {0x1f57a, 0x1f595, 0x1b}, {0x1f596, 0x1f5a4, 0xe},
		{0x1f5fb, 0x1f64f, 1}, {0x1f680, 0x1f6c5, 1}, {0x1f6cc, 0x1f6d0, 4}, {0x1f6d1, 0x1f6d2, 1}, {0x1f6d5, 0x1f6df, 1},
		{0x1f6eb, 0x1f6ec, 1}, {0x1f6f4, 0x1f6fc, 1}, {0x1f7e0, 0x1f7f0, 1}, {0x1f90c, 0x1f93a, 1}, {0x1f93c, 0x1f945, 1},
		{0x1f947, 0x1f9ff, 1}, {0x1fa70, 0x1faff, 1}, {0x20000, 0x3fffd, 1},
	},
}

// clip shortens a text to so many columns of a terminal and makes it harmless.
func clip(text string, columns int) string {
	text = plain(text)
	if width(text) <= columns {
		return text
	}
	var out strings.Builder
	left := columns - 1 // for the ellipsis
	for _, r := range text {
		if left -= width(string(r)); left < 0 {
			break
		}
		out.WriteRune(r)
	}
	return out.String() + "…"
}

// padded fills a text up with spaces to so many columns of a terminal.
func padded(text string, columns int) string {
	return text + strings.Repeat(" ", max(0, columns-width(text)))
}
