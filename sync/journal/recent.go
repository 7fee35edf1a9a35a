package journal

import (
	"crypto/sha256"
	"sync"
)

// maxRecent is how many bytes of decompressed bodies are cached: those of a group and more.
const maxRecent = 4 << 20

// recent caches the decompressed bodies stored last for the first reader of the journal, which
// usually follows the calls closely. The key is the checksum of the stored body: the journal still
// verifies it against the database, and only avoids decompressing the same bytes again.
type recent struct {
	mu     sync.Mutex
	bodies map[[sha256.Size]byte][]byte
	size   int
}

// put caches a body, and drops all others if the cache is full.
func (r *recent) put(sum, body []byte) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.size += len(body); r.bodies == nil || r.size > maxRecent {
		r.bodies, r.size = map[[sha256.Size]byte][]byte{}, len(body)
	}
	r.bodies[[sha256.Size]byte(sum)] = body
}

// take removes a body from the cache and returns it; nil if it is not cached.
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
