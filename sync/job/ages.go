package job

import "time"

// ages warns of a job that names channels or videos and is due again before its
// refresh_after is over: some of its runs find everything fresh and ask for nothing.
func (b *builder) ages() {
	if len(b.file.Mistakes()) > 0 {
		return // a schedule may be one of the mistakes
	}
	for i := range b.cfg.Jobs {
		spec := &b.cfg.Jobs[i]
		n := b.root.Get("jobs").Get(spec.Name).Get(string(spec.Verb)).Get("refresh_after")
		if len(spec.Fetch) == 0 || n == nil || n.Wrong {
			continue
		}
		between := b.cfg.root(spec).shortest()
		if between > 0 && spec.Fetch[0].RefreshAfter >= between {
			n.Warn("remove it to fetch everything in each run, or write less than "+Duration(between).String(),
				"%s is not shorter than the %s between two runs, so some runs have nothing to fetch",
				n.Shown(), Duration(between))
		}
	}
}

// root is the job whose schedule decides when spec is due: spec, or the first in its
// chain of `after`.
func (c *Config) root(spec *Spec) *Spec {
	for range c.Jobs { // a chain is no longer than the file
		parent := c.Job(spec.After)
		if parent == nil {
			break
		}
		spec = parent
	}
	return spec
}

// shortest is the shortest time between two due times of a job's own schedule, changes
// of the clocks aside; 0 if it has none. A few hundred due times show it.
func (s *Spec) shortest() (least time.Duration) {
	begin := time.Date(2026, time.January, 1, 0, 0, 0, 0, time.UTC)
	last := s.Next(begin, time.UTC)
	for range 500 {
		next := s.Next(last, time.UTC)
		if last.IsZero() || next.IsZero() {
			break
		}
		if between := next.Sub(last); least == 0 || between < least {
			least = between
		}
		last = next
	}
	return least
}
