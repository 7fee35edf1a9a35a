package outlier

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"
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
