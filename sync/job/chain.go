package job

import (
	"fmt"
	"slices"
	"strings"

	"outlierd/sync/yamltree"
)

// chain checks what jobs say about each other, now that all are known.
func (b *builder) chain(jobs *yamltree.Node) {
	for _, spec := range b.cfg.Jobs {
		n := jobs.Get(spec.Name)
		if after := n.Get("after"); after.Has(yamltree.Text) {
			b.after(jobs, spec, after)
		}
		if was := n.Get("was"); was.Has(yamltree.Text) {
			b.was(spec, was)
		}
	}
}

// after refuses a job that waits for one that does not exist, or for itself.
func (b *builder) after(jobs *yamltree.Node, spec Spec, n *yamltree.Node) {
	parent := b.cfg.Job(spec.After)
	if parent == nil {
		n.RefuseWithHint(n.DidYouMean(n.Text, b.names()), "there is no job %s", n.Shown())
		return
	}
	path := []string{spec.Name}
	for at := parent; at != nil; at = b.cfg.Job(at.After) {
		if after := jobs.Get(at.Name).Get("after"); after != nil && after.Wrong {
			return // this one need not be told of it too
		}
		path = append(path, at.Name)
		if at.Name == spec.Name {
			n.RefuseWithHint("remove after from one of them, or replace it with schedule or every",
				"the jobs wait for each other in a cycle: %s", strings.Join(path, " after "))
			return
		}
		if slices.Contains(path[:len(path)-1], at.Name) {
			return // in a circle that this one is no part of
		}
	}
	if parent.Disabled && !spec.Disabled {
		n.Warn("", "the job %s is disabled, so this job never runs after it", parent.Name)
	}
}

func (b *builder) names() []string {
	var names []string
	for _, spec := range b.cfg.Jobs {
		names = append(names, spec.Name)
	}
	return names
}

// was refuses an old name that would give two jobs one past.
func (b *builder) was(spec Spec, n *yamltree.Node) {
	if b.cfg.Job(spec.Was) != nil {
		n.Refuse("must be a former name, but %s is the name of a job", n.Shown())
		return
	}
	first := slices.IndexFunc(b.cfg.Jobs, func(other Spec) bool { return other.Was == spec.Was })
	if other := b.cfg.Jobs[first]; other.Name != spec.Name {
		n.Refuse("must be unique, but the job %s has was: %s too", other.Name, n.Shown())
	}
}

// unfilled refuses the templates below n that nobody has taken: they stand where no
// text is meant, or are none, but variables that are not set. The names are those of
// the for_each that could fill them in.
func (b *builder) unfilled(n *yamltree.Node, names []string) {
	if n == nil || n.Ignored {
		return
	}
	if n.Kind == yamltree.Template && !n.Used && !n.Wrong {
		words := n.Unfilled
		if !slices.ContainsFunc(n.Names, func(name string) bool { return !slices.Contains(names, name) }) {
			words = fmt.Sprintf("cannot use ${%s} here: for_each fills in texts such as query and title_pattern", n.Names[0])
		}
		n.Refuse("%s", words)
	}
	for child := range n.Children() {
		b.unfilled(child, names)
	}
}

// leftovers looks for such templates in the whole file. A filter may be meant for any
// job.
func (b *builder) leftovers() {
	var all []string
	if jobs := b.root.Get("jobs"); jobs.Has(yamltree.Mapping) {
		for _, e := range jobs.Entries {
			names := e.Value.Get("for_each").Keys()
			b.unfilled(e.Value, names)
			all = append(all, names...)
		}
	}
	b.unfilled(b.root.Get("filters"), all)
}

// idle warns of keys that are read, but that nothing heeds yet.
func (b *builder) idle() {
	keys := []*yamltree.Node{b.root.Get("notify"), b.root.Get("daemon")}
	if sinks := b.root.Get("sinks"); sinks.Has(yamltree.List) {
		for _, item := range sinks.Items {
			keys = append(keys, item.Get("compact"))
		}
	}
	for _, n := range keys {
		if n != nil && !n.Wrong {
			n.Head().Warn("", "has no effect yet")
		}
	}
}
