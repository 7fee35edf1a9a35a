package job

import (
	"slices"
	"strings"
)

// chain checks what jobs say about each other, now that all are known.
func (b *builder) chain(jobs *node) {
	for _, spec := range b.cfg.Jobs {
		n := jobs.get(spec.Name)
		if after := n.get("after"); after.has(text) {
			b.after(spec, after)
		}
		if was := n.get("was"); was.has(text) {
			b.was(spec, was)
		}
	}
}

// after refuses a job that waits for one that does not exist, or for itself.
func (b *builder) after(spec Spec, n *node) {
	parent := b.cfg.Job(spec.After)
	if parent == nil {
		b.refuseWithHint(n, didYouMean(n, nearest(n.text, b.names())), "there is no job %s", n.shown())
		return
	}
	path := []string{spec.Name}
	for at := parent; at != nil; at = b.cfg.Job(at.After) {
		path = append(path, at.Name)
		if at.Name == spec.Name {
			b.refuse(n, "the jobs wait for each other in a circle: %s", strings.Join(path, " after "))
			return
		}
		if slices.Contains(path[:len(path)-1], at.Name) {
			return // a circle that others are part of
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
	for _, other := range b.cfg.Jobs {
		if other.Was == spec.Was && other.Line < spec.Line {
			b.refuse(n, "the job %s was %s already", other.Name, n.shown())
			return
		}
	}
}

// unfilled refuses templates that nobody has taken: they stand where no text is meant.
func (b *builder) unfilled(n *node) {
	if n == nil || n.dead {
		return
	}
	if n.kind == blank && !n.taken && !n.wrong {
		b.refuse(n, "a template can stand only in a text of what a job asks for, not here; and %s", n.trouble)
	}
	for _, e := range n.entries {
		b.unfilled(e.value)
	}
	for _, item := range n.items {
		b.unfilled(item)
	}
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
