package engine

import (
	"bytes"
	"testing"

	"outlierd/outlier"
	"outlierd/sync/journal"
	"outlierd/sync/queue"
	"outlierd/sync/runs"
)

// TestRowsOnTrialStayOnlyWithTheirAnswer: what is decoded before a commit is in the batch once
// if the commit succeeds, also after several tries, and else not at all.
func TestRowsOnTrialStayOnlyWithTheirAnswer(t *testing.T) {
	t.Parallel()
	bubble(t, jobsFile, func(w *workshop) {
		w.mustRun(runs.OK)
		e, stop := w.open()
		defer stop()
		worker, err := e.newWorker(w.ctx, queue.Filter{})
		if err != nil {
			t.Fatal(err)
		}
		l := worker.loader
		var comments journal.Entry
		for entry, err := range e.Store.Journal.After(0) {
			if err != nil {
				t.Fatal(err)
			}
			if entry.Op == outlier.OpComments && !entry.Missing {
				comments = *entry
				comments.Body = bytes.Clone(entry.Body)
			}
		}
		end := l.hi
		if comments.Body == nil || end == 0 || l.decoder.Rows() != 0 {
			t.Fatalf("the journal ends at %d, and %d rows wait", end, l.decoder.Rows())
		}
		next := func(by int64, body []byte) bool {
			entry := comments
			entry.ID, entry.Body = l.hi+by, body
			return l.decodeAhead(&entry)
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
		l.settleAhead(false)
		check("not committed", end, false, true)

		if next(2, comments.Body) {
			t.Error("an answer was decoded before the one that comes before it")
		}
		l.settleAhead(true)
		check("not the next one", end, false, true)

		if next(1, comments.Body[:len(comments.Body)/2]) || next(1, []byte(`{"items":[],"odd":1}`)) {
			t.Error("an answer without rows was taken")
		}
		l.settleAhead(true)
		check("without rows", end, false, true)

		if !next(1, comments.Body) {
			t.Fatal("the next answer was not decoded")
		}
		once := l.decoder.Rows()
		if !next(1, comments.Body) || l.decoder.Rows() != once {
			t.Errorf("a second try made %d rows of %d", l.decoder.Rows(), once)
		}
		l.settleAhead(true)
		check("committed", end+1, true, false)
		if l.decoder.Rows() != once {
			t.Errorf("%d rows, want %d", l.decoder.Rows(), once)
		}
	})
}
