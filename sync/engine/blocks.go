package engine

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"outlierd/outlier"
	"outlierd/sync/ledger"
)

// # Blocks
//
// Without credits the service refuses every paid call, and with a refused key every call. To try again
// for each page would only use up the rate limit, so the refusal is recorded as a block of the key.
// Paid calls are tried again in the next billing cycle, after `outlierd budget resume`, and once a
// day. A refused key is tried again when it changes, or when a person runs a job by hand. A new key
// has no blocks. The key's file is read again when a run starts, and whenever the
// old key is refused or blocked.

// blocked returns the error that the service would return for a call, if a block of the key says so.
func (c *caller) blocked(r *outlier.Request) error {
	block, err := c.blockOf(ledger.BlockKey)
	if err == nil && block != nil {
		return &outlier.Error{Kind: outlier.Unauthorized, Op: r.Op(), Entity: r.Entity(),
			Message: fmt.Sprintf("%s (refused %s; "+
				"tried again when the key changes, or when you run something by hand)",
				block.Reason, showTime(block.Since, c.engine.Config))}
	}
	if err != nil || !r.Paid() {
		return err
	}
	block, err = c.blockOf(ledger.BlockCredits)
	if err != nil || block == nil || !block.Stands(c.engine.Store.Clock.Now()) {
		return err
	}
	return &outlier.Error{Kind: outlier.NoCredits, Op: r.Op(),
		Message: fmt.Sprintf("%s (refused %s; tried again after %s, or at once after 'outlierd budget resume')",
			block.Reason, showTime(block.Since, c.engine.Config), showTime(block.Until, c.engine.Config))}
}

// blockOf returns a block of the key, or nil. If there is one, it reads the key again, and a new key has
// its own blocks.
func (c *caller) blockOf(which ledger.BlockKind) (*ledger.Block, error) {
	block, err := c.engine.Store.Blocks.Get(which, c.engine.Client.Key.Fingerprint())
	if err != nil || block == nil || !c.engine.rekeyed() {
		return block, err
	}
	return c.engine.Store.Blocks.Get(which, c.engine.Client.Key.Fingerprint())
}

// rekeyed reads the key again and reports whether it has changed. If the file cannot be read, or names
// another address, the old key stays in use, and the reason is logged once.
func (e *Engine) rekeyed() bool {
	if e.Rekey == nil {
		return false
	}
	key, err := e.Rekey()
	if err != nil {
		if e.unread != err.Error() {
			e.log().Warn("key not read again, the old one stays in use", "err", err)
		}
		e.unread = err.Error()
		return false
	}
	e.unread = ""
	if key.Fingerprint() == e.Client.Key.Fingerprint() {
		return false
	}
	e.Client.Key = key
	e.key.Store(&key)
	e.Pace.Own(key.Fingerprint())
	e.log().Info("key changed")
	return true
}

// noteBlock records a block after a refusal, and removes blocks after a paid call has succeeded.
func (c *caller) noteBlock(r *outlier.Request, err error) error {
	db, key, now := c.engine.Store.DB, c.engine.Client.Key.Fingerprint(), c.engine.Store.Clock.Now()
	switch kind := judge(err).kind; {
	case kind == outlier.NoCredits:
		_, turn := ledger.CycleBounds(now, c.engine.Config.Timezone, c.engine.Config.Budget.Renews)
		return ledger.SetBlock(db, ledger.BlockCredits, key, refusal(err), earlier(turn, now.Add(ledger.BlockFor)))
	case kind == outlier.Unauthorized:
		return ledger.SetBlock(db, ledger.BlockKey, key, refusal(err), time.Time{})
	case err == nil && r.Paid():
		return errors.Join(ledger.LiftBlock(db, ledger.BlockCredits, key), ledger.LiftBlock(db, ledger.BlockClock, ""))
	}
	return nil
}

// refusal returns the service's message without the operation and entity of the call.
func refusal(err error) string {
	e, ok := errors.AsType[*outlier.Error](err)
	if !ok {
		return err.Error()
	}
	bare := *e
	bare.Op, bare.Entity = "", ""
	return strings.TrimPrefix(bare.Error(), ": ")
}
