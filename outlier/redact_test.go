package outlier

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"html"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/klauspost/compress/gzip"
)

const echoed = `k/9"\%4&sT-1+xyz`

// quoted returns a text as it is written between the quotes of a JSON string, with or without escaped
// HTML characters.
func quoted(s string, forHTML bool) string {
	var b strings.Builder
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(forHTML)
	if err := e.Encode(s); err != nil {
		panic(err) // a string can be written as JSON, and a builder takes it
	}
	return strings.TrimSuffix(b.String(), "\n")[1 : b.Len()-2]
}

// escaped is quoted with every nth character as a \u.
func escaped(s string, nth int) string {
	var b strings.Builder
	for i, c := range s {
		if i%nth == 0 {
			fmt.Fprintf(&b, `\u%04X`, c)
		} else {
			b.WriteString(quoted(string(c), true))
		}
	}
	return b.String()
}

// The key is removed from answers, however it is encoded there.
func TestKeyIsRemovedInAnyEncoding(t *testing.T) {
	basic := func(before string) string { return base64.StdEncoding.EncodeToString([]byte(before + echoed)) }
	for name, text := range map[string]string{
		"JSON":                         quoted(echoed, true),
		"a slash escaped":              strings.ReplaceAll(quoted(echoed, true), "/", `\/`),
		"JSON in JSON":                 quoted(quoted(echoed, true), true),
		"an address":                   url.QueryEscape(echoed),
		"HTML":                         quoted(html.EscapeString(echoed), true),
		"all of it escaped":            escaped(echoed, 1),
		"some of it escaped":           escaped(echoed, 3),
		"JSON in JSON in JSON":         quoted(quoted(escaped(echoed, 2), true), true),
		"an address in an address":     url.QueryEscape(url.QueryEscape(echoed)),
		"a little of an address":       quoted(strings.ReplaceAll(echoed, "/", "%2f"), true),
		"base64":                       basic(""),
		"base64 of the header":         basic("Api-Key "),
		"base64 of something longer":   basic("Authorization: Api-Key "),
		"base64 as used in addresses":  base64.RawURLEncoding.EncodeToString([]byte(echoed)),
		"twice":                        quoted(echoed, true) + " and " + quoted(echoed, true),
		"after an escaped backslash":   `\\` + quoted(echoed, true),
		"after an escaped line feed":   `\n` + quoted(echoed, true),
		"before an escaped backslash":  quoted(echoed, true) + `\\`,
		"after more escapes than here": strings.Repeat(`\\`, 20) + quoted(echoed, true),
	} {
		body := `{"headers":{"authorization":"Api-Key ` + text + `"},"title":"100%25 \"caf\u00e9\" \/ &amp; k"}`
		key, err := NewKey(echoed)
		if err != nil || !json.Valid([]byte(body)) {
			t.Fatalf("%s: %v, %s", name, err, body)
		}
		clean, held := key.redactBytes([]byte(body))
		if !held || !strings.Contains(string(clean), redacted) || !json.Valid(clean) || !strings.HasSuffix(string(clean), body[strings.Index(body, `"title"`):]) {
			t.Errorf("%s: %s\nbecame %s", name, body, clean)
		}
		if tail := quoted(echoed, true)[8:]; strings.Contains(string(clean), tail) {
			t.Errorf("%s: %s is left in %s", name, tail, clean)
		}
	}
}

// TestKeyOfDigitsDamagesNoAnswer in which it stands as a number.
func TestKeyOfDigitsDamagesNoAnswer(t *testing.T) {
	key, err := NewKey("1234567890123")
	if err != nil {
		t.Fatal(err)
	}
	for body, want := range map[string]string{
		`{"a":"Api-Key 1234567890123"}`:             `{"a":"Api-Key [redacted]"}`,
		`{"a":1234567890123,"b":"1234567890123"}`:   `{"a":9999999999999,"b":"9999999999999"}`,
		`[-1234567890123.5e3,701234567890123,null]`: `[-9999999999999.5e3,709999999999999,null]`,
	} {
		if clean, held := key.redactBytes([]byte(body)); !held || string(clean) != want {
			t.Errorf("%s became %s, want %s", body, clean, want)
		}
	}
}

// TestAnswersWithoutKeyStayUnchanged, to the byte.
func TestAnswersWithoutKeyStayUnchanged(t *testing.T) {
	body := `{"hits":[{"id":"k/9","title":"espresso k/9\"\\%4&sT-1+xy \u006b"}]}`
	for _, text := range []string{echoed, "press", "k"} {
		key, err := NewKey(text)
		if err != nil {
			t.Fatal(err)
		}
		a := Answer{Body: []byte(body), Header: http.Header{"X-A": {"espresso"}}}
		a.redactKey(key)
		zipped := Answer{Body: zip(t, body), Encoding: "gzip"}
		zipped.redactKey(key)
		if string(a.Body) != body || zipped.Encoding != "gzip" || !bytes.Equal(zipped.Body, zip(t, body)) {
			t.Errorf("key %q: %s, %q", text, a.Body, zipped.Encoding)
		}
	}
	key, _ := NewKey("press") // which is part of a word, and looked for as it is sent
	if clean, held := key.redactBytes([]byte(`{"a":"Api-Key press","b":"espresso"}`)); !held || string(clean) != `{"a":"[redacted]","b":"espresso"}` {
		t.Errorf("%s", clean)
	}
}

// TestStoredAnswersOmitKey: complete or cut off, compressed or not, a success or not.
func TestStoredAnswersOmitKey(t *testing.T) {
	const secret = "sk-canary-4711"
	key, err := NewKey(secret)
	if err != nil {
		t.Fatal(err)
	}
	page := `{"hits":[],"debug":{"authorization":"Api-Key ` + secret + `"},"more":"` + strings.Repeat("abc ", 99) + `"}`
	packed := zip(t, page)
	for name, wire := range map[string]wire{
		"plain":         answering(200, page, `Content-Type: application/json`, "X-Echo: Api-Key "+secret),
		"packed":        answering(200, string(packed), `Content-Type: application/json`, "Content-Encoding: gzip"),
		"packed, cut":   answering(200, string(packed[:len(packed)-12]), `Content-Type: application/json`, "Content-Encoding: gzip"),
		"cut":           answering(200, page[:len(page)-2], `Content-Type: application/json`),
		"error":         answering(401, `{"status":"error","error":{"message":"no such key sk-canary\u002d4711"}}`, `Content-Type: application/json`),
		"foreign error": answering(502, "<p>Authorization: Api-Key sk&#45;canary-4711</p>", `Content-Type: text/html`),
	} {
		client := &Client{URL: "http://localhost", Key: key, Transport: wire}
		a, err := client.Do(t.Context(), ask(t, OpSearch, nil), &books{})
		if a == nil {
			t.Fatalf("%s: %v", name, err)
		}
		body, _ := a.JSON()
		told := fmt.Sprintf("%s %s %s %v", a.Body, body, a.Header, err)
		if a.Encoding != "" || strings.Contains(told, "4711") || !strings.Contains(told, redacted) {
			t.Errorf("%s: encoding %q, %s", name, a.Encoding, told)
		}
		if cut := strings.Contains(name, "cut"); cut != errors.As(err, new(*Error)) && !strings.Contains(name, "error") {
			t.Errorf("%s: error %v", name, err)
		}
	}
}

func zip(t *testing.T, body string) []byte {
	t.Helper()
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	if _, err := z.Write([]byte(body)); err != nil {
		t.Fatal(err)
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}
