package job

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"maps"
	"slices"
	"strings"

	"outlierd/sync/yamltree"
)

func (b *builder) readJobs(n *yamltree.Node) {
	switch {
	case n == nil && b.cfg.needs.jobs:
		b.root.Missing("jobs", `add jobs: {"coffee":{"search":{"query":"moka pot"}}}`)
	case n.Has(yamltree.Mapping) && len(n.Entries) == 0 && b.cfg.needs.jobs:
		n.Refuse("is empty, must be a mapping of names to jobs")
	}
	for _, e := range n.Mappings() {
		inheritDefaults(e.Value, b.root.Get("defaults"))
		b.cfg.Jobs = append(b.cfg.Jobs, b.readJob(e.Key.Text, e.Value))
	}
	checkChain(b.cfg, n)
}

// readJob reads one job.
func (b *builder) readJob(name string, n *yamltree.Node) Spec {
	spec := Spec{
		Name: name, At: n.Head().At(), zone: b.cfg.Timezone,
		Disabled: strings.EqualFold(n.Get("enabled").TextOr("true"), "false"),
	}
	readKeys(&spec, oneOff(), n)
	readKeys(&spec.Terms, oneOff(), n)
	spec.times = readSchedule(n)
	spec.quiet = readQuiet(n.Get("quiet"))
	if verb := readVerb(&spec, n); verb != nil {
		b.readAsks(&spec, n, verb)
		b.readAuto(&spec, n, verb)
		b.readEnrich(&spec, n)
		checkCaps(b.cfg, b.root, &spec, n.Get("budget"))
		refuseUnbounded(&spec, n, verb)
	}
	spec.Request, spec.Settings = spec.hashRequest(), b.wordJob(n)
	return spec
}

// inheritDefaults gives a job the values of `defaults` for the keys that it does not have and that apply to it: values
// about due times only to a job that has some of its own, and what to fetch only to hits that are videos.
func inheritDefaults(job, defaults *yamltree.Node) {
	isTimed := job.Get("schedule") != nil || job.Get("every") != nil
	findsVideos := job.Get("search") != nil || job.Get("related") != nil || job.Get("scan") != nil
	for _, e := range defaults.Pairs() {
		switch key := e.Key.Text; {
		case !schema().Get("defaults").Has(key), job.Get(key) != nil:
		case !isTimed && oneOff().Needs[key] != nil, !findsVideos && key == "enrich":
		default:
			job.Entries = append(job.Entries, e)
		}
	}
}

// readSchedule returns when a job is due by its own schedules, and refuses `auto` beside others.
func readSchedule(job *yamltree.Node) (all []cronTimes) {
	schedules := job.Get("schedule").Members()
	for _, n := range schedules {
		if all = append(all, valueOf[cronTimes](n)); len(schedules) > 1 && autoTime().MatchString(n.Text) {
			n.Refuse("auto must be the only schedule of a job: it decides each day what to buy")
		}
	}
	return all
}

// hashRequest returns [Spec.Request].
func (s Spec) hashRequest() string {
	if s.Scan != nil {
		s.Scan = &Scan{Mode: s.Scan.Mode}
	}
	s.Settings, s.StopAfter, s.MaxRequests = nil, 0, 0
	s.Overridden, s.Flags, s.MoveCursor = false, "", false
	zone := ""
	for _, t := range []*template{&s.ask, s.ask.Read, s.wanted} {
		if t != nil && t.Window != (window{}) {
			zone = s.zone.String()
		}
	}
	return hashData(struct {
		Spec   Spec
		Ask    template
		Zone   string
		Wanted *template `json:",omitempty"`
	}{s, s.ask, zone, s.wanted})
}

// Version identifies what a person has read of the job before they start it: its settings as written, what
// it asks for, and its caps. It is the same wherever the file is.
func (s *Spec) Version() string {
	words := maps.Clone(s.Settings)
	maps.DeleteFunc(words, func(name, _ string) bool { return name == "about" || name == "was" || name == "enabled" })
	return hashData(struct {
		Request string
		Budget  JobBudget
		Words   map[string]string
	}{s.Request, s.Budget, words})
}

// hashData returns a hash of plain data, in hexadecimal.
func hashData(data any) string {
	text, err := json.Marshal(data)
	if err != nil {
		panic("job: not plain data: " + err.Error())
	}
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:])
}

// checkChain checks what jobs say about each other, once all of them are read.
func checkChain(c *Config, jobs *yamltree.Node) {
	for _, spec := range c.Jobs {
		n := jobs.Get(spec.Name)
		if after := n.Get("after"); after.Has(yamltree.Text) {
			checkAfter(c, jobs, spec, after)
		}
		if was := n.Get("was"); was.Has(yamltree.Text) {
			checkFormerName(c, spec, was)
		}
	}
}

// checkAfter refuses a job that runs after one that does not exist, or after itself.
func checkAfter(c *Config, jobs *yamltree.Node, spec Spec, n *yamltree.Node) {
	parent := c.Job(spec.After)
	if parent == nil { // refused by the schema
		return
	}
	path := []string{spec.Name}
	for at := range c.Chain(parent) {
		if after := jobs.Get(at.Name).Get("after"); after != nil && after.Wrong {
			return // one message per cycle is enough
		}
		path = append(path, at.Name)
		if at.Name == spec.Name {
			n.RefuseWithHint("remove after from one of them, or replace it with schedule or every",
				"the jobs wait for each other in a cycle: %s", strings.Join(path, " after "))
			return
		}
	}
	if parent.Disabled && !spec.Disabled {
		n.Warn("", "the job %s is disabled, so this job never runs after it", parent.Name)
	}
}

// checkFormerName refuses a former name that would give two jobs the same history.
func checkFormerName(c *Config, spec Spec, n *yamltree.Node) {
	if c.Job(spec.Was) != nil {
		n.Refuse("must be a former name, but %s is the name of a job", n.Shown())
		return
	}
	first := slices.IndexFunc(c.Jobs, func(other Spec) bool { return other.Was == spec.Was })
	if other := c.Jobs[first]; other.Name != spec.Name {
		n.Refuse("must be unique, but the job %s has was: %s too", other.Name, n.Shown())
	}
}
