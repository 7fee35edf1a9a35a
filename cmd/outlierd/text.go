package main

import (
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/jedib0t/go-pretty/v6/text"
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

// width is how many columns of a terminal a harmless text takes.
func width(s string) int { return text.StringWidthWithoutEscSequences(s) }

// clip shortens a text to so many columns of a terminal and makes it harmless.
func clip(s string, columns int) string {
	if columns <= 0 {
		return ""
	}
	return text.Snip(plain(s), columns, "…")
}

// padded fills a text up with spaces to so many columns of a terminal.
func padded(s string, columns int) string {
	return s + strings.Repeat(" ", max(0, columns-width(s)))
}
