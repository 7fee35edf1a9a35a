package pace

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"time"
)

// file is the content of the file.
type file struct {
	Owner string `json:",omitempty"`
	Out   int    // granted or about to be, without a recorded completion
	saved
}

// advance returns how many requests one write of the file covers.
func (c *core) advance() int { return max(1, c.quota.Requests/100) }

// text returns the present content of the file.
func (c *core) text(owner string) ([]byte, error) {
	c.Quota = c.quota
	return json.Marshal(file{Owner: owner, Out: c.inFlight + c.prepaid, saved: c.saved})
}

// save writes a new file and renames it over the old one. It does not sync: the rename
// survives a kill of this process, and a power loss costs one window at most.
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
		return fmt.Errorf("write the state of the rate limit: %w", err)
	}
	return nil
}

// load reads the file. If there is no file, or it belongs to another owner, the window is empty. A
// limiter without an owner, such as a reader that has no key, accepts any file. A file that cannot be
// parsed, such as after a power failure, counts as a whole window used when it was written, because no
// request was sent after that.
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
		written, err = modTime(l.options.Path)
	}
	if err != nil {
		return fmt.Errorf("read the state of the rate limit: %w", err)
	}
	switch n, ok := parse(text); {
	case !ok:
		l.core.Log.add(cell{At: earliest(written, now), Own: l.core.quota.Requests}, 0)
	case n.Owner == l.options.Owner, l.options.Owner == "":
		l.core.resume(n, now)
	}
	l.core.forget(now)
	return nil
}

func modTime(path string) (time.Time, error) {
	info, err := os.Stat(path)
	if err != nil {
		return time.Time{}, err
	}
	return info.ModTime(), nil
}

func parse(text []byte) (n file, ok bool) {
	err := json.Unmarshal(text, &n)
	ok = err == nil && n.Out >= 0 && n.Streak >= 0 &&
		n.Belief.valid() && n.Refusals.valid() && n.Others.valid()
	for i, c := range n.Log.Cells {
		ok = ok && c.Own >= 0 && c.Others >= 0 && c.requests(true) > 0 &&
			(i == 0 || !c.At.Before(n.Log.Cells[i-1].At))
	}
	return n, ok
}

func (b *belief) valid() bool {
	q := b.Learned
	return (b.GainUsed[1] == 0 || b.GainTime[0] > 0) &&
		(q == Quota{} || q.Requests > 0 && q.Window > 0 && q.Window <= farthest)
}

// stretchLimit is a stretch that refusals can never cause; see [mostStretchOf].
const stretchLimit = 1e9

func (s *refusals) valid() bool {
	return s.Burst >= 0 && s.stretch() <= stretchLimit && s.Refused >= 0 && s.Previous >= 0 &&
		s.Answers >= 0 && s.Elapsed >= 0 && s.Relearned >= 0 && s.Relearned <= mostRelearned
}

func (o *otherClients) valid() bool {
	return o.Stage >= alone && o.Stage <= sharing && (o.Stage == alone || o.Own > 0) &&
		o.Doubled >= 0 && o.Doubled <= mostDoubled
}

// resume continues where another process ended. Requests that were in flight then may have reached the
// service at any time before now.
func (c *core) resume(n file, now time.Time) {
	c.saved = n.saved
	if n.Quota != c.quota && n.Quota.check() == nil {
		c.reconfigured(n.Quota)
	}
	c.notAfter(now)
	at := now
	if c.advance() == 1 { // otherwise Last is only the first of those that the file covers
		at = earliest(now, c.Last.Add(longestFlight))
	}
	if n.Out > 0 {
		c.Log.add(cell{At: at, Own: n.Out}, c.grain())
	}
}

// reconfigured keeps the pace learned from refusals if the configured limit has changed, and drops what
// was guessed from the old limit.
func (c *core) reconfigured(old Quota) {
	was := old
	if c.Belief.Learned.Requests > 0 {
		was = c.Belief.Learned
	}
	if c.Belief.WindowGuessed {
		c.Belief.Learned, c.Belief.WindowGuessed = Quota{}, false
	}
	c.Refusals.rescale(float64(was.spacing()) / float64(c.keyQuota().spacing()))
}
