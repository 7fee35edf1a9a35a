package load

import "outlierd/sync/journal"

// # Decoding once
//
// Whether the answer to a data call has a row is found out before its commit, by decoding it.
// Where all that came before it is in the loader's batch, its rows stay there: the journal is not
// read for it, and it is not decoded a second time. Until the commit they are there on trial. A
// commit that fails, or is tried again, takes them back. What could not be decoded ahead comes
// from the journal, as everything does that an earlier process has left.

// DecodeAhead adds the rows of an answer to the batch before its commit, if it is the next one,
// and reports whether it did. [Loader.SettleAhead] must follow.
func (l *Loader) DecodeAhead(entry *journal.Entry) bool {
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

// SettleAhead keeps the rows on trial if their answer was committed.
func (l *Loader) SettleAhead(committed bool) {
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
func (l *Loader) takeBack() {
	if l.ahead != nil {
		l.decoder.Undo()
		l.ahead = nil
	}
}

// Behind reports whether the journal has answers that could not be decoded ahead.
func (l *Loader) Behind() bool { return l.behind }
