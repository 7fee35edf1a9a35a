package outlier

import (
	"bytes"
	"cmp"
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"html"
	"io"
	"regexp"
	"slices"
	"strings"

	"github.com/go-faster/jx"
	"github.com/klauspost/compress/gzip"
)

// A service may send the key back: an error quotes what it refuses, a debugging aid echoes
// the headers of the request. The key is taken out as soon as an answer has arrived, so that
// neither the journal nor anything that is made of it can hold the key.

// shortestAlone is the length in bytes from which a key is looked for by itself. A shorter
// one may be part of ordinary words, and is looked for as it stands in the header.
const shortestAlone = 8

// Redact takes the key out of a text that is about to leave the program.
func (k Key) Redact(s string) string { return k.redact(s) }

// redact takes the key out of a text that came from outside.
func (k Key) redact(s string) string {
	clean, _ := k.scrub([]byte(s))
	return string(clean)
}

// scrub takes the key out of bytes that came from outside. It reports whether they held
// the key, and returns b itself if not.
func (k Key) scrub(b []byte) (clean []byte, held bool) { return k.remove(k.forms(), b) }

// remove is scrub with the key's forms, for one who has them.
func (k Key) remove(forms []form, b []byte) (clean []byte, held bool) {
	if !mayHold(b, forms) {
		return b, false
	}
	pattern := k.pattern()
	clean = pattern.ReplaceAllLiteral(b, []byte(redacted))
	if jx.Valid(b) && !jx.Valid(clean) { // a key of digits was, or was within, a number
		clean = pattern.ReplaceAllFunc(b, func(found []byte) []byte { return bytes.Repeat([]byte("9"), len(found)) })
	}
	return clean, !bytes.Equal(clean, b)
}

// form is one of the texts that an answer which holds the key has, and what [fold] makes of it.
type form struct{ plain, folded []byte }

// forms are the key and all that base64 may make of it, each once; none of the zero key.
func (k Key) forms() (all []form) {
	if k.IsZero() {
		return nil
	}
	texts := append(k.base64(), k.sent())
	slices.Sort(texts)
	for _, text := range slices.Compact(texts) {
		all = append(all, form{[]byte(text), fold(fold([]byte(text)))})
	}
	return all
}

// mayHold reports whether b may hold the key of these forms, which is found out much faster
// than where.
func mayHold(b []byte, forms []form) bool {
	if len(forms) == 0 {
		return false
	}
	folded := fold(b)
	escaped := len(folded) != len(b) || len(b) > 0 && &folded[0] != &b[0]
	if escaped {
		folded = fold(folded)
	}
	return slices.ContainsFunc(forms, func(f form) bool {
		return bytes.Contains(b, f.plain) || escaped && bytes.Contains(folded, f.folded)
	})
}

// escapes finds the bytes with which an escape begins. All others stand for themselves.
type escapes struct {
	in []byte
	at [3]int // where the first one of each kind is, not before where it was asked for last
}

// after is where the first escape at or after i begins; the end if there is none. To ask for
// all of them in their order takes one pass for each kind.
func (e *escapes) after(i int) int {
	first := len(e.in)
	for kind, c := range [...]byte{'\\', '%', '&'} {
		if e.at[kind] < i || i == 0 {
			if e.at[kind] = len(e.in); i < len(e.in) {
				if n := bytes.IndexByte(e.in[i:], c); n >= 0 {
					e.at[kind] = i + n
				}
			}
		}
		first = min(first, e.at[kind])
	}
	return first
}

// fold undoes the escapes that [Key.pattern] knows, and drops backslashes. It returns the text itself
// if there is nothing to undo.
func fold(text []byte) []byte {
	find := escapes{in: text}
	at := find.after(0)
	if at == len(text) {
		return text
	}
	out := append(make([]byte, 0, len(text)), text[:at]...)
	for at < len(text) {
		b := text[at:]
		c, n := b[0], 0 // the character, and how many bytes more spell it
		switch c {
		case '\\':
			if n = 5; !bytes.HasPrefix(b[1:], []byte("u00")) || !unhex(b[4:], &c) {
				n = 0
			}
		case '%':
			for bytes.HasPrefix(b[n+1:], []byte("25")) {
				n += 2
			}
			if unhex(b[n+1:], &c) {
				n += 2
			}
		case '&':
			if end := bytes.IndexByte(b[:min(10, len(b))], ';'); end > 0 {
				if text := html.UnescapeString(string(b[:end+1])); len(text) == 1 {
					c, n = text[0], end
				}
			}
		}
		if c != '\\' || n > 0 {
			out = append(out, c)
		}
		from := at + n + 1
		at = find.after(from)
		out = append(out, text[from:at]...)
	}
	return out
}

// unhex reads two hexadecimal digits, if there are.
func unhex(b []byte, c *byte) bool {
	var one [1]byte
	if len(b) < 2 {
		return false
	}
	_, err := hex.Decode(one[:], b[:2])
	if err == nil {
		*c = one[0]
	}
	return err == nil
}

// sent is the key, or if that is too short the header's value.
func (k Key) sent() string {
	if len(*k.text) < shortestAlone {
		return k.authorization()
	}
	return *k.text
}

// base64 is what base64 always has of the key, whichever bytes stand before and after it.
func (k Key) base64() (all []string) {
	for before := range 3 { // bytes that stand in a group with the first of the key
		padded := append(make([]byte, before), k.sent()...)
		for _, encoding := range []*base64.Encoding{base64.RawStdEncoding, base64.RawURLEncoding} {
			all = append(all, encoding.EncodeToString(padded)[(8*before+5)/6:8*len(padded)/6])
		}
	}
	return all
}

// pattern matches the key with any of its characters escaped as in JSON, JSON within JSON,
// an address or HTML, and the key in base64. An escape that is not looked for would be undone
// by any reader of the answer, and show the key.
func (k Key) pattern() *regexp.Regexp {
	var b strings.Builder
	for _, c := range []byte(k.sent()) { // a slash, for one: / \/ \u002f %2f %252f &#47; &#x2f;
		fmt.Fprintf(&b, `(?:\\*%[1]s|(?i:\\+u00%02[2]x|%%(?:25)*%02[2]x|(?:&|\\+u0026)(?:#%[2]d|#x%02[2]x|%[3]s);))`,
			regexp.QuoteMeta(string(c)), c, cmp.Or(entities[c], "none"))
	}
	for _, text := range k.base64() {
		b.WriteString("|" + strings.ReplaceAll(regexp.QuoteMeta(text), "/", `\\*/`))
	}
	return regexp.MustCompile(b.String())
}

// entities are the characters that have a name in HTML.
var entities = map[byte]string{'&': "amp", '"': "quot", '<': "lt", '>': "gt", '\'': "apos"}

// redact takes the key out of an answer that has just arrived. A body that holds it is kept
// without its encoding from here on, and else as it came.
func (a *Answer) redact(k Key) {
	forms := k.forms()
	for _, values := range a.Header {
		for i, value := range values {
			clean, _ := k.remove(forms, []byte(value))
			values[i] = string(clean)
		}
	}
	plain := a.Body
	if a.Encoding == "gzip" {
		opened, used, err := inflate(a.Body)
		if err == nil {
			a.opened, a.Body = withoutMark(opened), a.Body[:used]
		} else {
			opened = beginning(a.Body)
		}
		plain = opened
	}
	if clean, held := k.remove(forms, plain); held {
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
