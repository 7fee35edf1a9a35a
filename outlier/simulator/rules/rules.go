// Package rules says which parameters the simulated service refuses. It is written for the service alone:
// rules shared with the client would hide the client's mistakes.
package rules

import (
	"fmt"
	"maps"
	"math"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"outlierd/internal/lazyregexp"
)

// A Complaint is one thing that is wrong with a request (interface, Errors).
type Complaint struct {
	Code       string   `json:"code"`
	Validation string   `json:"validation"`
	Message    string   `json:"message"`
	Path       []string `json:"path"`
}

// NewComplaint returns a complaint about the whole request.
func NewComplaint(code, validation, format string, args ...any) *Complaint {
	return &Complaint{Code: code, Validation: validation, Message: fmt.Sprintf(format, args...), Path: []string{}}
}

// About returns the complaint as one about a parameter.
func (c Complaint) About(name string) Complaint {
	c.Path = []string{name}
	return c
}

// A Check returns what is wrong with a value; nil if nothing is.
type Check func(value string) *Complaint

// A Rule is what the service demands of a parameter.
type Rule struct {
	check    Check
	Many     bool // values, of which each is checked; otherwise it has exactly one
	required bool
}

// One is the rule of a parameter with one value.
func One(c Check) Rule { return Rule{check: c} }

// Many is the rule of a parameter that may have several values.
func Many(c Check) Rule { return Rule{check: c, Many: true} }

// Required is the rule with the demand that the parameter is there.
func (r Rule) Required() Rule {
	r.required = true
	return r
}

func (r Rule) findViolation(values []string) *Complaint {
	if !r.Many && len(values) != 1 {
		return NewComplaint("invalid_type", "single", "Expected one value, received %d", len(values))
	}
	for _, v := range values {
		if wrong := r.check(v); wrong != nil {
			return wrong
		}
	}
	return nil
}

// A Set has the rules of an endpoint by the names of its parameters.
type Set map[string]Rule

// Join returns the rules of all sets. A later set replaces rules of an earlier one.
func Join(sets ...Set) Set {
	all := Set{}
	for _, s := range sets {
		maps.Copy(all, s)
	}
	return all
}

// FindViolations checks parameters and returns all complaints, ordered by name, and the names
// without a rule.
func (s Set) FindViolations(p url.Values) (wrong []Complaint, unknown []string) {
	for name, r := range s {
		if r.required && !p.Has(name) {
			wrong = append(wrong, NewComplaint("invalid_type", "required", "Required").About(name))
		}
	}
	for name, values := range p {
		r, ok := s[name]
		if !ok {
			unknown = append(unknown, name)
		} else if c := r.findViolation(values); c != nil {
			wrong = append(wrong, c.About(name))
		}
	}
	slices.SortFunc(wrong, func(a, b Complaint) int { return strings.Compare(a.Path[0], b.Path[0]) })
	return wrong, unknown
}

// A Range has the checks of two parameters, both inclusive: the names of ranges end with From and To.
type Range struct{ From, To Check }

// The ranges.
var (
	Numbers   = Range{anyNumber, anyNumber}
	Positives = Range{decimalFrom(0, false), decimalFrom(0, true)}
	Integers  = IntegersTo(MaxInteger)
	Times     = Range{dateTime, dateTime}
)

// IntegersTo are whole numbers to at most the given one.
func IntegersTo(most int64) Range { return Range{Integer(0, MaxInteger), Integer(1, most)} }

// MaxInteger is the largest whole number that the service accepts.
const MaxInteger = 9007199254740991

// Identifiers.
var (
	ChannelID = Matches(`^[A-Za-z0-9_-]{24}$`)
	VideoID   = Matches(`^[a-zA-Z0-9-_]{11}$`)
	ScanID    = Matches(`^([0-9a-fA-F]{8}-[0-9a-fA-F]{4}-4[0-9a-fA-F]{3}-[89abAB][0-9a-fA-F]{3}-[0-9a-fA-F]{12})$`)
)

// The rules of texts.
var (
	Text         = One(anyText)
	Texts        = Many(anyText)
	Languages    = Many(Matches(`^[a-z]{2}$`))
	Flag         = One(OneOf("true", "false"))
	Kind         = One(OneOf("video", "short"))
	Quality      = One(OneOf("negative", "neutral", "positive"))
	TitlePattern = One(titlePattern)
)

func anyText(string) *Complaint { return nil }

// OneOf accepts the given texts.
func OneOf(allowed ...string) Check {
	return func(v string) *Complaint {
		if !slices.Contains(allowed, v) {
			return NewComplaint("invalid_enum_value", "enum", "Expected %s", strings.Join(allowed, " | "))
		}
		return nil
	}
}

// Matches accepts what matches a regular expression.
func Matches(expr string) Check {
	re := lazyregexp.New(expr)
	return func(v string) *Complaint {
		if !re().MatchString(v) {
			return NewComplaint("invalid_string", "regex", "Expected %s", expr)
		}
		return nil
	}
}

// Integer accepts whole numbers within bounds, both inclusive.
func Integer(least, most int64) Check {
	return func(v string) *Complaint {
		n, err := strconv.ParseInt(v, 10, 64)
		switch {
		case err != nil:
			return NewComplaint("invalid_type", "integer", "Expected an integer")
		case n < least:
			return NewComplaint("too_small", "min", "Expected at least %d", least)
		case n > most:
			return NewComplaint("too_big", "max", "Expected at most %d", most)
		}
		return nil
	}
}

var (
	decimalForm = lazyregexp.New(`^-?[0-9]+(\.[0-9]+)?([eE][+-]?[0-9]+)?$`)
	anyNumber   = decimalFrom(math.Inf(-1), false)
)

func decimalFrom(least float64, above bool) Check {
	return func(v string) *Complaint {
		n, err := strconv.ParseFloat(v, 64)
		switch {
		case err != nil || !decimalForm().MatchString(v):
			return NewComplaint("invalid_type", "number", "Expected a number")
		case n < least:
			return NewComplaint("too_small", "min", "Expected at least %g", least)
		case above && n <= least:
			return NewComplaint("too_small", "exclusiveMin", "Expected more than %g", least)
		}
		return nil
	}
}

func dateTime(v string) *Complaint {
	if _, ok := Moment(v); !ok {
		return NewComplaint("invalid_string", "datetime", "Expected a date-time in UTC with a trailing Z")
	}
	return nil
}

var momentForm = lazyregexp.New(`^\d{4}-\d\d-\d\dT\d\d:\d\d(:\d\d(\.\d+)?)?Z$`)

// Moment reads a date-time: seconds and their fraction may be missing.
func Moment(v string) (time.Time, bool) {
	if !momentForm().MatchString(v) {
		return time.Time{}, false
	}
	layout := "2006-01-02T15:04:05Z"
	if strings.Count(v, ":") == 1 {
		layout = "2006-01-02T15:04Z"
	}
	t, err := time.Parse(layout, v)
	return t, err == nil
}

var latinLetter = lazyregexp.New(`[A-Za-zÀ-ÖØ-öø-ɏḀ-ỿ]`)

func titlePattern(v string) *Complaint {
	if n := utf8.RuneCountInString(v); n < 2 || n > 200 {
		return NewComplaint("invalid_string", "length", "Expected 2 to 200 characters")
	}
	if !strings.Contains(v, "*") {
		return NewComplaint("invalid_string", "regex", "Expected at least one *")
	}
	if len(latinLetter().FindAllString(v, 2)) < 2 {
		return NewComplaint("invalid_string", "regex", "Expected at least two letters")
	}
	return nil
}
