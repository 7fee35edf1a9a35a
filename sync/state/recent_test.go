package state

import (
	"bytes"
	"testing"

	"outlierd/outlier"
	"outlierd/sync/ledger"
)

// What the first reader gets from memory is what later ones open.
func TestJournalReadsTheSameTwice(t *testing.T) {
	s := open(t, t.TempDir())
	a := answerTo(searchRequest("1"), "")
	a.Body, a.Encoding = gzipped(t, "\xef\xbb\xbf"+`{"hits":[]}`), "gzip"
	buy(t, s, ledger.Purchase{}, a, outlier.Charged)
	for range 2 {
		for _, e := range entries(t, s, 0) {
			if want := []byte(`{"hits":[]}`); !bytes.Equal(e.Body, want) {
				t.Errorf("read %q, want %q", e.Body, want)
			}
		}
	}
}
