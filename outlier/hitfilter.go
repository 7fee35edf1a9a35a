package outlier

import (
	"net/url"
	"slices"
	"time"
)

// A HitFilter chooses hits by what they show themselves, so that it costs nothing. Its
// parameters are those filters of the search that a hit can be judged by, and the numbers
// of likes and comments; see [HitParams]. It is never sent. The zero HitFilter admits
// every hit.
type HitFilter struct{ conditions []condition }

// A condition is one parameter of a filter that is set.
type condition struct {
	shown    string   // the fact or word that it is about
	texts    []string // one of these, if any
	flag     *bool
	from, to *float64 // both ends included; instants are Unix seconds
}

// HitParams lists the parameters by which hits of a search can be chosen. Of an
// estimate the middle counts, as in [Hit.SortValue].
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

// NewHitFilter is the filter with the given parameters, as they would be sent. What has
// not that form is no condition.
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
		case Integers:
			c.from, c.to = bounds(p, params, integers, func(n int64) float64 { return float64(n) })
		case Numbers:
			c.from, c.to = bounds(p, params, numbers, func(x float64) float64 { return x })
		case Instants:
			c.from, c.to = bounds(p, params, instants, func(t time.Time) float64 { return float64(t.Unix()) })
		}
		if len(c.texts) > 0 || c.flag != nil || c.from != nil || c.to != nil {
			f.conditions = append(f.conditions, c)
		}
	}
	return f
}

func bounds[T any](p Param, params url.Values, s scale[T], number func(T) float64) (from, to *float64) {
	ends := [2]*float64{}
	for i, name := range p.Names() {
		if v, _ := s.read(params, name); v != nil {
			ends[i] = new(number(*v))
		}
	}
	return ends[0], ends[1]
}

// Admits reports whether a hit meets every parameter that is set. A hit that does not show
// what a parameter is about does not meet it.
func (f HitFilter) Admits(h Hit) bool {
	return !slices.ContainsFunc(f.conditions, func(c condition) bool { return !c.admits(h) })
}

func (c condition) admits(h Hit) bool {
	word := h.Words[c.shown]
	switch c.shown {
	case "kind":
		word = h.Kind
	case "channelId":
		word = h.ChannelID
	}
	if len(c.texts) > 0 {
		return slices.Contains(c.texts, word)
	}
	x, known := h.Facts[c.shown]
	if c.flag != nil {
		return known && *c.flag == (x == 1)
	}
	return known && (c.from == nil || *c.from <= x) && (c.to == nil || x <= *c.to)
}
