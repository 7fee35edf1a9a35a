package job

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"outlierd/outlier"
)

func (b *builder) jobs(n *node) {
	if !n.has(mapping) {
		return
	}
	b.defaults = b.root.get("defaults")
	for _, e := range n.entries {
		if e.value.has(mapping) {
			b.cfg.Jobs = append(b.cfg.Jobs, b.spec(e.key, e.value))
		}
	}
	b.chain(n)
}

// spec reads one job.
func (b *builder) spec(name, n *node) Spec {
	spec := Spec{
		Name: name.text, Line: name.line, Column: name.column, zone: b.cfg.Timezone,
		Was:      n.get("was").textOr(""),
		About:    n.get("about").textOr(""),
		Disabled: strings.EqualFold(n.get("enabled").textOr("true"), "false"),
		Every:    b.duration(n.get("every")),
		CatchUp:  CatchUp(b.own(n, "catch_up").textOr(string(CatchUpLatest))),
		After:    n.get("after").textOr(""),
	}
	spec.Schedule, spec.times = b.schedule(n)
	spec.ReuseFor = cmp.Or(b.duration(b.own(n, "reuse_for")), defaultReuse)
	spec.StopAfter = b.duration(b.own(n, "stop_after"))
	spec.Notify = b.notified(b.own(n, "notify"))
	b.limits(&spec, b.own(n, "budget"))
	if verb := b.verb(&spec, n); verb != nil {
		b.asks(&spec, n, verb)
		b.enrich(&spec, n)
		b.caps(&spec, b.own(n, "budget"))
		b.unbounded(&spec, n, verb)
	}
	spec.Hash = spec.hash()
	return spec
}

// defaultReuse is how long an answer is as good as a new one, if the job does not say.
const defaultReuse = 6 * time.Hour

// own is the value of a key that `defaults` may have too: the job's own replaces the
// default whole.
func (b *builder) own(job *node, key string) *node {
	if n := job.get(key); n != nil {
		return n
	}
	return b.defaults.get(key)
}

func (b *builder) limits(spec *Spec, n *node) {
	spec.Budget.PerRun = n.get("per_run").credits()
	spec.Budget.PerMonth = n.get("per_month").credits()
	spec.Budget.MaxRequests, _ = strconv.Atoi(n.get("max_requests").textOr("0")) // bounded by the schema
}

func (b *builder) duration(n *node) time.Duration {
	if !n.has(text) {
		return 0
	}
	d, err := ParseDuration(n.text)
	if err != nil {
		b.foreign(n, err.Error())
	}
	return time.Duration(d)
}

// dues are the keys that say when a job is due, of which it has one at most: what two
// of them would mean together, nobody could tell.
var dues = []string{"schedule", "every", "after"}

func (b *builder) schedule(job *node) (string, times) {
	n := job.get("schedule")
	var first *node
	for _, e := range job.entries {
		switch {
		case !slices.Contains(dues, e.key.text):
		case first != nil:
			b.refuse(e.key, "a job has one of %s, and this one has %s already", strings.Join(dues, ", "), first.text)
		default:
			first = e.key
		}
	}
	if !n.has(text) {
		return "", times{}
	}
	due, err := parseCron(n.text)
	if err != nil {
		b.foreign(n, "the schedule "+err.Error())
	}
	return n.text, due
}

// notified are the names that a job's notify has.
func (b *builder) notified(n *node) []string {
	known := b.root.get("notify")
	var names []string
	for _, name := range n.members() {
		if !name.has(text) {
			continue
		}
		if known.get(name.text) == nil {
			b.refuseWithHint(name, didYouMean(name, Nearest(name.text, known.keys())), "notify at the top of the file has no %s", name.shown())
			continue
		}
		names = append(names, name.text)
	}
	return names
}

// keys are the names of a mapping's entries.
func (n *node) keys() []string {
	if n == nil {
		return nil
	}
	var names []string
	for _, e := range n.entries {
		names = append(names, e.key.text)
	}
	return names
}

// enrichments are the operations that a job can ask for its hits: those of channels
// and those of videos.
var enrichments = []outlier.Operation{
	outlier.OpChannelVideos, outlier.OpChannelShorts, outlier.OpDetails, outlier.OpComments, outlier.OpTranscript,
}

// ofChannels reports whether op is about a channel.
func ofChannels(op outlier.Operation) bool {
	return op == outlier.OpChannelVideos || op == outlier.OpChannelShorts
}

// enrich reads what to fetch for the hits, in the order of the file. What `defaults`
// says is meant for hits that are videos.
func (b *builder) enrich(spec *Spec, job *node) {
	n := job.get("enrich")
	switch spec.Verb {
	case VerbChannels, VerbVideos:
		b.pointless(n, "a job of %s says below fetch what to fetch", spec.Verb)
		return
	case VerbTrendingFormats:
		b.pointless(n, "trending formats have nothing to fetch more of")
		return
	case VerbFindChannels:
	default:
		n = b.own(job, "enrich")
	}
	b.enrichSort(spec, n.get("sort"))
	b.enrichWhere(spec, n.get("where"))
	if !n.has(mapping) {
		return
	}
	for _, e := range n.entries {
		op := outlier.Operation(e.key.text)
		switch {
		case !slices.Contains(enrichments, op):
		case spec.Verb == VerbFindChannels && !ofChannels(op):
			b.refuse(e.key, "the hits of find_channels are channels: channel_videos and channel_shorts can be fetched for them")
		default:
			count := func(key string) int {
				n, _ := strconv.Atoi(e.value.get(key).textOr("0")) // bounded by the schema
				return n
			}
			spec.Enrich = append(spec.Enrich, Enrich{
				Op: op, Top: count("top"), TopPerItem: count("top_per_item"),
				RefreshAfter: b.duration(e.value.get("refresh_after")), Value: count("value"),
			})
			if each := e.value.get("top_per_item"); each != nil && len(spec.Loops) == 0 && job.get("enrich") == n {
				b.warn(each, "write top", "the job has one search, as it has no for_each, so this is the same as top")
			}
		}
	}
	if where := n.get("where"); where != nil && len(spec.Enrich) == 0 && job.get("enrich") == n {
		b.warn(where.handle(), "name something, such as comments: {}", "chooses hits, but enrich names nothing to fetch for them")
	}
}

// enrichWhere reads for which of the hits to fetch something. Hits show some of what a
// search filters by.
func (b *builder) enrichWhere(spec *Spec, n *node) {
	if !n.has(mapping) {
		return
	}
	a := asker{builder: b, template: b.newTemplate(outlier.OpSearch)}
	if spec.Verb == VerbFindChannels {
		a.Op = outlier.OpFindChannels
	}
	a.Hits = true
	var shown []string
	for _, f := range a.template.fields() {
		shown = append(shown, snake(f.Name))
	}
	filters := b.merge(n)
	for _, key := range slices.Sorted(maps.Keys(filters)) {
		at, brought := n.get(key), ""
		if at == nil {
			at, brought = n.get("use"), "brings "+key+", but "
		}
		switch v := filters[key]; {
		case v.wrong:
		case !slices.Contains(shown, key) && brought != "":
			b.refuseWithHint(at.handle(), "take it away with "+key+": ~", "%sthe hits of %s do not show it", brought, spec.Verb)
		case !slices.Contains(shown, key):
			b.refuse(at.handle(), "the hits of %s do not show it", spec.Verb)
		case v.has(blank): // another job may fill it in
			b.refuse(at.handle(), "%swhich hits are wanted cannot depend on ${%s}", brought, v.names[0])
			v.taken = true
			delete(filters, key)
		}
	}
	a.fields(nil, n)
	if a.Window.Since {
		b.refuseWithHint(filters["published_at"], "write last 7d, or dates", "hits are chosen by dates, not since the last success")
	}
	spec.wanted = a.template
}

func (b *builder) pointless(n *node, format string, args ...any) {
	if n != nil {
		b.refuse(n.handle(), format, args...)
	}
}

// enrichSort reads which hits come first: by the order that is asked of the service,
// if nothing else is said and the hits show what it goes by.
func (b *builder) enrichSort(spec *Spec, n *node) {
	orders, otherwise := sortsOf(outlier.OpSearch), "zScore"
	if spec.Verb == VerbFindChannels {
		orders, otherwise = sortsOf(outlier.OpFindChannels), "subscribers"
		orders = slices.DeleteFunc(orders, func(by string) bool { return by == "recency" })
	}
	by, said := b.sort(n)
	switch asked := spec.ask.sorted(); {
	case said && !slices.Contains(orders, by.By):
		word, _, _ := strings.Cut(n.text, " ")
		known := inWords(orders)
		b.refuseWithHint(n, didYouMean(n, Nearest(word, known)), "the hits of %s can be ordered by %s", spec.Verb, strings.Join(known, ", "))
	case said:
		spec.EnrichSort = by
	case slices.Contains(orders, asked.By):
		spec.EnrichSort = asked
	default:
		spec.EnrichSort = Sort{By: otherwise}
	}
}

// inWords are parameters by their names in the file.
func inWords(names []string) []string {
	var words []string
	for _, name := range names {
		words = append(words, snake(name))
	}
	return words
}

// Sorts are the orders that an operation knows, by their names in the file; none for one
// whose results have no order to choose.
func Sorts(op outlier.Operation) []string { return inWords(sortsOf(op)) }

// sortsOf are the orders that an operation knows.
func sortsOf(op outlier.Operation) []string {
	for _, f := range (&template{Op: op}).fields() {
		if f.Name == "sortBy" {
			return slices.Clone(f.OneOf)
		}
	}
	return nil
}

// sorted is the order that the service is asked for, of a scan that of its results.
func (t *template) sorted() Sort {
	if t.Read != nil {
		t = t.Read
	}
	return Sort{t.Params.Get("sortBy"), t.Params.Get("sortOrder") == "asc"}
}

// sort reads "z_score", "z_score desc" or "z_score asc".
func (b *builder) sort(n *node) (Sort, bool) {
	if !n.has(text) {
		return Sort{}, false
	}
	by, order, _ := strings.Cut(n.text, " ")
	return Sort{By: camel(by), Ascending: order == "asc"}, true
}

func (s Sort) order() string {
	if s.Ascending {
		return "asc"
	}
	return "desc"
}

// hash tells specs apart that would not do the same.
func (s Spec) hash() string {
	s.Name, s.Was, s.About, s.Disabled, s.Line, s.Column, s.Hash = "", "", "", false, 0, 0, ""
	zone := ""
	for _, t := range []*template{&s.ask, s.ask.Read, s.wanted} {
		if t != nil && t.Window.Zone != nil {
			zone = t.Window.Zone.String() // encoding/json does not see into it
		}
	}
	normal, err := json.Marshal(struct {
		Spec   Spec
		Ask    template
		Zone   string
		Wanted *template `json:",omitempty"`
	}{s, s.ask, zone, s.wanted})
	if err != nil {
		panic("job: a spec is not plain data: " + err.Error())
	}
	sum := sha256.Sum256(normal)
	return hex.EncodeToString(sum[:])
}
