package journal

import (
	"crypto/sha256"
	"sync"
)

// maxRecent is how many bytes of open bodies are remembered: those of a group and
// more.
const maxRecent = 4 << 20

// recent remembers for the first reader of the journal, who usually comes right
// behind the calls, what the bodies kept last are when opened. A body is found by
// the checksum of its kept form: the journal verifies that against what the database
// has, as always, and is spared only to inflate the same bytes a second time.
type recent struct {
	mu     sync.Mutex
	bodies map[[sha256.Size]byte][]byte
	size   int
}

// put remembers a body, in the place of all others if they have become too many.
func (r *recent) put(sum, body []byte) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.size += len(body); r.bodies == nil || r.size > maxRecent {
		r.bodies, r.size = map[[sha256.Size]byte][]byte{}, len(body)
	}
	r.bodies[[sha256.Size]byte(sum)] = body
}

// take returns a body and forgets it; nil if it is not remembered.
func (r *recent) take(sum []byte) []byte {
	r.mu.Lock()
	defer r.mu.Unlock()
	body := r.bodies[[sha256.Size]byte(sum)]
	if body != nil {
		r.size -= len(body)
		delete(r.bodies, [sha256.Size]byte(sum))
	}
	return body
}
