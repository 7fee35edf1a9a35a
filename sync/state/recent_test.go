package state

import (
	"bytes"
	"crypto/sha256"
	"testing"

	"outlierd/outlier"
)

func TestRecentGivesABodyOnce(t *testing.T) {
	var r recent
	a, b := sha256.Sum256([]byte("a")), sha256.Sum256([]byte("b"))
	if got := r.take(a[:]); got != nil {
		t.Errorf("an empty memory holds %q", got)
	}
	r.put(a[:], []byte("body a"))
	r.put(b[:], []byte("body b"))
	if got := r.take(a[:]); string(got) != "body a" {
		t.Errorf("took %q", got)
	}
	if got := r.take(a[:]); got != nil {
		t.Errorf("took %q a second time", got)
	}
	if r.size != len("body b") {
		t.Errorf("%d bytes are counted for one body", r.size)
	}
}

func TestRecentStaysSmall(t *testing.T) {
	var r recent
	body := make([]byte, maxRecent/4)
	for i := range byte(20) {
		sum := sha256.Sum256([]byte{i})
		r.put(sum[:], body)
		if held := len(r.bodies) * len(body); held > maxRecent || held != r.size {
			t.Fatalf("%d bytes are held and %d counted, with a bound of %d", held, r.size, maxRecent)
		}
	}
}

// What the first reader gets from memory is what later ones open.
func TestJournalReadsTheSameTwice(t *testing.T) {
	s := open(t, t.TempDir())
	a := answerTo(searchRequest("1"), "")
	a.Body, a.Encoding = gzipped(t, "\xef\xbb\xbf"+`{"hits":[]}`), "gzip"
	buy(t, s, Purchase{}, a, outlier.Charged)
	if len(s.pack.recent.bodies) != 1 {
		t.Fatal("the answer is not remembered")
	}
	for range 2 {
		for _, e := range entries(t, s, 0) {
			if want := []byte(`{"hits":[]}`); !bytes.Equal(e.Body, want) {
				t.Errorf("read %q, want %q", e.Body, want)
			}
		}
	}
}
