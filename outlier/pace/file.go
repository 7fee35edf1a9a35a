package pace

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"time"

	"golang.org/x/time/rate"
)

// file is the content of the file.
type file struct {
	Owner string `json:",omitempty"`
	Out   int    // granted or about to be, without a recorded completion
	saved
}

// grantsPerWrite returns how many requests one write of the file covers. A kill wastes at most those, for one window.
func (q Quota) grantsPerWrite() int { return max(1, q.Requests/100) }

// encodeFile returns the present content of the file.
func (c *core) encodeFile(owner string) ([]byte, error) {
	c.Quota = c.quota
	return json.Marshal(file{Owner: owner, Out: c.inFlight + c.prepaid, saved: c.saved})
}

// saveFile writes a new file and renames it over the old one. It does not sync: the rename survives a kill of this
// process, and a power loss costs one window at most.
func (l *Limiter) saveFile() error {
	if l.options.Path == "" {
		return nil
	}
	text, err := l.core.encodeFile(l.options.Owner)
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

// loadFile reads the file. If there is no file, or none that makes sense, or it belongs to another owner, the window is
// empty. A limiter without an owner, such as a reader that has no key, accepts any file.
func (l *Limiter) loadFile(now time.Time) error {
	text, err := os.ReadFile(l.options.Path) // "" does not exist
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("read the state of the rate limit: %w", err)
	}
	if f, ok := parseFile(text); ok && (f.Owner == l.options.Owner || l.options.Owner == "") {
		l.core.resumeFrom(f, now)
	}
	return nil
}

// parseFile returns the content of a file, and whether it makes sense.
func parseFile(text []byte) (f file, ok bool) {
	err := json.Unmarshal(text, &f)
	q, p := f.Stated.Quota, f.Pacing
	ok = err == nil && min(f.Out, f.Streak, p.Answers, p.Others, q.Requests) >= 0 && f.Out <= 1e6 &&
		min(p.Every, p.Previous, p.Refused, p.Elapsed, q.Window) >= 0 && q.Window <= maxAhead &&
		(q.Requests > 0) == (q.Window > 0) && slices.IsSortedFunc(f.Log, time.Time.Compare)
	return f, ok
}

// resumeFrom continues where another process ended. Requests that were in flight then may have reached the service at
// any time before now. If the configured limit has changed, what answers stated must be stated again.
func (c *core) resumeFrom(f file, now time.Time) {
	c.saved = f.saved
	if f.Quota != c.quota {
		c.Stated = stated{}
	}
	c.dropExpired(now)
	if c.Pacing.Every > 0 {
		c.even.SetLimitAt(c.Last, rate.Every(c.Pacing.Every))
		c.even.ReserveN(c.Last, 1)
	}
	at := now
	if c.quota.grantsPerWrite() == 1 { // otherwise Last is only the first of those that the file covers
		at = earliest(now, c.Last.Add(maxTransit))
	}
	c.Log.add(at, f.Out)
}
