package outlier

import (
	"bytes"
	"cmp"
	"encoding/base64"
	"encoding/json"
	"html"
	"io"
	"net/url"
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
	clean, _ := k.scrub([]byte(s))
	return string(clean)
}

// scrub takes the key out of bytes that came from outside. It reports whether they held
// the key, and returns b itself if not.
func (k Key) scrub(b []byte) (clean []byte, held bool) {
	if k.IsZero() {
		return b, false
	}
	for _, spelling := range k.spellings() {
		if bytes.Contains(b, []byte(spelling)) {
			b, held = bytes.ReplaceAll(b, []byte(spelling), []byte(redacted)), true
		}
	}
	return b, held
}

// spellings are the ways in which software writes the key into a text: as it is, quoted in
// JSON and in JSON within JSON, in an address, in HTML, and in base64. The longest come
// first, since one may be a part of another.
func (k Key) spellings() []string {
	text := *k.text
	if len(text) < shortestAlone {
		text = k.authorization()
	}
	all := []string{text, url.QueryEscape(text), url.PathEscape(text), html.EscapeString(text)}
	for range 2 {
		for _, s := range slices.Clone(all) {
			for _, forHTML := range []bool{false, true} {
				q := quoted(s, forHTML)
				all = append(all, q, strings.ReplaceAll(q, "/", `\/`))
			}
		}
	}
	for before := range 3 { // bytes that base64 may put into a group with the first of the key
		padded := append(make([]byte, before), text...)
		from, to := (8*before+5)/6, 8*len(padded)/6 // what the bytes around the key do not change
		all = append(all, base64.RawStdEncoding.EncodeToString(padded)[from:to], base64.RawURLEncoding.EncodeToString(padded)[from:to])
	}
	slices.SortFunc(all, func(a, b string) int { return cmp.Or(len(b)-len(a), strings.Compare(a, b)) })
	return slices.Compact(all)
}

// quoted is a text as it stands between the quotes of a JSON text, with what HTML gives a
// meaning to escaped as well or not.
func quoted(s string, forHTML bool) string {
	var b strings.Builder
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(forHTML)
	if err := e.Encode(s); err != nil {
		panic(err) // a string can be written as JSON, and a builder takes it
	}
	return strings.TrimSuffix(b.String(), "\n")[1 : b.Len()-2]
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
