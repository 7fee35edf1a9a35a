package load

import (
	"context"
	"log/slog"
	"os"
	"path/filepath"
	"testing"

	"outlierd/outlier"
	"outlierd/sinks"
	"outlierd/sync/journal"
	"outlierd/sync/state/statetest"
)

// blankSink is a sink that has nothing and is written nothing.
type blankSink struct{ sinks.Sink }

func (blankSink) Name() string { return "blank" }

func (blankSink) Watermark(context.Context) (int64, error) { return 0, nil }

// TestRowsOnTrialStayOnlyWithTheirAnswer: what is decoded before a commit is in the batch once
// if the commit succeeds, also after several tries, and else not at all.
func TestRowsOnTrialStayOnlyWithTheirAnswer(t *testing.T) {
	t.Parallel()
	store := statetest.Open(t, t.TempDir())
	l, err := New(t.Context(), store, []sinks.Sink{blankSink{}}, slog.New(slog.DiscardHandler), func() {})
	if err != nil {
		t.Fatal(err)
	}
	body, err := os.ReadFile(filepath.Join("..", "..", "schema", "testdata", "examples", string(outlier.OpComments)+".json"))
	if err != nil {
		t.Fatal(err)
	}
	comments := journal.Entry{Op: outlier.OpComments, Entity: "dQw4w9WgXcQ", Status: 200, Outcome: outlier.Charged, Body: body}
	const end = 0 // of the journal
	next := func(by int64, body []byte) bool {
		entry := comments
		entry.ID, entry.Body = l.hi+by, body
		return l.DecodeAhead(&entry)
	}
	check := func(when string, hi int64, rows bool, behind bool) {
		t.Helper()
		if l.hi != hi || l.decoder.Rows() > 0 != rows || l.behind != behind || len(l.drift) > 0 || l.ahead != nil {
			t.Errorf("%s: up to %d, %d rows, behind %v, drift %v", when, l.hi, l.decoder.Rows(), l.behind, l.drift)
		}
		l.behind = false
	}

	if !next(1, comments.Body) || l.decoder.Rows() == 0 {
		t.Fatal("the next answer was not decoded")
	}
	l.SettleAhead(false)
	check("not committed", end, false, true)

	if next(2, comments.Body) {
		t.Error("an answer was decoded before the one that comes before it")
	}
	l.SettleAhead(true)
	check("not the next one", end, false, true)

	if next(1, comments.Body[:len(comments.Body)/2]) || next(1, []byte(`{"items":[],"odd":1}`)) {
		t.Error("an answer without rows was taken")
	}
	l.SettleAhead(true)
	check("without rows", end, false, true)

	if !next(1, comments.Body) {
		t.Fatal("the next answer was not decoded")
	}
	once := l.decoder.Rows()
	if !next(1, comments.Body) || l.decoder.Rows() != once {
		t.Errorf("a second try made %d rows of %d", l.decoder.Rows(), once)
	}
	l.SettleAhead(true)
	check("committed", end+1, true, false)
	if l.decoder.Rows() != once {
		t.Errorf("%d rows, want %d", l.decoder.Rows(), once)
	}
}
