package journal

import (
	"bytes"
	"compress/gzip"
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

func TestPackRemembersABodyThatCameAsGzip(t *testing.T) {
	p, err := newPacker()
	if err != nil {
		t.Fatal(err)
	}
	var body bytes.Buffer
	w := gzip.NewWriter(&body)
	if _, err := w.Write([]byte(`{"hits":[]}`)); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	p.pack(&outlier.Answer{Encoding: "gzip", Body: body.Bytes()})
	if len(p.recent.bodies) != 1 {
		t.Fatal("the answer is not remembered")
	}
}
