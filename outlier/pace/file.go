package pace

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"time"
)

// memory is what the file holds: what must be known after a restart.
type memory struct {
	Owner   string    `json:"owner,omitempty"`
	Done    []cell    `json:"done"`
	Out     int       `json:"out"` // granted or about to be, completion not recorded
	Last    time.Time `json:"last"`
	Blocked time.Time `json:"blocked_until"`
	Streak  int       `json:"refusals_in_a_row"`
	Lesson  lesson    `json:"lesson"`
	Foreign int       `json:"foreign"`
}

// save writes the file anew beside the old one and renames it. It is not synced:
// the rename survives a kill of this process, and a power loss costs one window.
func (l *Limiter) save() error {
	if l.options.Path == "" {
		return nil
	}
	text, err := json.Marshal(memory{
		Owner: l.options.Owner, Done: l.log.cells, Out: l.out + l.prepaid,
		Last: l.last, Blocked: l.blocked, Streak: l.streak, Lesson: l.lesson, Foreign: l.foreign,
	})
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

// load reads the file. No file, or that of another owner, is a fresh window. A
// file that cannot be understood, as a power loss may leave it, is a full one.
func (l *Limiter) load(now time.Time) error {
	if l.options.Path == "" {
		return nil
	}
	text, err := os.ReadFile(l.options.Path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("remember the pace: %w", err)
	}
	m, ok := understand(text)
	switch {
	case !ok:
		l.log.add(now, l.quota.Requests, l.quota.Window)
	case m.Owner == l.options.Owner:
		l.resume(m, now)
	}
	return nil
}

func understand(text []byte) (m memory, ok bool) {
	err := json.Unmarshal(text, &m)
	ok = err == nil && m.Out >= 0 && m.Streak >= 0 && m.Lesson.Limit >= 0
	for i, c := range m.Done {
		ok = ok && c.N > 0 && (i == 0 || !c.At.Before(m.Done[i-1].At))
	}
	return m, ok
}

// resume goes on where another process ended. When a request that was out then
// reached the service is not known, but it was before now.
func (l *Limiter) resume(m memory, now time.Time) {
	for _, c := range m.Done {
		l.log.add(c.At, c.N, 0)
	}
	l.last, l.blocked, l.streak, l.lesson, l.foreign = m.Last, m.Blocked, m.Streak, m.Lesson, m.Foreign
	l.notAfter(now)
	if m.Out > 0 {
		l.log.add(now, m.Out, l.quota.Window)
	}
}
