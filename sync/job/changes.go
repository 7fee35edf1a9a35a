package job

import (
	"cmp"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"

	"outlierd/internal/excerpt"
	"outlierd/sync/yamltree"
)

// # Changes of the file
//
// For each job, the state keeps the settings in the words of the file: "pages" is "2". They include
// filters, lists and defaults that the job uses. References such as "${TOPIC}" stay as written, so neither
// the state nor a reported change contains a value of a variable or a file. The version shows when only
// such a value has changed.

// Known is what the state keeps of a job, to find out later what has changed.
type Known struct {
	Name     string            `json:"name"`
	Version  string            `json:"version"` // see [Spec.Version]
	Settings map[string]string `json:"settings"`
}

// Known returns what to keep of the jobs of the file.
func (c *Config) Known() []Known {
	all := make([]Known, len(c.Jobs))
	for i := range c.Jobs {
		spec := &c.Jobs[i]
		all[i] = Known{Name: spec.Name, Version: spec.Version(), Settings: spec.Settings}
	}
	return all
}

// The kinds of changes of a job.
const (
	JobAdded   = "added"
	JobRemoved = "removed"
	JobRenamed = "renamed"
	JobChanged = "changed"
)

// Change is the change of one job.
type Change struct {
	Job     string
	Kind    string // JobAdded and so on
	Was     string // the former name of a renamed job
	Changes string // "pages 2 → 3; sort not set → views desc"; "" if only the name has changed
}

// ChangesSince returns the changes since an earlier state of the file: first the removed jobs, because
// another one may have such a job's name now, then the changes of the jobs that the file has, in order.
func (c *Config) ChangesSince(earlier []Known) (all []Change) {
	before := map[string]*Known{}
	for i := range earlier {
		before[earlier[i].Name] = &earlier[i]
	}
	for _, now := range c.Known() {
		name, kind := now.Name, JobChanged
		if was := c.Job(now.Name).Was; before[was] != nil {
			name, kind = was, JobRenamed
		}
		old := before[name]
		delete(before, name)
		change := Change{Job: now.Name, Kind: kind}
		switch {
		case old == nil:
			change.Kind = JobAdded
		case kind == JobRenamed:
			change.Was, change.Changes = name, listDifferences(old, &now)
		default:
			if change.Changes = listDifferences(old, &now); change.Changes == "" {
				continue
			}
		}
		all = append(all, change)
	}
	var removed []Change
	for _, old := range earlier {
		if before[old.Name] != nil {
			removed = append(removed, Change{Job: old.Name, Kind: JobRemoved})
		}
	}
	return append(removed, all...)
}

// SettingsSince returns the settings besides jobs that differ from an earlier state of the file:
// "budget.per_day 100 → 200". For settings that may contain a secret it returns only the name.
func (c *Config) SettingsSince(earlier *Config) string {
	return strings.Join(Differences(earlier.worded, c.worded), "; ")
}

// wordSettings returns the settings besides jobs in the words of the file, without those that are secrets. Of sections
// that are long or may contain secrets it returns a hash of their expanded values, so that changes name only the
// section.
func (b *builder) wordSettings() map[string]string {
	all := map[string]string{}
	for k := range taggedFields(reflect.ValueOf(b.cfg).Elem(), schema(), b.root) {
		if isMapping := k.field.Kind() == reflect.Struct; k.node != nil && !isMapping && !k.key.Secret {
			b.addWords(all, k.name, k.node)
		}
	}
	for _, section := range []string{"notify", "alerts", "reports", "questions", "tables", "backup"} {
		all[section] = hashed + hashNode(b.root.Get(section))
	}
	return all
}

// hashed is the beginning of a hash in place of a value. No value of a file begins so.
const hashed = "\x00"

// maxDifferences limits the number of changes that are reported for one job, and widest the length of
// each value in characters.
const (
	maxDifferences = 8
	widest         = 60
)

// Differences lists the settings of a job that differ, by name: "pages 2 → 3".
func Differences(was, is map[string]string) (changes []string) {
	names := maps.Clone(is)
	if names == nil {
		names = map[string]string{}
	}
	maps.Copy(names, was)
	for _, name := range slices.Sorted(maps.Keys(names)) {
		switch old, now := was[name], is[name]; {
		case old == now || name == "was":
		case shortenValue(old) == shortenValue(now), strings.HasPrefix(now, hashed):
			changes = append(changes, name+" changed")
		default:
			changes = append(changes, fmt.Sprintf("%s %s → %s", name, shortenValue(old), shortenValue(now)))
		}
	}
	if more := len(changes) - maxDifferences; more > 0 {
		changes = append(changes[:maxDifferences], fmt.Sprintf("and %d more", more))
	}
	return changes
}

// OnlyValuesChanged describes a change of a job whose settings are written as before.
const OnlyValuesChanged = "what it takes from variables, files or this version's defaults changed"

// listDifferences returns the changes of a job; "" if there are none.
func listDifferences(was, is *Known) string {
	changes := Differences(was.Settings, is.Settings)
	if len(changes) == 0 && was.Version != is.Version {
		return OnlyValuesChanged
	}
	return strings.Join(changes, "; ")
}

// shortenValue returns a value on one line.
func shortenValue(value string) string {
	return excerpt.Runes(strings.Join(strings.Fields(cmp.Or(value, "not set")), " "), widest)
}

// wordJob returns a job in the words of the file. Keys of the verb are not nested: no name occurs in both.
func (b *builder) wordJob(job *yamltree.Node) map[string]string {
	all := map[string]string{}
	for _, e := range job.Entries {
		if !isVerb(e.Key.Text) {
			b.addWords(all, e.Key.Text, e.Value)
			continue
		}
		all["verb"] = e.Key.Text
		for _, of := range e.Value.Entries {
			b.addWords(all, of.Key.Text, of.Value)
		}
	}
	return all
}

// addWords adds a value, or everything in a mapping.
func (b *builder) addWords(all map[string]string, name string, n *yamltree.Node) {
	if list := b.root.Get("lists").Get(n.Get("list").TextOr("")); list != nil {
		n = list
	}
	if len(n.Entries) == 0 {
		all[name] = inlineText(n, func(n *yamltree.Node) string { return n.Raw })
	}
	for _, e := range n.Entries {
		b.addWords(all, name+"."+e.Key.Text, e.Value)
	}
}

// inlineText returns a value in one line, and its scalars as words returns them.
func inlineText(n *yamltree.Node, words func(*yamltree.Node) string) string {
	var members []string
	switch {
	case n == nil || n.Kind == yamltree.Null:
		return "~"
	case n.Kind == yamltree.List:
		for _, item := range n.Items {
			members = append(members, inlineText(item, words))
		}
		return "[" + strings.Join(members, ", ") + "]"
	case n.Kind == yamltree.Mapping:
		for _, e := range n.Entries {
			members = append(members, e.Key.Text+": "+inlineText(e.Value, words))
		}
		return "{" + strings.Join(members, ", ") + "}"
	}
	return words(n)
}
