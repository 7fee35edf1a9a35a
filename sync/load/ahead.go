package load

import "outlierd/sync/journal"

// # Decoding once
//
// The answer to a data call is decoded before its commit, to find out whether it has a row. If the
// loader's batch has all earlier answers, the rows are added to it, so that the answer is not read
// from the journal and decoded again. Until the commit they are provisional: if it fails or is
// retried, they are removed. All other answers are read from the journal, including those of an
// earlier process.

// DecodeAhead adds the rows of an answer to the batch before its commit, if it is the next one,
// and reports whether it did. [Loader.SettleAhead] must follow.
func (l *Loader) DecodeAhead(entry *journal.Entry) bool {
	l.removeProvisional()
	if l.hi < 0 || entry.ID != l.hi+1 || l.nextMark() >= 0 || l.hi > l.lo && !fits(l.decoder, entry) {
		return false
	}
	source, ok := l.sourceOf(entry)
	if !ok {
		return false
	}
	if err := l.decoder.Decode(source, entry.Body); err != nil {
		l.decoder.Undo() // discard its drift
		return false
	}
	l.ahead = entry
	return true
}

// SettleAhead keeps the provisional rows if their answer was committed, and removes them otherwise.
func (l *Loader) SettleAhead(committed bool) {
	if l.ahead == nil || !committed {
		l.removeProvisional()
		l.behind = true
		return
	}
	l.hi = l.ahead.ID
	l.decoded(l.ahead)
	l.ahead = nil
}

// removeProvisional removes the provisional rows.
func (l *Loader) removeProvisional() {
	if l.ahead != nil {
		l.decoder.Undo()
		l.ahead = nil
	}
}

// Behind reports whether the batch is full, or the journal has answers that could not be decoded ahead.
func (l *Loader) Behind() bool { return l.behind || l.full() }
