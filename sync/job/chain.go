package job

import (
	"fmt"
	"slices"
	"strings"
)

// chain checks what jobs say about each other, now that all are known.
func (b *builder) chain(jobs *node) {
	for _, spec := range b.cfg.Jobs {
		n := jobs.get(spec.Name)
		if after := n.get("after"); after.has(text) {
			b.after(jobs, spec, after)
		}
		if was := n.get("was"); was.has(text) {
			b.was(spec, was)
		}
	}
}

// after refuses a job that waits for one that does not exist, or for itself.
func (b *builder) after(jobs *node, spec Spec, n *node) {
	parent := b.cfg.Job(spec.After)
	if parent == nil {
		b.refuseWithHint(n, didYouMean(n, Nearest(n.text, b.names())), "there is no job %s", n.shown())
		return
	}
	path := []string{spec.Name}
	for at := parent; at != nil; at = b.cfg.Job(at.After) {
		if after := jobs.get(at.Name).get("after"); after != nil && after.wrong {
			return // this one need not be told of it too
		}
		path = append(path, at.Name)
		if at.Name == spec.Name {
			b.refuseWithHint(n, "leave after out of one of them, which then runs by hand, or give it schedule or every instead",
				"the jobs wait for each other in a circle: %s", strings.Join(path, " after "))
			return
		}
		if slices.Contains(path[:len(path)-1], at.Name) {
			return // in a circle that this one is no part of
		}
	}
	if parent.Disabled && !spec.Disabled {
		b.warn(n, "", "the job %s is not enabled, so that nothing fires this one", parent.Name)
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
func (b *builder) was(spec Spec, n *node) {
	if b.cfg.Job(spec.Was) != nil {
		b.refuse(n, "there is a job %s, which has its past to itself", n.shown())
		return
	}
	first := slices.IndexFunc(b.cfg.Jobs, func(other Spec) bool { return other.Was == spec.Was })
	if other := b.cfg.Jobs[first]; other.Name != spec.Name {
		b.refuse(n, "the job %s was %s already", other.Name, n.shown())
	}
}

// unfilled refuses the templates below n that nobody has taken: they stand where no
// text is meant, or are none, but variables that are not set. The names are those of
// the for_each that could fill them in.
func (b *builder) unfilled(n *node, names []string) {
	if n == nil || n.dead {
		return
	}
	if n.kind == blank && !n.taken && !n.wrong {
		words := n.trouble
		if !slices.ContainsFunc(n.names, func(name string) bool { return !slices.Contains(names, name) }) {
			words = fmt.Sprintf("for_each fills in texts such as query and title_pattern, but not what stands here: ${%s}", n.names[0])
		}
		b.refuse(n, "%s", words)
	}
	for child := range n.children() {
		b.unfilled(child, names)
	}
}

// leftovers looks for such templates in the whole file. A filter may be meant for any
// job.
func (b *builder) leftovers() {
	var all []string
	if jobs := b.root.get("jobs"); jobs.has(mapping) {
		for _, e := range jobs.entries {
			names := e.value.get("for_each").keys()
			b.unfilled(e.value, names)
			all = append(all, names...)
		}
	}
	b.unfilled(b.root.get("filters"), all)
}

// idle warns of keys that are read, but that nothing heeds yet.
func (b *builder) idle() {
	keys := []*node{b.root.get("notify"), b.root.get("daemon")}
	if sinks := b.root.get("sinks"); sinks.has(list) {
		for _, item := range sinks.items {
			keys = append(keys, item.get("compact"))
		}
	}
	for _, n := range keys {
		if n != nil && !n.wrong {
			b.warn(n.handle(), "", "is read, but has no effect yet")
		}
	}
}
