package outlier

import (
	"encoding/json"
	"fmt"
	"log/slog"
	"strings"
	"testing"
)

func TestKeyIsNeverPrinted(t *testing.T) {
	const secret = "sk-canary-4711"
	key, err := NewKey(secret)
	if err != nil {
		t.Fatal(err)
	}
	hidden := struct{ inner struct{ key Key } }{struct{ key Key }{key}}
	shown := struct {
		Key     Key
		Pointer *Key
		List    []Key
		Map     map[string]Key
		Client  Client
	}{key, &key, []Key{key}, map[string]Key{"k": key}, Client{Key: key}}

	var out strings.Builder
	for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q", "%x", "%X", "%d", "%t", "%p", "%T", "%10.3s", "%!"} {
		for _, value := range []any{key, &key, shown, &shown, hidden, &hidden} {
			fmt.Fprintf(&out, verb+"\n", value)
		}
	}
	for _, handler := range []slog.Handler{slog.NewTextHandler(&out, nil), slog.NewJSONHandler(&out, nil)} {
		slog.New(handler).Info("m", "key", key, "pointer", &key, "shown", shown.List, "hidden", hidden)
	}
	text, err := json.Marshal(map[string]any{"key": key, "list": shown.List, "map": shown.Map, "hidden": hidden})
	if err != nil {
		t.Fatal(err)
	}
	out.Write(text)

	if strings.Contains(out.String(), secret) || strings.Contains(out.String(), fmt.Sprintf("%x", secret)) {
		t.Errorf("the key shows in:\n%s", out.String())
	}
	if got, want := fmt.Sprint(key), "[redacted]"; got != want {
		t.Errorf("printed as %q, want %q", got, want)
	}
}

func TestKeyIsSingleHeaderWord(t *testing.T) {
	for name, tt := range map[string]struct {
		text string
		ok   bool
	}{
		"plain":               {"sk-4711_ABC.=", true},
		"trailing newline":    {"sk-4711\n", true},
		"trailing CRLF":       {"sk-4711\r\n", true},
		"two newlines":        {"sk-4711\n\n", false},
		"empty":               {"", false},
		"only a newline":      {"\n", false},
		"space inside":        {"sk 4711", false},
		"leading space":       {" sk-4711", false},
		"header injection":    {"sk\r\nX-Evil: 1", false},
		"NUL":                 {"sk\x00", false},
		"beyond ASCII":        {"schlüssel", false},
		"delete character":    {"sk\x7f", false},
		"non-breaking blanks": {"sk\u00a04711", false},
	} {
		key, err := NewKey(tt.text)
		if (err == nil) != tt.ok || key.IsZero() == tt.ok {
			t.Errorf("%s: NewKey gave zero=%v, error %v; want accepted=%v", name, key.IsZero(), err, tt.ok)
		}
		if err != nil && len(tt.text) > 1 && strings.Contains(err.Error(), strings.TrimSpace(tt.text)) {
			t.Errorf("%s: the error quotes the text: %v", name, err)
		}
	}
}

func TestKeyFingerprintIsUnique(t *testing.T) {
	a, _ := NewKey("a")
	again, _ := NewKey("a\n")
	b, _ := NewKey("b")
	if a.Fingerprint() != again.Fingerprint() || a.Fingerprint() == b.Fingerprint() || len(a.Fingerprint()) != 16 {
		t.Errorf("fingerprints %q, %q, %q", a.Fingerprint(), again.Fingerprint(), b.Fingerprint())
	}
	if got := (Key{}).Fingerprint(); got != "" {
		t.Errorf("fingerprint of no key: %q", got)
	}
}
