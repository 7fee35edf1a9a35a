package pace

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"time"
)

// note is what the file holds.
type note struct {
	Owner string `json:",omitempty"`
	Out   int    // granted or about to be, completion not recorded
	memory
}

// advance is how many requests one writing of the file covers.
func (c *core) advance() int { return max(1, c.quota.Requests/100) }

// text is what the file should hold now.
func (c *core) text(owner string) ([]byte, error) {
	c.Quota = c.quota
	return json.Marshal(note{Owner: owner, Out: c.out + c.prepaid, memory: c.memory})
}

// save writes the file anew beside the old one and renames it. It is not synced:
// the rename survives a kill of this process, and a power loss costs one window at most.
func (l *Limiter) save() error {
	if l.options.Path == "" {
		return nil
	}
	text, err := l.core.text(l.options.Owner)
	if err == nil {
		err = os.WriteFile(l.options.Path+".tmp", text, 0o600)
	}
	if err == nil {
		err = os.Rename(l.options.Path+".tmp", l.options.Path)
	}
	if err != nil {
		return fmt.Errorf("remember the pace: %w", err)
	}
	return nil
}

// load reads the file. No file, or that of another owner, is a fresh window; a limiter without an
// owner, as of a reader that has no key, believes whichever file is there. A
// file that cannot be understood, as a power loss may leave it, tells one thing all
// the same: nothing left after it was written. What left before is gone one window
// after that, and by then nothing is lost.
func (l *Limiter) load(now time.Time) error {
	if l.options.Path == "" {
		return nil
	}
	text, err := os.ReadFile(l.options.Path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	var written time.Time
	if err == nil {
		written, err = modified(l.options.Path)
	}
	if err != nil {
		return fmt.Errorf("remember the pace: %w", err)
	}
	switch n, ok := understand(text); {
	case !ok:
		l.core.Log.add(cell{At: earliest(written, now), Own: l.core.quota.Requests}, 0)
	case n.Owner == l.options.Owner, l.options.Owner == "":
		l.core.resume(n, now)
	}
	l.core.forget(now)
	return nil
}

func modified(path string) (time.Time, error) {
	info, err := os.Stat(path)
	if err != nil {
		return time.Time{}, err
	}
	return info.ModTime(), nil
}

func understand(text []byte) (n note, ok bool) {
	err := json.Unmarshal(text, &n)
	ok = err == nil && n.Out >= 0 && n.Streak >= 0 && n.Belief.valid() && n.Lesson.valid() && n.Crowd.valid()
	for i, c := range n.Log.Cells {
		ok = ok && c.Own >= 0 && c.Others >= 0 && c.requests(true) > 0 && (i == 0 || !c.At.Before(n.Log.Cells[i-1].At))
	}
	return n, ok
}

func (b *belief) valid() bool {
	return (b.Depth[1] == 0 || b.Gain[0] > 0) && (b.Taught == Quota{} || b.Taught.Requests > 0 && b.Taught.Window > 0 && b.Taught.Window <= absurd)
}

// incredible is a slowness that no refusals teach, see [slowest].
const incredible = 1e9

func (s *lesson) valid() bool {
	return s.Burst >= 0 && s.slow() <= incredible && s.Fast >= 0 && s.Held >= 0 && s.Got >= 0 && s.Took >= 0 && s.Again >= 0 && s.Again <= mostAgain
}

func (o *crowd) valid() bool {
	return o.Stage >= alone && o.Stage <= sharing && (o.Stage == alone || o.Keep > 0) && o.Calm >= 0 && o.Calm <= calmest
}

// resume goes on where another process ended. When a request that was out then
// reached the service is not known, but it was before now.
func (c *core) resume(n note, now time.Time) {
	c.memory = n.memory
	if n.Quota != c.quota && n.Quota.check() == nil {
		c.reconfigured(n.Quota)
	}
	c.notAfter(now)
	at := now
	if c.advance() == 1 { // else Last is only the first of those that the file covers
		at = earliest(now, c.Last.Add(stray))
	}
	if n.Out > 0 {
		c.Log.add(cell{At: at, Own: n.Out}, c.grain())
	}
}

// reconfigured keeps the pace that refusals taught under another configured limit, and
// forgets what was guessed from that.
func (c *core) reconfigured(old Quota) {
	was := old
	if c.Belief.Taught.Requests > 0 {
		was = c.Belief.Taught
	}
	if c.Belief.Guess {
		c.Belief.Taught, c.Belief.Guess = Quota{}, false
	}
	c.Lesson.scale(float64(was.spacing()) / float64(c.told().spacing()))
}
