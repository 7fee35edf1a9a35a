package outlier

import (
	"bytes"
	"encoding/base64"
	"html"
	"io"
	"slices"
	"strings"

	"github.com/klauspost/compress/gzip"
)

// A service may send the key back: an error quotes what it refuses, a debugging aid echoes
// the headers of the request. The key is taken out as soon as an answer has arrived, so that
// neither the journal nor anything that is made of it can hold the key.

// shortestAlone is the length in bytes from which a key is looked for by itself. A shorter
// one may be part of ordinary words, and is looked for as it stands in the header.
const shortestAlone = 8

// redact takes the key out of a text that came from outside.
func (k Key) redact(s string) string {
	if k.IsZero() {
		return s
	}
	clean, _ := k.scrub([]byte(strings.ReplaceAll(s, *k.text, redacted)))
	return string(clean)
}

// scrub takes the key out of bytes that came from outside, also where some or all of its
// characters are escaped as in JSON, an address or HTML, or where it is in base64. It
// reports whether they held the key, and returns b itself if not.
func (k Key) scrub(b []byte) (clean []byte, held bool) {
	if k.IsZero() {
		return b, false
	}
	needles := k.needles()
	var starts [256]bool
	for _, needle := range needles {
		starts[needle[0]] = true
	}
	var out []byte
	from := 0
	for i := 0; i < len(b); i++ {
		if !starts[b[i]] && !escapes(b[i]) {
			continue
		}
		n := longest(b[i:], needles)
		if n == 0 {
			continue
		}
		out = append(out, b[from:i]...)
		if slashes := len(out) - len(bytes.TrimRight(out, `\`)); slashes%2 == 1 {
			out = out[:len(out)-1] // it escaped the first character of the key
		}
		out = append(out, redacted...)
		from, i = i+n, i+n-1
	}
	if from == 0 {
		return b, false
	}
	return append(out, b[from:]...), true
}

// needles are the texts to look for: the key, and what of it base64 always has, whichever
// bytes stand before and after it.
func (k Key) needles() []string {
	text := *k.text
	if len(text) < shortestAlone {
		text = k.authorization()
	}
	all := []string{text}
	for before := range 3 {
		padded := append(make([]byte, before), text...)
		for _, encoding := range []*base64.Encoding{base64.RawStdEncoding, base64.RawURLEncoding} {
			encoded := encoding.EncodeToString(padded)
			encoded = encoded[(8*before+5)/6 : 8*len(padded)/6]
			if !slices.Contains(all, encoded) {
				all = append(all, encoded)
			}
		}
	}
	return all
}

// longest is how many bytes at the beginning of b spell one of the texts; 0 if they spell
// none.
func longest(b []byte, texts []string) (most int) {
	first := spelled(b)
	for _, text := range texts {
		plain := b[0] == text[0] && len(b) > 1 && (b[1] == text[1] || escapes(b[1]))
		if plain || slices.ContainsFunc(first[:], func(l letter) bool { return l.n > 0 && l.c == text[0] }) {
			most = max(most, spell(b, text))
		}
	}
	return most
}

// spell is how many bytes at the beginning of b spell the text; 0 if they do not.
func spell(b []byte, text string) int {
	ends, next := []int{0}, []int(nil) // where the text up to here may end
	for _, c := range []byte(text) {
		next = next[:0]
		reach := func(end int) {
			if !slices.Contains(next, end) {
				next = append(next, end)
			}
		}
		for _, end := range ends {
			if end == len(b) {
				continue
			}
			if b[end] == c {
				reach(end + 1)
			}
			for _, l := range spelled(b[end:]) {
				if l.n > 0 && l.c == c {
					reach(end + l.n)
				}
			}
		}
		if len(next) == 0 {
			return 0
		}
		ends, next = next, ends
	}
	return slices.Max(ends)
}

// escapes reports whether a byte begins an escape.
func escapes(c byte) bool { return c == '\\' || c == '%' || c == '&' }

// nested is how often an escape may be escaped again.
const nested = 8

// letter is a character that n bytes spell.
type letter struct {
	c byte
	n int
}

// spelled are the characters that the beginning of b spells, if it is an escape.
func spelled(b []byte) (all [3]letter) {
	switch b[0] {
	case '\\': // \/ and \u002f, in a text within a text \\/ and \\u002f
		run := 1
		for run < min(nested, len(b)) && b[run] == '\\' {
			run++
		}
		all[0] = letter{'\\', run}
		if rest := b[run:]; len(rest) > 0 {
			all[1] = letter{rest[0], run + 1}
		}
		if rest := b[run:]; len(rest) > 4 && rest[0] == 'u' {
			all[2] = letter{coded(rest[1:5]), run + 5}
		}
	case '%': // %2F, and %252F
		n := 1
		for n < 2*nested && bytes.HasPrefix(b[n:], []byte("25")) {
			n += 2
		}
		all[0] = letter{'%', n}
		if n+2 <= len(b) {
			all[1] = letter{coded(b[n : n+2]), n + 2}
		}
	case '&': // &amp; and &#x2F;
		if end := bytes.IndexByte(b[:min(len(b), 10)], ';'); end > 0 {
			if c := html.UnescapeString(string(b[:end+1])); len(c) == 1 {
				all[0] = letter{c[0], end + 1}
			}
		}
	}
	return all
}

// coded is the ASCII character with a code in hexadecimal digits; 0 if there is none.
func coded(digits []byte) byte {
	code := 0
	for _, c := range digits {
		digit := strings.IndexByte("0123456789abcdef", c|0x20)
		if digit < 0 {
			return 0
		}
		code = 16*code + digit
	}
	if code > '~' {
		return 0
	}
	return byte(code)
}

// redact takes the key out of an answer that has just arrived. A body that holds it is kept
// without its encoding from here on, and else as it came.
func (a *Answer) redact(k Key) {
	for _, values := range a.Header {
		for i, value := range values {
			values[i] = k.redact(value)
		}
	}
	plain := a.Body
	if a.Encoding == "gzip" {
		opened, err := open(a.Body, a.Encoding)
		if err == nil {
			a.opened = opened
		} else {
			opened = beginning(a.Body)
		}
		plain = opened
	}
	if clean, held := k.scrub(plain); held {
		a.Body, a.Encoding, a.opened = clean, "", nil
	}
}

// beginning is as much of a gzipped body as can be inflated.
func beginning(body []byte) []byte {
	z, err := gzip.NewReader(bytes.NewReader(body))
	if err != nil {
		return nil
	}
	var b bytes.Buffer
	_, _ = b.ReadFrom(io.LimitReader(z, maxOpen)) // what came before an error is what is wanted
	return b.Bytes()
}
