package job

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"outlierd/outlier"
	"outlierd/sync/yamltree"
)

// A Call is one kind of free data call that a run makes: about its hits, or about the ids of a job of channels or
// videos.
type Call struct {
	Op           outlier.Operation `json:"op"`
	Top          int               `json:"top,omitempty" key:"top"`                   // number of best hits; 0 for all
	TopPerItem   int               `json:"top_per_item,omitempty" key:"top_per_item"` // number of best hits per search, before Top; 0 for all
	Value        int               `json:"value" key:"value"`                         // priority of the call
	RefreshAfter time.Duration     `json:"refresh_after" key:"refresh_after"`         // maximum age of an answer; 0 for the time since the run was due
}

// Most returns the maximum number of calls about the hits of the given number of pages and searches of a run.
func (c Call) Most(pages, searches int) int {
	hits := pages * outlier.MaxSize
	if c.TopPerItem > 0 {
		hits = min(hits, c.TopPerItem*searches)
	}
	if c.Top > 0 {
		hits = min(hits, c.Top)
	}
	return hits
}

// FreshSince returns the earliest time of answers that are not older than an age. An age has passed a twentieth early, so
// that a job which is due as often as its answers age asks each time: its calls are never sent at the same moment after
// it is due.
func FreshSince(now time.Time, age time.Duration) time.Time { return now.Add(age/20 - age) }

// Once is the age for answers that never change and are fetched once.
const Once = 100 * 365 * day

// fetches are the calls that a job can request for its hits. Unless the job says otherwise, they are made in the order
// of value, which is that of one request: a channel page contains up to 120 uploads and the channel's statistics; a
// transcript never changes; comments are a hundred rows; a hit already contains most of the details.
var fetches = map[outlier.Operation]struct {
	value     int
	fresh     time.Duration // how old an answer may be
	ofChannel bool
}{
	outlier.OpChannelVideos: {5, week, true},
	outlier.OpChannelShorts: {4, week, true},
	outlier.OpTranscript:    {3, Once, false},
	outlier.OpComments:      {2, 2 * day, false},
	outlier.OpDetails:       {1, day, false},
}

// readEnrich reads what to fetch for the hits, in the order of the file.
func (b *builder) readEnrich(spec *Spec, job *yamltree.Node) {
	n := job.Get("enrich")
	switch spec.Verb {
	case VerbChannels, VerbVideos:
		refuseIfSet(n, "not supported in a job of %s: use %s.fetch", spec.Verb, spec.Verb)
		return
	case VerbTrendingFormats:
		refuseIfSet(n, "not supported for trending formats")
		return
	}
	enrichSort(spec, n.Get("sort"))
	b.enrichWhere(spec, n.Get("where"))
	for _, e := range n.Pairs() {
		op := outlier.Operation(e.Key.Text)
		usual, known := fetches[op]
		switch {
		case !known:
		case spec.Verb == VerbFindChannels && !usual.ofChannel:
			e.Key.Refuse("not supported for channels: use channel_videos or channel_shorts")
		default:
			call := Call{Op: op}
			readKeys(&call, schema().Definitions["fetch"], e.Value)
			call.RefreshAfter, call.Value = cmp.Or(call.RefreshAfter, usual.fresh), cmp.Or(call.Value, usual.value)
			spec.Enrich = append(spec.Enrich, call)
			if each := e.Value.Get("top_per_item"); each != nil && len(spec.Loops) == 0 && job.Holds(n) {
				each.Warn("write top", "has the effect of top, as the job has no for_each")
			}
		}
	}
	if where := n.Get("where"); where != nil && len(spec.Enrich) == 0 && job.Holds(n) {
		where.Head().Warn("name something, such as comments: {}",
			"has no effect, as enrich names nothing to fetch")
	}
}

// enrichWhere reads the filters of the hits to fetch data for. They are those of a search whose values
// hits contain.
func (b *builder) enrichWhere(spec *Spec, n *yamltree.Node) {
	if !n.Has(yamltree.Mapping) {
		return
	}
	a := asker{b: b, ask: newTemplate(b.cfg, outlier.OpSearch)}
	if spec.Verb == VerbFindChannels {
		a.ask.Op = outlier.OpFindChannels
	}
	a.ask.Hits = true
	var shown []string
	for _, f := range a.ask.fields() {
		shown = append(shown, snakeCase(f.Name))
	}
	b.mergeFilters(n, nil)
	n.Entries = slices.DeleteFunc(n.Entries, func(e yamltree.Entry) bool {
		isTemplate := e.Value.Has(yamltree.Template) // another job may expand it
		switch key := e.Key.Text; {
		case e.Value.Wrong:
		case isTemplate:
			n.Head().Refuse("`use` includes %s, but hits cannot be selected by ${%s}", key, e.Value.Names[0])
		case slices.Contains(shown, key):
		case n.Holds(e.Value):
			e.Key.Refuse("the hits of %s do not have this value", spec.Verb)
		default:
			n.Head().RefuseWithHint("remove it with "+key+": ~",
				"`use` includes %s, which the hits of %s do not have", key, spec.Verb)
		}
		return isTemplate
	})
	a.readFields(nil, n)
	if a.ask.Window.Since {
		n.Get("published_at").RefuseWithHint("write last 7d, or dates",
			"hits cannot be selected since the last success")
	}
	spec.wanted = a.ask
}

// refuseIfSet reports a key that does not belong in the job.
func refuseIfSet(n *yamltree.Node, format string, args ...any) {
	if n != nil {
		n.Head().Refuse(format, args...)
	}
}

// enrichSort reads which hits are best: by default in the order that is requested of the service, if the
// hits contain the value.
func enrichSort(spec *Spec, n *yamltree.Node) {
	orders, otherwise := sortsOf(outlier.OpSearch), "zScore"
	if spec.Verb == VerbFindChannels {
		orders, otherwise = sortsOf(outlier.OpFindChannels), "subscribers"
		orders = slices.DeleteFunc(orders, func(by string) bool { return by == "recency" })
	}
	by := valueOf[Sort](n)
	switch asked := spec.ask.requestedSort(); {
	case by.By != "" && !slices.Contains(orders, by.By):
		word, _, _ := strings.Cut(n.Text, " ")
		known := inWords(orders)
		n.RefuseWithHint(n.DidYouMean(word, known),
			"hits of %s can be sorted by %s, got %s", spec.Verb, strings.Join(known, ", "), n.Shown())
	case by.By != "":
		spec.Sort = by
	case slices.Contains(orders, asked.By):
		spec.Sort = asked
	default:
		spec.Sort = Sort{By: otherwise}
	}
}

// requestedSort returns the order that is requested of the service; for a scan, that of reading its results.
func (t *template) requestedSort() Sort {
	if t.Read != nil {
		t = t.Read
	}
	return Sort{t.Params.Get("sortBy"), t.Params.Get("sortOrder") == "asc"}
}

// Sorts returns the orders that an operation supports, by their names in the file; none if its results
// have no choice of order.
func Sorts(op outlier.Operation) []string { return inWords(sortsOf(op)) }

// inWords returns the names of parameters in the file.
func inWords(names []string) []string {
	var words []string
	for _, name := range names {
		words = append(words, snakeCase(name))
	}
	return words
}

// sortsOf returns the orders that an operation supports.
func sortsOf(op outlier.Operation) []string {
	for _, f := range (&template{Op: op}).fields() {
		if f.Name == "sortBy" {
			return slices.Clone(f.OneOf)
		}
	}
	return nil
}

// parseSort parses "z_score", "z_score desc" or "z_score asc".
func parseSort(text string) (Sort, error) {
	by, order, _ := strings.Cut(text, " ")
	return Sort{By: camelCase(by), Ascending: order == "asc"}, nil
}

func (s Sort) order() string {
	if s.Ascending {
		return "asc"
	}
	return "desc"
}
