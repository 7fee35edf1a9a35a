package journal_test

import (
	"bytes"
	"testing"

	"outlierd/outlier"
	"outlierd/sync/ledger"
	"outlierd/sync/state/statetest"
)

// What the first reader gets from memory is what later ones open.
func TestJournalReadsTheSameTwice(t *testing.T) {
	t.Parallel()
	s := statetest.Open(t, t.TempDir())
	a := statetest.AnswerTo(statetest.SearchRequest("1"), "")
	a.Body, a.Encoding = outlier.Pack([]byte("\xef\xbb\xbf"+`{"hits":[]}`)), "gzip"
	statetest.Buy(t, s, ledger.Purchase{}, a, outlier.Charged)
	for range 2 {
		for _, e := range statetest.Entries(t, s, 0) {
			if want := []byte(`{"hits":[]}`); !bytes.Equal(e.Body, want) {
				t.Errorf("read %q, want %q", e.Body, want)
			}
		}
	}
}
