package job

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"outlierd/internal/lazyregexp"
	"outlierd/outlier"
	"outlierd/sync/yamltree"
)

// Overrides change one run of a job. Zero fields change nothing.
type Overrides struct {
	Pages    int               `json:"pages,omitempty"`
	Since    time.Duration     `json:"since,omitempty"` // maximum age of publication, instead of published_at
	NoEnrich bool              `json:"no_enrich,omitempty"`
	Again    bool              `json:"again,omitempty"` // buy even what is fresh, and a scan even if the same one is live
	Set      map[string]string `json:"set,omitempty"`   // one value for each name of for_each

	MoveCursor bool `json:"move_cursor,omitempty"` // the run moves the job's cursors as without overrides

	Backfill *Backfill `json:"backfill,omitempty"`
}

// With returns the job with overrides for one run. An override that does not fit the job is an error that
// says what is possible. An override equal to the file's value does not count as one.
func (s Spec) With(o Overrides) (Spec, error) {
	if err := s.overrideWith(o); err != nil {
		return Spec{}, fmt.Errorf("job %s: %w", s.Name, err)
	}
	written := s.Request
	s.Request = s.hashRequest()
	s.Overridden = s.Overridden || s.Request != written
	s.Flags, s.MoveCursor, s.changes = o.formatFlags(), o.MoveCursor, &o
	return s, nil
}

// RestOf returns the job of a run that buys what the searches of an earlier run have left. It has the job's caps and
// due times; what it asks for is on record, as the request of that run.
func (s Spec) RestOf(run, request string) Spec {
	s.Rest, s.Request, s.Overridden, s.Flags = run, request, true, "--rest "+run
	s.Loops, s.Fetch, s.ask, s.wanted, s.Auto = nil, nil, template{}, nil, false
	return s
}

// maxPages is the maximum number of pages, as in the schema, which checks that of the file.
const maxPages = 1_000_000

// formatFlags returns the overrides as flags, as typed in a shell.
func (o Overrides) formatFlags() string {
	var all []string
	add := func(given bool, flag string) {
		if given {
			all = append(all, flag)
		}
	}
	if b := o.Backfill; b != nil {
		add(true, fmt.Sprintf("--from %s --to %s --each %s", b.From, b.To, b.Each))
	}
	add(o.Pages > 0, fmt.Sprintf("--pages %d", o.Pages))
	add(o.Since != 0, "--since "+FormatDuration(o.Since))
	add(o.NoEnrich, "--no-enrich")
	add(o.Again, "--again")
	for _, name := range slices.Sorted(maps.Keys(o.Set)) {
		add(true, "--set "+Quoted(name+"="+o.Set[name]))
	}
	add(o.MoveCursor, "--move-cursor")
	return strings.Join(all, " ")
}

// Quoted returns a word quoted for a shell, if necessary.
func Quoted(word string) string {
	if harmless().MatchString(word) {
		return word
	}
	return "'" + strings.ReplaceAll(word, "'", `'\''`) + "'"
}

// harmless matches words that need no quotes in any shell.
var harmless = lazyregexp.New(`^[A-Za-z0-9_./:=@%+,-]+$`)

func (s *Spec) overrideWith(o Overrides) error {
	if o.Pages > 0 || o.Since != 0 || len(o.Set) > 0 || o.Backfill != nil { // a person decides
		s.decideByHand()
	}
	switch {
	case o.Pages < 0 || o.Pages > maxPages:
		return fmt.Errorf("--pages must be from 1 to %d, got %d", maxPages, o.Pages)
	case o.Pages > 0 && (s.Pages == 0 || s.Verb == VerbTrendingFormats):
		return fmt.Errorf("--pages does not apply to %s", s.Verb)
	case o.Pages > 0:
		s.Pages = o.Pages
	}
	if o.NoEnrich {
		s.Enrich, s.wanted = nil, nil
	}
	if o.Again {
		s.ReuseFor, s.SeedsFresh, s.Again = 0, 0, true
	}
	if o.Since < 0 {
		return fmt.Errorf("--since must be positive, got %s", FormatDuration(o.Since))
	}
	if o.Since != 0 {
		if err := s.setWindow(window{Last: o.Since}); err != nil {
			return err
		}
	}
	if o.Backfill != nil {
		if err := s.applyBackfill(o.Backfill); err != nil {
			return err
		}
	}
	return s.setValues(o.Set)
}

// setWindow replaces published_at by a window.
func (s *Spec) setWindow(w window) error {
	search := s.ask
	if search.Read != nil {
		search = *search.Read
	}
	if !slices.ContainsFunc(search.fields(), isPublished) {
		return fmt.Errorf("%s has no published_at to replace", s.Verb)
	}
	search.Params = maps.Clone(search.Params)
	delete(search.Params, "publishedAtFrom")
	delete(search.Params, "publishedAtTo")
	search.Window = w
	if s.ask.Read != nil {
		s.ask.Read = &search
	} else {
		s.ask = search
	}
	return nil
}

func isPublished(f outlier.Param) bool { return f.Name == "publishedAt" }

// setValues gives names of for_each one value each. Resolve checks the values where they are expanded.
func (s *Spec) setValues(values map[string]string) error {
	s.Loops = slices.Clone(s.Loops)
	for _, name := range slices.Sorted(maps.Keys(values)) {
		i := slices.IndexFunc(s.Loops, func(l Loop) bool { return l.Name == name })
		switch {
		case i < 0 && len(s.Loops) == 0:
			return fmt.Errorf("--set %s: the job has no for_each", name)
		case i < 0:
			var known []string
			for _, l := range s.Loops {
				known = append(known, l.Name)
			}
			return fmt.Errorf("--set %s: for_each has %s", name, strings.Join(known, ", "))
		case strings.TrimSpace(values[name]) == "":
			return fmt.Errorf("--set %s: the value is empty", name)
		}
		at := s.Loops[i].Source.At
		s.Loops[i].Source = Source{Values: []string{values[name]}, At: at}
	}
	return nil
}

// Once returns the job of a one-off request, which may use the lists and filters of the file. It has no schedule and no
// defaults. The error is [yamltree.Mistakes].
func (c *Config) Once(o OneOff) (*Spec, error) {
	b := newBuilder(c.sources, c.env, c.needs) // because reading a job marks nodes
	b.readTree()
	b.file.Forget()
	b.cfg = c
	line := b.file.Part(commandLine, nil)
	n := line.Typed(oneOff(), o.Keys, o.Names)
	oneOff().Check(n, yamltree.Variables{Names: b.root})
	spec := b.readJob("", n)
	if found := line.Mistakes(); len(found) > 0 {
		return nil, found
	}
	if spec.Name = OnceMark + string(spec.Verb); o.Assistant {
		spec.Name = AssistantMark + string(spec.Verb)
	}
	spec.once = &o
	spec.SeedsFresh = 0 // its rows are printed, and reuse_for keeps it from buying a page twice
	return &spec, nil
}

// commandLine is the name of the file in mistakes of a one-off job.
const commandLine = "command line"

// Asked identifies a job and its changes for one run, in a form that another process with the same file
// can resolve. Either Job or Once is set.
type Asked struct {
	Job     string     `json:"job,omitempty"`       // a job of the file
	Once    *OneOff    `json:"once,omitempty"`      // or a one-off request
	Changes *Overrides `json:"overrides,omitempty"` // to either
}

// OneOff is a one-off request: a job whose keys a person types. Their values are literal: no variables are expanded.
type OneOff struct {
	Keys      Keys              `json:"keys"`
	Names     map[string]string `json:"-"`                   // what mistakes call the keys: flags and arguments
	Assistant bool              `json:"assistant,omitempty"` // an assistant asks, whose budget is `mcp`
}

// Keys have the texts of a job's keys by their paths, such as search.where.z_score; see [yamltree.File.Typed].
type Keys map[string][]string

// Asked returns how the spec was requested. [Config.Asked] returns the same spec for it.
func (s *Spec) Asked() Asked {
	if s.once != nil {
		return Asked{Once: s.once, Changes: s.changes}
	}
	return Asked{Job: s.Name, Changes: s.changes}
}

// Asked returns the requested spec; nil if the file has no such job.
func (c *Config) Asked(a Asked) (spec *Spec, err error) {
	if spec = c.Job(a.Job); a.Once != nil {
		spec, err = c.Once(*a.Once)
	}
	if spec == nil {
		return nil, err
	}
	changed := *spec
	if a.Changes != nil {
		if changed, err = spec.With(*a.Changes); err != nil {
			return nil, err
		}
	}
	return &changed, nil
}

// TakesList reports whether a key below a verb, such as where.language, may be a list.
func TakesList(verb Verb, key string) bool {
	part := oneOff().Get(string(verb))
	for name := range strings.SplitSeq(key, ".") {
		part = part.Get(name)
	}
	return part != nil && part.Allows(yamltree.List)
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
