package pace

import (
	"iter"
	"strings"
	"time"
)

// An element is one member of a structured list: "name";q=10;w=60, 10;w=60, or
// limit=10 with a value.
type element struct {
	key    string // the name without its quotes
	quoted bool
	value  string
	params []param
}

type param struct{ name, value string }

// elements returns the members of a structured list. It is tolerant: a member that it cannot read
// is skipped or returned unchanged, and its numbers are rejected later.
func elements(text string) iter.Seq[element] {
	return func(yield func(element) bool) {
		for member := range split(text, ',') {
			if e, ok := parseElement(member); ok && !yield(e) {
				return
			}
		}
	}
}

func parseElement(text string) (e element, ok bool) {
	i := 0
	for part := range split(text, ';') {
		part = strings.TrimSpace(part)
		name, value, _ := cutOutside(part, '=')
		if i > 0 {
			e.params = append(e.params, param{strings.ToLower(strings.TrimSpace(name)), strings.TrimSpace(value)})
		} else {
			e.quoted = strings.HasPrefix(name, `"`)
			e.key, e.value = strings.Trim(strings.TrimSpace(name), `"`), strings.TrimSpace(value)
		}
		i++
	}
	return e, e.key != ""
}

// split cuts text at a separator that is not within quotes.
func split(text string, separator byte) iter.Seq[string] {
	return func(yield func(string) bool) {
		for more := true; more; {
			var part string
			part, text, more = cutOutside(text, separator)
			if !yield(part) {
				return
			}
		}
	}
}

// cutOutside is [strings.Cut] for the first separator that is not within quotes.
func cutOutside(text string, separator byte) (before, after string, found bool) {
	quoted := false
	for i := 0; i < len(text); i++ {
		switch {
		case quoted && text[i] == '\\':
			i++
		case text[i] == '"':
			quoted = !quoted
		case text[i] == separator && !quoted:
			return text[:i], text[i+1:], true
		}
	}
	return text, "", false
}

func (e element) get(name string) string {
	for _, p := range e.params {
		if p.name == name {
			return p.value
		}
	}
	return ""
}

// number returns a parameter that is a count, or -1.
func (e element) number(name string) int {
	if n, ok := number(e.get(name)); ok {
		return n
	}
	return -1
}

// seconds returns a parameter that is a time in seconds, or -1.
func (e element) seconds(name string) time.Duration {
	n := e.number(name)
	if d, ok := sensible(time.Duration(n) * time.Second); ok && n >= 0 {
		return d
	}
	return -1
}
