package outlier

import (
	"net/url"
	"slices"
)

// A HitFilter selects hits by the data that they contain, so it costs no credits. Its parameters are the
// filters of the search that can be applied to a hit, and the numbers of likes and comments; see
// [HitParams]. It is never sent. The zero HitFilter admits every hit.
type HitFilter struct{ conditions []condition }

// A condition is one parameter of a filter.
type condition struct {
	shown    string   // its name in a [factMap]
	texts    []string // allowed texts, if any
	flag     *bool
	from, to *float64 // inclusive; instants are Unix seconds
}

// HitParams lists the parameters by which hits of a search can be selected. For an estimate, its middle
// is used, as in [Hit.SortValue].
func HitParams(op Operation) (all []Param) {
	of := OpSearch
	if op == OpFindChannels || op == OpFindRelatedChannels {
		of = OpFindChannels
	}
	for _, p := range params {
		if p.shown != "" && (slices.Contains(p.ops, of) || p.ops == nil && of == OpSearch) {
			all = append(all, p)
		}
	}
	return all
}

// NewHitFilter returns the filter with the given parameters, in the form in which they are sent. It
// ignores values of another form.
func NewHitFilter(op Operation, params url.Values) (f HitFilter) {
	for _, p := range HitParams(op) {
		c := condition{shown: p.shown}
		switch p.Form {
		case Text, Texts:
			c.texts = params[p.Name]
		case Flag:
			if text := params.Get(p.Name); text != "" {
				c.flag = new(text == "true")
			}
		default:
			ends, _ := p.readEnds(params)
			c.from, c.to = ends[0], ends[1]
		}
		if len(c.texts) > 0 || c.flag != nil || c.from != nil || c.to != nil {
			f.conditions = append(f.conditions, c)
		}
	}
	return f
}

// Admits reports whether a hit satisfies every parameter. A hit that lacks the data of a parameter does
// not satisfy it.
func (f HitFilter) Admits(h Hit) bool {
	return !slices.ContainsFunc(f.conditions, func(c condition) bool { return !c.admitsHit(h) })
}

func (c condition) admitsHit(h Hit) bool {
	if len(c.texts) > 0 {
		path := h.of[c.shown]
		return len(path) == 1 && slices.Contains(c.texts, h.at(path[0]).text())
	}
	x, known := h.SortValue(c.shown)
	if c.flag != nil {
		return known && *c.flag == (x == 1)
	}
	return known && (c.from == nil || *c.from <= x) && (c.to == nil || x <= *c.to)
}
