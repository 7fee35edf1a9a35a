package job

import (
	"encoding/json"
	"strings"
)

// Asked identifies a job and its changes for one run, in a form that another process with the same file
// can resolve. Either Job or Once is set.
type Asked struct {
	Job     string     `json:"job,omitempty"`       // a job of the file
	Once    *OneOff    `json:"once,omitempty"`      // or a one-off request
	Changes *Overrides `json:"overrides,omitempty"` // to either
}

// OneOff is a one-off request: a mapping like that of a job in the file.
type OneOff struct {
	Verb      Verb            `json:"verb"`
	Job       json.RawMessage `json:"job"`
	Assistant bool            `json:"assistant,omitempty"` // an assistant asks, whose budget is `mcp`
}

// Asked returns how the spec was requested. [Config.Asked] returns the same spec for it.
func (s *Spec) Asked() Asked {
	if s.once != nil {
		return Asked{Once: s.once, Changes: s.changes}
	}
	return Asked{Job: s.Name, Changes: s.changes}
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
	if a.Once != nil {
		spec.once, spec.Name = a.Once, OnceMark+string(a.Once.Verb)
	}
	if a.Once != nil && a.Once.Assistant {
		spec.Name = AssistantMark + string(a.Once.Verb)
	}
	return &spec, nil
}

// OnceMark is the prefix of the names of one-off jobs, which no job of a file can have.
const OnceMark = "once:"

// AssistantMark is the prefix of those that assistants ask for.
const AssistantMark = OnceMark + "mcp:"

// IsOnce reports whether a name is that of a one-off job.
func IsOnce(name string) bool { return strings.HasPrefix(name, OnceMark) }

// Shown returns the name of a job for people: for a one-off request its command, such as "find-channels".
func Shown(name string) string {
	command, once := strings.CutPrefix(name, OnceMark)
	if !once {
		return name
	}
	return strings.ReplaceAll(command, "_", "-")
}
