package engine

import (
	"outlierd/sync/journal"
	"outlierd/sync/ledger"
	"outlierd/sync/queue"
	"outlierd/sync/store"
)

// # Decoding once
//
// Whether the answer to a data call has a row is found out before its commit, by decoding it.
// Where all that came before it is in the loader's batch, its rows stay there: the journal is not
// read for it, and it is not decoded a second time. Until the commit they are there on trial. A
// commit that fails, or is tried again, takes them back. What could not be decoded ahead comes
// from the journal, as everything does that an earlier process has left.

// entryOf is a data call's answer as the journal will give it.
func entryOf(task *queue.Task, kept ledger.Kept, body []byte) *journal.Entry {
	return &journal.Entry{
		ID: kept.Response, Run: task.Run, Job: task.Job, Op: task.Op, Entity: task.Entity,
		ReceivedAt: store.Instant(store.Micros(kept.Answer.ReceivedAt)),
		Status:     kept.Answer.Status, Outcome: kept.Outcome, Body: body,
	}
}

// decodeAhead adds the rows of an answer to the batch before its commit, if it is the next one,
// and reports whether it did. [loader.settleAhead] must follow.
func (l *loader) decodeAhead(entry *journal.Entry) bool {
	l.takeBack()
	if l.hi < 0 || entry.ID != l.hi+1 || l.nextMark() >= 0 || l.full() {
		return false
	}
	source, ok := l.sourceOf(entry)
	if !ok {
		return false
	}
	if err := l.decoder.Decode(source, entry.Body); err != nil {
		l.decoder.Undo() // the drift that it has shown
		return false
	}
	l.ahead = entry
	return true
}

// settleAhead keeps the rows on trial if their answer was committed.
func (l *loader) settleAhead(committed bool) {
	if l.ahead == nil || !committed {
		l.takeBack()
		l.behind = true
		return
	}
	l.hi = l.ahead.ID
	l.decoded(l.ahead)
	l.ahead = nil
}

// takeBack removes the rows on trial.
func (l *loader) takeBack() {
	if l.ahead != nil {
		l.decoder.Undo()
		l.ahead = nil
	}
}
