package job

import (
	"cmp"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"outlierd/outlier"
	"outlierd/sync/yamltree"
)

// verbs in the order in which a message lists them.
var verbs = []string{
	string(VerbSearch), string(VerbRelated), string(VerbScan), string(VerbChannels),
	string(VerbVideos), string(VerbFindChannels), string(VerbTrendingFormats),
}

func isVerb(key string) bool { return slices.Contains(verbs, key) }

// verb finds what the job does: exactly one thing.
func (b *builder) verb(spec *Spec, job *yamltree.Node) *yamltree.Node {
	var found *yamltree.Node
	for _, e := range job.Entries {
		switch {
		case !isVerb(e.Key.Text):
		case found != nil:
			e.Key.RefuseWithHint("make it two jobs, the second with after: "+spec.Name,
				"cannot be combined with %s: a job does one thing", spec.Verb)
		default:
			found, spec.Verb = e.Value, Verb(e.Key.Text)
		}
	}
	if found == nil {
		if !hasUnknownKey(job) {
			job.Head().RefuseWithHint("as in search: {query: moka pot}",
				"must have one of %s", strings.Join(verbs, ", "))
		}
		return nil
	}
	if !found.Has(yamltree.Mapping) {
		return nil
	}
	return found
}

// hasUnknownKey reports whether n has an unknown key: it may be a misspelling of what
// n now lacks.
func hasUnknownKey(n *yamltree.Node) bool {
	for _, e := range n.Entries {
		if e.Value.Ignored {
			return true
		}
	}
	return false
}

// asks reads what the verb asks.
func (b *builder) asks(spec *Spec, job, n *yamltree.Node) {
	a := asker{b: b, loops: b.loops(job)}
	switch spec.Verb {
	case VerbSearch, VerbRelated, VerbFindChannels:
		a.search(spec, n)
	case VerbScan:
		a.scan(spec, n)
	case VerbChannels:
		a.data(spec, n, outlier.OpChannelVideos, []outlier.Operation{outlier.OpChannelVideos, outlier.OpChannelShorts})
	case VerbVideos:
		a.data(spec, n, outlier.OpDetails, []outlier.Operation{outlier.OpDetails})
	case VerbTrendingFormats:
		a.trending(spec, n)
	}
	spec.ask = *a.ask
	for _, l := range a.loops {
		spec.Loops = append(spec.Loops, l.Loop)
		if !l.used && !mentions(n, l.Name) {
			at := job.Get("for_each").Get(l.Name).Head()
			at.Refuse("%s does not use ${%s}, so all values would make the same request", spec.Verb, l.Name)
		}
	}
}

// mentions reports whether a template below n names it, be it in the right place or not.
func mentions(n *yamltree.Node, name string) bool {
	for child := range n.Children() {
		if slices.Contains(child.Names, name) || mentions(child, name) {
			return true
		}
	}
	return false
}

// How long seeds count as bought, and how deep a scan is read, if the job does not say.
const (
	defaultSeeds    = 7 * day
	defaultReading  = 5
	defaultDeadline = 24 * time.Hour
)

// search reads a verb that has hits and pages.
func (a *asker) search(spec *Spec, n *yamltree.Node) {
	switch spec.Verb {
	case VerbSearch:
		a.ask = a.b.newTemplate(outlier.OpSearch)
	case VerbRelated:
		a.ask = a.b.newTemplate(outlier.OpRelated)
		a.seeded(n)
		spec.SeedsFresh = cmp.Or(duration(n.Get("refresh_after")), defaultSeeds)
	case VerbFindChannels:
		a.ask = a.b.newTemplate(outlier.OpFindChannels)
		if to := n.Get("related_to"); to != nil {
			a.related(n, to)
		}
	}
	a.fields(n, n.Get("where"))
	a.order(n.Get("sort"))
	a.paging(spec, n, 1)
}

// seeded refuses a related search without a seed: the service would answer it with
// whatever there is, and charge for that.
func (a *asker) seeded(n *yamltree.Node) {
	for _, name := range subjects {
		if n.Get(snake(name)) != nil {
			return
		}
	}
	n.Head().Refuse("must have at least one of title, video_id, thumbnail_video_id and related_channel_id")
}

// related makes a search for channels one for those related to given ones, of which
// the service knows neither queries nor orders.
func (a *asker) related(n, to *yamltree.Node) {
	a.ask = a.b.newTemplate(outlier.OpFindRelatedChannels)
	for _, key := range []string{"query", "seed", "sort"} {
		if other := n.Get(key); other != nil && !other.Has(yamltree.Null) {
			other.Head().Refuse("cannot be combined with related_to")
			other.Wrong = true
		}
	}
	if texts := a.texts("relatedChannelId", to); len(texts) > 0 {
		a.ask.Params["relatedChannelId"] = texts
	}
}

// order asks the service for an order of hits.
func (a *asker) order(n *yamltree.Node) {
	if by, ok := readSort(n); ok {
		a.ask.Params.Set("sortBy", by.By)
		a.ask.Params.Set("sortOrder", by.order())
	}
}

// paging reads how many pages to buy at most, and when to stop before that.
func (a *asker) paging(spec *Spec, n *yamltree.Node, otherwise int) {
	spec.Pages = otherwise
	switch pages := n.Get("pages"); {
	case pages.Has(yamltree.Whole):
		spec.Pages, _ = strconv.Atoi(pages.Text) // its size is bounded by the schema
	case pages.Has(yamltree.Text):
		spec.Pages = AllPages
	}
	below := n.Get("stop_when").Get("new_below")
	if !below.Has(yamltree.Text) {
		return
	}
	share, err := parsePercent(below.Text)
	if err != nil {
		below.RefuseQuoting(err.Error())
	}
	spec.NewBelow = share
}

// scan reads what is scanned for, how the scan is waited for, and how it is read.
func (a *asker) scan(spec *Spec, n *yamltree.Node) {
	a.ask = a.b.newTemplate(outlier.OpStartScan)
	mode := n.Get("mode").TextOr(outlier.ModeFast)
	a.ask.Params = url.Values{"findBy": {outlier.FindByQuery}, "mode": {mode}}
	query, channels := n.Get("query"), n.Get("channel_id")
	switch {
	case query != nil && channels != nil:
		channels.Head().Refuse("cannot be combined with query: a scan starts from one of them")
	case channels != nil:
		a.ask.Params.Set("findBy", outlier.FindByChannels)
		query = channels
	case query == nil:
		n.Head().Refuse("must have query or channel_id")
	}
	if query != nil {
		if texts := a.texts("query", query); len(texts) > 0 {
			a.ask.Params["query"] = texts
		}
	}
	spec.Scan = &Scan{Mode: mode, PollMin: time.Minute, PollMax: 10 * time.Minute}
	spec.Scan.Deadline = cmp.Or(duration(n.Get("deadline")), defaultDeadline)
	a.poll(spec.Scan, n.Get("poll"))
	a.reading(spec, n.Get("read"))
}

func (a *asker) poll(scan *Scan, n *yamltree.Node) {
	if !n.Has(yamltree.Text) {
		return
	}
	first, most, err := parsePoll(n.Text)
	if err != nil {
		n.RefuseQuoting(err.Error())
		return
	}
	scan.PollMin, scan.PollMax = first, most
}

// reading reads the search that fetches what a scan has found. It has the names of
// the scan's for_each.
func (a *asker) reading(spec *Spec, n *yamltree.Node) {
	scan := a.ask
	a.ask = a.b.newTemplate(outlier.OpSearch)
	a.fields(nil, n.Get("where"))
	a.order(n.Get("sort"))
	a.paging(spec, n, defaultReading)
	if a.ask.Params.Has("referenceId") {
		a.b.merge(n.Get("where"))["reference_id"].Refuse("must not be set: the id of the scan itself is used")
	}
	scan.Read, a.ask = a.ask, scan
}

// data reads the ids of channels or videos, and what to fetch for each of them.
func (a *asker) data(spec *Spec, n *yamltree.Node, op outlier.Operation, otherwise []outlier.Operation) {
	a.ask = a.b.newTemplate(op)
	if id := n.Get("id"); id != nil {
		a.ask.Params[ids] = a.texts(ids, id)
	}
	fresh := duration(n.Get("refresh_after"))
	ops := otherwise
	if fetch := n.Get("fetch").Members(); len(fetch) > 0 {
		ops = nil
		for _, f := range fetch {
			ops = append(ops, outlier.Operation(f.TextOr("")))
		}
	}
	for _, op := range ops {
		if slices.ContainsFunc(spec.Fetch, func(e Enrich) bool { return e.Op == op }) {
			continue
		}
		spec.Fetch = append(spec.Fetch, Enrich{Op: op, RefreshAfter: fresh})
	}
}

// trending reads parameters of which nothing is known, under their names on the wire.
func (a *asker) trending(spec *Spec, n *yamltree.Node) {
	a.ask = a.b.newTemplate(outlier.OpTrendingFormats)
	spec.Pages = 1
	for _, e := range n.Entries {
		name := e.Key.Text
		if strings.TrimSpace(name) == "" {
			e.Key.Refuse("the parameter has no name")
			continue
		}
		for _, member := range e.Value.Scalars() {
			a.ask.Params[name] = append(a.ask.Params[name], a.patterns(name, member, "")...)
		}
	}
}
