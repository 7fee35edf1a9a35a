package job

import (
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"outlierd/outlier"
)

// Asked identifies a job and its changes for one run, in a form that another process with the same file
// can resolve. Either Job or Once is set.
type Asked struct {
	Job      string     `json:"job,omitempty"`       // a job of the file
	Once     *OneOff    `json:"once,omitempty"`      // or a one-off request
	Changes  *Overrides `json:"overrides,omitempty"` // to either
	Backfill *Backfill  `json:"backfill,omitempty"`  // of the job
}

// OneOff is a one-off request: a mapping like that of a job in the file.
type OneOff struct {
	Verb Verb            `json:"verb"`
	Job  json.RawMessage `json:"job"`
}

// Backfill is a search of past dates; see [Spec.Backfill].
type Backfill struct {
	From string          `json:"from"`
	To   string          `json:"to"`
	Each string          `json:"each"`
	Most outlier.Credits `json:"max_credits"`
}

// Asked returns how the spec was requested. [Config.Asked] returns the same spec for it.
func (s *Spec) Asked() Asked {
	if s.once != nil {
		return Asked{Once: s.once, Changes: s.changes}
	}
	return Asked{Job: s.Name, Changes: s.changes, Backfill: s.backfill}
}

// Asked returns the requested spec; nil if the file has no such job.
func (c *Config) Asked(a Asked) (*Spec, error) {
	var spec Spec
	if a.Once != nil {
		once, err := c.Once(a.Once.Verb, a.Once.Job)
		if err != nil {
			return nil, err
		}
		spec = *once
	} else if named := c.Job(a.Job); named != nil {
		spec = *named
	} else {
		return nil, nil
	}
	if a.Changes != nil {
		changed, err := spec.With(*a.Changes)
		if err != nil {
			return nil, err
		}
		spec = changed
	}
	if b := a.Backfill; b != nil {
		back, err := spec.Backfill(b.From, b.To, b.Each, b.Most)
		if err != nil {
			return nil, err
		}
		spec = back
	}
	if a.Once != nil {
		spec.Name = OnceMark + string(a.Once.Verb)
	}
	return &spec, nil
}

// OnceMark is the prefix of the names of one-off jobs, which no job of a file can have.
const OnceMark = "once:"

// Shown returns the name of a job for people: for a one-off request its command, such as "find-channels".
func Shown(name string) string {
	command, once := strings.CutPrefix(name, OnceMark)
	if !once {
		return name
	}
	return strings.ReplaceAll(command, "_", "-")
}

// wire is the JSON form of overrides, with durations as in the file.
type wire struct {
	Pages      int               `json:"pages,omitempty"`
	Since      string            `json:"since,omitempty"`
	NoEnrich   bool              `json:"no_enrich,omitempty"`
	Again      bool              `json:"again,omitempty"`
	Set        map[string]string `json:"set,omitempty"`
	MoveCursor bool              `json:"move_cursor,omitempty"`
}

// MarshalJSON writes overrides in the form in which they are typed.
func (o Overrides) MarshalJSON() ([]byte, error) {
	w := wire{o.Pages, "", o.NoEnrich, o.Again, o.Set, o.MoveCursor}
	if o.Since != 0 {
		w.Since = Duration(o.Since).String()
	}
	return json.Marshal(w)
}

// UnmarshalJSON reads what MarshalJSON has written.
func (o *Overrides) UnmarshalJSON(text []byte) error {
	var w wire
	if err := json.Unmarshal(text, &w); err != nil {
		return err
	}
	*o = Overrides{w.Pages, 0, w.NoEnrich, w.Again, w.Set, w.MoveCursor}
	if w.Since != "" {
		since, err := ParseDuration(w.Since)
		if err != nil {
			return fmt.Errorf("since: %w", err)
		}
		o.Since = time.Duration(since)
	}
	return nil
}
