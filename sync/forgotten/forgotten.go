// Package forgotten stores the ids whose data was erased and must not be stored again: as keyed
// hashes, from which the ids cannot be recovered. It owns the table forgotten.
package forgotten

import (
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"

	"outlierd/sync/store"
)

// Kind is what an id names.
type Kind string

const (
	Video   Kind = "video"
	Channel Kind = "channel" // with its videos, and the comments by it
	Author  Kind = "author"  // of comments, by the id of the author's channel
)

// ID is an id to forget.
type ID struct {
	Kind Kind
	ID   string
}

// authorMember is the member of a comment that names its author (interface, Video comments).
const authorMember = "authorChannelId"

// Names reports whether a text, the value of a member of an answer, is the id and has its kind: an
// author's id in other members identifies the author's channel.
func (id ID) Names(member, text string) bool {
	return text == id.ID && (id.Kind != Author || member == authorMember)
}

type hash [sha256.Size]byte

// Set is a set of forgotten ids. Nil and the zero Set are empty.
type Set struct {
	salt   []byte
	hashes map[hash]bool
}

// salt has the key of the hashes.
var salt = store.Cell[[]byte]{Key: "forgotten_salt"}

// Load reads the set from the database.
func Load(in store.Reader) (*Set, error) {
	key, err := salt.Get(in)
	if err != nil || key == nil {
		return &Set{}, err
	}
	s := &Set{salt: key, hashes: map[hash]bool{}}
	hashes, err := store.Values[[]byte](in, `SELECT hash FROM forgotten`)
	for _, h := range hashes {
		s.hashes[hash(h)] = true
	}
	return s, err
}

// Empty reports whether nothing was ever forgotten.
func (s *Set) Empty() bool { return s == nil || len(s.hashes) == 0 }

// Has reports whether an id was forgotten.
func (s *Set) Has(id ID) bool { return !s.Empty() && s.hashes[hashOf(s.salt, id)] }

// Mentions is an [outlier.Mention] for all forgotten ids, also in requests: a text in a request has
// no member.
func (s *Set) Mentions(member, text []byte) bool {
	if s.Empty() {
		return false
	}
	switch {
	case string(member) == authorMember && s.Has(ID{Author, string(text)}):
		return true
	case len(text) == videoLength:
		return s.Has(ID{Video, string(text)})
	case len(text) == channelLength:
		return s.Has(ID{Channel, string(text)})
	}
	return false
}

// The lengths of ids (interface, Endpoints). Other texts are not looked up.
const (
	videoLength   = 11
	channelLength = 24
)

func hashOf(salt []byte, id ID) hash {
	mac := hmac.New(sha256.New, salt)
	fmt.Fprintf(mac, "%s %s", id.Kind, id.ID)
	return hash(mac.Sum(nil))
}

// readKey returns the key of the hashes, and creates it on first use.
func readKey(tx *store.Tx) ([]byte, error) {
	key, err := salt.Get(tx)
	if err != nil || key != nil {
		return key, err
	}
	key = make([]byte, sha256.Size)
	rand.Read(key)
	return key, salt.Set(tx, key)
}

// Pseudonyms returns a function that replaces author ids, for states that do not keep them: the
// same id has the same pseudonym in this state, and another one elsewhere.
func Pseudonyms(db *store.Store) (func(id string) string, error) {
	var key []byte
	err := db.Update(func(tx *store.Tx) (err error) {
		key, err = readKey(tx)
		return err
	})
	if err != nil {
		return nil, err
	}
	return func(id string) string {
		h := hashOf(key, ID{"pseudonym", id})
		return "author-" + hex.EncodeToString(h[:8])
	}, nil
}

// Add records ids as forgotten, but not yet erased everywhere until [Finish]. While there are such
// ids, the journal may be changed.
func Add(tx *store.Tx, ids []ID) error {
	key, err := readKey(tx)
	if err != nil {
		return err
	}
	for _, id := range ids {
		h := hashOf(key, id)
		err = errors.Join(err, tx.Exec(`INSERT INTO forgotten (hash, kind, at, erased) VALUES (?, ?, ?, 0)
			ON CONFLICT DO UPDATE SET erased = 0`, h[:], string(id.Kind), store.Micros(tx.Now())))
	}
	return err
}

// Finish records that all ids have been erased, including from the sinks.
func Finish(db *store.Store) error {
	return db.Exec(`UPDATE forgotten SET erased = 1 WHERE erased = 0`)
}

// Unfinished counts the ids that are not yet erased everywhere because the process was stopped.
func Unfinished(db *store.Store) (int, error) {
	return store.Value[int](db, `SELECT count(*) FROM forgotten WHERE erased = 0`)
}
