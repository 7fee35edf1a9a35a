package ledger

import (
	"errors"
	"slices"
	"time"

	"outlierd/sync/store"
)

// BlockKind says which calls a block refuses. Blocks caused by the service are named after the HTTP
// status.
type BlockKind string

// The kinds of blocks.
const (
	BlockCredits BlockKind = "402" // paid calls: there are no credits left
	BlockKey     BlockKind = "401" // all calls: the service refused the key

	// BlockClock refuses paid calls while the clocks of the service and of this machine do not agree
	// on a new period. It does not depend on a key. A person's confirmation of its reason sets Until.
	BlockClock BlockKind = "clock"
)

// Blocks is the record of the blocks of calls.
type Blocks struct{ db *store.Store }

// Block refuses all calls of its kind until it ends or is lifted.
type Block struct {
	Kind   BlockKind `json:"block"`
	Key    string    `json:"-"` // fingerprint of the key that met the refusal
	Reason string    `json:"reason"`
	Since  time.Time `json:"since"`
	Until  time.Time `json:"until,omitzero"` // zero if only [LiftBlock] ends it
}

func (b *Block) columns() store.Columns {
	return store.Columns{
		"kind": &b.Kind, "key": &b.Key, "reason": &b.Reason, "since": store.Time(&b.Since), "until": store.Time(&b.Until),
	}
}

// BlockFor is how long a block for lack of credits lasts before one call tries again.
const BlockFor = 24 * time.Hour

// Stands reports whether the block is in force at a time. An end later than blocks are set for was
// set by a wrong clock and is ignored.
func (b *Block) Stands(now time.Time) bool {
	return b.Until.IsZero() || now.Before(b.Until) && b.Until.Sub(now) <= BlockFor+Skew
}

// SetBlock blocks calls for a key until the given time, or until it is lifted if that is zero. A block
// already in force keeps its start time.
func SetBlock(in store.Writer, kind BlockKind, key, reason string, until time.Time) error {
	b := Block{Kind: kind, Key: key, Reason: store.Bounded(reason), Since: time.Now(), Until: until}
	return store.Insert(in, "blocks", b.columns(), `ON CONFLICT DO UPDATE SET reason = excluded.reason, until = excluded.until`)
}

// LiftBlock lifts a block of a key; nothing happens if there is none.
func LiftBlock(in store.Writer, kind BlockKind, key string) error {
	return in.Exec(`DELETE FROM blocks WHERE kind = ? AND key = ?`, kind, key)
}

// Get returns the block of a key, even if it has expired, which the caller must check; nil if
// there is none. Without a key, as in a reader, it returns the last block of any key.
func (bs *Blocks) Get(kind BlockKind, key string) (*Block, error) {
	all, err := bs.blocksOf(key)
	if at := slices.IndexFunc(all, func(b Block) bool { return b.Kind == kind }); at >= 0 {
		return &all[at], err
	}
	return nil, err
}

// Standing returns the blocks of a key, and that of the clock, which are in force at a time. Without a key it
// returns the last ones of any key.
func (bs *Blocks) Standing(key string, at time.Time) ([]Block, error) {
	all, err := bs.blocksOf(key)
	return slices.DeleteFunc(all, func(b Block) bool { return !b.Stands(at) }), err
}

// Liftable returns the blocks of a key, and that of the clock unless it has an end, in the order in
// which they began.
func (bs *Blocks) Liftable(key string) ([]Block, error) {
	all, err := bs.blocksOf(key)
	all = slices.DeleteFunc(all, func(b Block) bool { return b.Kind == BlockClock && !b.Until.IsZero() })
	slices.SortFunc(all, func(a, b Block) int { return a.Since.Compare(b.Since) })
	return all, err
}

// blocksOf returns the blocks of a key, and that of the clock, even if they have expired, by their kinds.
func (bs *Blocks) blocksOf(key string) ([]Block, error) {
	all, err := store.Select(bs.db, (*Block).columns, `FROM blocks WHERE ?1 IN ('', key) OR kind = ?2
		ORDER BY kind, since DESC`, key, BlockClock)
	return slices.CompactFunc(all, func(a, b Block) bool { return a.Kind == b.Kind }), err
}

// Lift lifts the blocks of a key, and ends that of the clock.
func Lift(tx *store.Tx, key string) error {
	return errors.Join(tx.Exec(`DELETE FROM blocks WHERE key = ? AND kind IN (?, ?)`, key, BlockCredits, BlockKey),
		tx.Exec(`UPDATE blocks SET until = ? WHERE kind = ? AND until = 0`, store.Micros(time.Now()), BlockClock))
}
