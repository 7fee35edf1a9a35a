package outlier

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"html"
	"io"
	"regexp"
	"slices"
	"strings"
	"sync"

	"github.com/go-faster/jx"
)

// Key is the account's secret (interface, Authentication). Printed, logged or marshalled, it is always
// "[redacted]". The zero Key means that there is none.
//
// The text is behind a pointer because fmt cannot call the methods of an unexported field: for a Key
// inside another struct it prints only an address.
type Key struct {
	text  *string
	forms func() []form // what [Key.redactBytes] looks for in each answer; a function, as fmt prints what is in a slice
}

const redacted = "[redacted]"

// NewKey returns the key in a text read from a file or the environment, without one trailing newline. A
// key consists of visible ASCII characters, because it is sent in a header. The error never quotes the
// text.
func NewKey(text string) (Key, error) {
	text = strings.TrimSuffix(strings.TrimSuffix(text, "\n"), "\r")
	if text == "" {
		return Key{}, errors.New("the key is empty")
	}
	for i := range len(text) {
		if text[i] <= ' ' || text[i] > '~' {
			return Key{}, fmt.Errorf("the key has a space, a control character or a character outside ASCII "+
				"at position %d of %d; copy it again without quotes or line breaks", i+1, len(text))
		}
	}
	k := Key{text: &text}
	k.forms = sync.OnceValue(k.makeForms)
	return k, nil
}

// IsZero reports whether k is the zero Key.
func (k Key) IsZero() bool { return k.text == nil }

// Fingerprint identifies the key without revealing it: 16 hexadecimal digits of its SHA-256. It is "" for
// the zero Key.
func (k Key) Fingerprint() string {
	if k.IsZero() {
		return ""
	}
	sum := sha256.Sum256([]byte(*k.text))
	return hex.EncodeToString(sum[:8])
}

// authorization returns the header value of the interface, Authentication, rule 1.
func (k Key) authorization() string { return "Api-Key " + *k.text }

// Format implements [fmt.Formatter], so that no verb reaches the text.
func (k Key) Format(f fmt.State, _ rune) { io.WriteString(f, redacted) } // fmt.State keeps no errors

// MarshalText implements [encoding.TextMarshaler].
func (k Key) MarshalText() ([]byte, error) { return []byte(redacted), nil }

// A service may send the key back: an error quotes what it refuses, a debugging tool echoes the headers
// of the request. The key is removed as soon as an answer arrives, so that neither the journal nor
// anything derived from it contains the key.

// minAlone is the minimum length in bytes of a key that is searched for on its own. A shorter one
// may be part of ordinary words, so it is searched for together with its prefix in the header.
const minAlone = 8

// Redact removes the key from a text from outside, or one that is about to leave the program.
func (k Key) Redact(s string) string {
	clean, _ := k.redactBytes([]byte(s))
	return string(clean)
}

// redactBytes removes the key from bytes from outside. It reports whether they contained the key, and returns b
// itself if not.
func (k Key) redactBytes(b []byte) (clean []byte, held bool) {
	if k.IsZero() || !mayHold(b, k.forms()) {
		return b, false
	}
	pattern := k.matchEscaped()
	clean = pattern.ReplaceAllLiteral(b, []byte(redacted))
	if jx.Valid(b) && !jx.Valid(clean) { // a key of digits was, or was within, a number
		clean = pattern.ReplaceAllFunc(b, func(found []byte) []byte { return bytes.Repeat([]byte("9"), len(found)) })
	}
	return clean, !bytes.Equal(clean, b)
}

// form is a text that an answer with the key must contain, and the result of [decodeEscapes] for it.
type form struct{ plain, folded []byte }

// makeForms returns the key and its base64 forms.
func (k Key) makeForms() (all []form) {
	for _, text := range append(k.base64Forms(), k.headerText()) {
		all = append(all, form{[]byte(text), decodeEscapes(decodeEscapes([]byte(text)))})
	}
	return all
}

// mayHold reports whether b may contain the key with these forms. That is much faster to decide than
// where it is.
func mayHold(b []byte, forms []form) bool {
	folded := decodeEscapes(decodeEscapes(b))
	return slices.ContainsFunc(forms, func(f form) bool { return bytes.Contains(b, f.plain) || bytes.Contains(folded, f.folded) })
}

// escapes are the characters that begin an escape. All other bytes stand for themselves.
const escapes = `\%&`

// decodeEscapes decodes the escapes that [Key.matchEscaped] recognizes, and drops backslashes. It returns the text
// itself if there is nothing to decode.
func decodeEscapes(text []byte) []byte {
	at := bytes.IndexAny(text, escapes)
	if at < 0 {
		return text
	}
	out := make([]byte, 0, len(text))
	for ; at >= 0; at = bytes.IndexAny(text, escapes) {
		out, text = append(out, text[:at]...), text[at:]
		c, n := text[0], 0 // the character, and the number of further bytes that encode it
		switch c {
		case '\\':
			if n = 5; !bytes.HasPrefix(text[1:], []byte("u00")) || !readHex(text[4:], &c) {
				n = 0
			}
		case '%':
			for bytes.HasPrefix(text[n+1:], []byte("25")) {
				n += 2
			}
			if readHex(text[n+1:], &c) {
				n += 2
			}
		case '&':
			if end := bytes.IndexByte(text[:min(10, len(text))], ';'); end > 0 {
				if text := html.UnescapeString(string(text[:end+1])); len(text) == 1 {
					c, n = text[0], end
				}
			}
		}
		if c != '\\' || n > 0 {
			out = append(out, c)
		}
		text = text[n+1:]
	}
	return append(out, text...)
}

// readHex reads two hexadecimal digits, and reports whether there are any.
func readHex(b []byte, c *byte) bool {
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

// headerText returns the key, or the header's value if the key is too short.
func (k Key) headerText() string {
	if len(*k.text) < minAlone {
		return k.authorization()
	}
	return *k.text
}

// base64Forms returns the parts of the key's base64 forms that do not depend on the bytes before and after it.
func (k Key) base64Forms() (all []string) {
	for before := range 3 { // bytes in the same group as the first bytes of the key
		padded := append(make([]byte, before), k.headerText()...)
		for _, encoding := range []*base64.Encoding{base64.RawStdEncoding, base64.RawURLEncoding} {
			all = append(all, encoding.EncodeToString(padded)[(8*before+5)/6:8*len(padded)/6])
		}
	}
	return all
}

// matchEscaped matches the key with any of its characters escaped as in JSON, JSON within JSON, an address or
// HTML, and the key in base64. If an escape were missing here, a reader that decodes it would show the
// key.
func (k Key) matchEscaped() *regexp.Regexp {
	var b strings.Builder
	for _, c := range []byte(k.headerText()) { // for example a slash: / \/ \u002f %2f %252f &#47; &#x2f;
		fmt.Fprintf(&b, `(?:\\*%[1]s|(?i:\\+u00%02[2]x|%%(?:25)*%02[2]x|(?:&|\\+u0026)(?:#%[2]d|#x%02[2]x|%[3]s);))`,
			regexp.QuoteMeta(string(c)), c, cmp.Or(entities[c], "none"))
	}
	for _, text := range k.base64Forms() {
		b.WriteString("|" + strings.ReplaceAll(regexp.QuoteMeta(text), "/", `\\*/`))
	}
	return regexp.MustCompile(b.String())
}

// entities has the characters with a name in HTML.
var entities = map[byte]string{'&': "amp", '"': "quot", '<': "lt", '>': "gt", '\'': "apos"}

// redactKey removes the key from an answer that has just arrived. A body that contains it is stored
// decompressed.
func (a *Answer) redactKey(k Key) {
	for _, values := range a.Header {
		for i, value := range values {
			clean, _ := k.redactBytes([]byte(value))
			values[i] = string(clean)
		}
	}
	plain := a.Body
	if a.Encoding == "gzip" {
		opened, used, err := gunzipBody(a.Body)
		switch {
		case err == nil:
			a.opened, a.Body = Lenient(opened), a.Body[:used]
		case errors.Is(err, io.ErrUnexpectedEOF) && jx.Valid(Lenient(opened)):
			a.Body, a.Encoding = opened, "" // only the checksum is missing
		}
		plain = opened
	}
	if clean, held := k.redactBytes(plain); held {
		a.Body, a.Encoding, a.opened = clean, "", nil
	}
}
