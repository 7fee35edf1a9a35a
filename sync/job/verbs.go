package job

import (
	"cmp"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"outlierd/outlier"
)

// verbs in the order in which a message lists them.
var verbs = []string{
	string(VerbSearch), string(VerbRelated), string(VerbScan), string(VerbChannels),
	string(VerbVideos), string(VerbFindChannels), string(VerbTrendingFormats),
}

func isVerb(key string) bool { return slices.Contains(verbs, key) }

// verb finds what the job does: exactly one thing.
func (b *builder) verb(spec *Spec, job *node) *node {
	var found *node
	for _, e := range job.entries {
		switch {
		case !isVerb(e.key.text):
		case found != nil:
			b.refuseWithHint(e.key, "make it two jobs, the second with after: "+spec.Name, "a job does one thing, and this one has %s already", spec.Verb)
		default:
			found, spec.Verb = e.value, Verb(e.key.text)
		}
	}
	if found == nil {
		if !job.refused() {
			b.refuseWithHint(job.handle(), "as in search: {query: moka pot}", "a job says what it does: %s", strings.Join(verbs, ", "))
		}
		return nil
	}
	if !found.has(mapping) {
		return nil
	}
	return found
}

// refused reports whether n has a key that is not one: it may have been meant for what
// n now lacks.
func (n *node) refused() bool {
	for _, e := range n.entries {
		if e.value.dead {
			return true
		}
	}
	return false
}

// asks reads what the verb asks.
func (b *builder) asks(spec *Spec, job, n *node) {
	a := asker{builder: b, loops: b.loops(job)}
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
	spec.ask = *a.template
	for _, l := range a.loops {
		spec.Loops = append(spec.Loops, l.Loop)
		if !l.said && !mentions(n, l.Name) {
			a.refuse(job.get("for_each").get(l.Name).handle(), "%s says ${%s} nowhere, so that all values would ask for the same", spec.Verb, l.Name)
		}
	}
}

// mentions reports whether a template below n names it, be it in the right place or not.
func mentions(n *node, name string) bool {
	for child := range n.children() {
		if slices.Contains(child.names, name) || mentions(child, name) {
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
func (a *asker) search(spec *Spec, n *node) {
	switch spec.Verb {
	case VerbSearch:
		a.template = a.newTemplate(outlier.OpSearch)
	case VerbRelated:
		a.template = a.newTemplate(outlier.OpRelated)
		a.seeded(n)
		spec.SeedsFresh = cmp.Or(a.duration(n.get("refresh_after")), defaultSeeds)
	case VerbFindChannels:
		a.template = a.newTemplate(outlier.OpFindChannels)
		if to := n.get("related_to"); to != nil {
			a.related(n, to)
		}
	}
	a.fields(n, n.get("where"))
	a.order(n.get("sort"))
	a.paging(spec, n, 1)
}

// seeded refuses a related search without a seed: the service would answer it with
// whatever there is, and charge for that.
func (a *asker) seeded(n *node) {
	for _, name := range subjects {
		if n.get(snake(name)) != nil {
			return
		}
	}
	a.refuseWithHint(n.handle(), "give at least one of title, video_id, thumbnail_video_id and related_channel_id", "says nothing that the hits are to be related to")
}

// related makes a search for channels one for those related to given ones, of which
// the service knows neither queries nor orders.
func (a *asker) related(n, to *node) {
	a.template = a.newTemplate(outlier.OpFindRelatedChannels)
	for _, key := range []string{"query", "seed", "sort"} {
		if other := n.get(key); other != nil && !other.has(null) {
			a.refuse(other.handle(), "cannot stand beside related_to")
			other.wrong = true
		}
	}
	if texts := a.texts("relatedChannelId", to); len(texts) > 0 {
		a.Params["relatedChannelId"] = texts
	}
}

// order asks the service for an order of hits.
func (a *asker) order(n *node) {
	if by, ok := a.sort(n); ok {
		a.Params.Set("sortBy", by.By)
		a.Params.Set("sortOrder", by.order())
	}
}

// paging reads how many pages to buy at most, and when to stop before that.
func (a *asker) paging(spec *Spec, n *node, otherwise int) {
	spec.Pages = otherwise
	switch pages := n.get("pages"); {
	case pages.has(whole):
		spec.Pages, _ = strconv.Atoi(pages.text) // its size is bounded by the schema
	case pages.has(text):
		spec.Pages = AllPages
	}
	below := n.get("stop_when").get("new_below")
	if !below.has(text) {
		return
	}
	share, err := parsePercent(below.text)
	if err != nil {
		a.foreign(below, err.Error())
	}
	spec.NewBelow = share
}

// scan reads what is scanned for, how the scan is waited for, and how it is read.
func (a *asker) scan(spec *Spec, n *node) {
	a.template = a.newTemplate(outlier.OpStartScan)
	mode := n.get("mode").textOr(outlier.ModeFast)
	a.Params = url.Values{"findBy": {outlier.FindByQuery}, "mode": {mode}}
	query, channels := n.get("query"), n.get("channel_id")
	switch {
	case query != nil && channels != nil:
		a.refuse(channels.handle(), "a scan starts from query or from channel_id, not from both")
	case channels != nil:
		a.Params.Set("findBy", outlier.FindByChannels)
		query = channels
	case query == nil:
		a.refuseWithHint(n.handle(), "give query or channel_id", "says nothing that the scan starts from")
	}
	if query != nil {
		if texts := a.texts("query", query); len(texts) > 0 {
			a.Params["query"] = texts
		}
	}
	spec.Scan = &Scan{Mode: mode, PollMin: time.Minute, PollMax: 10 * time.Minute}
	spec.Scan.Deadline = cmp.Or(a.duration(n.get("deadline")), defaultDeadline)
	a.poll(spec.Scan, n.get("poll"))
	a.reading(spec, n.get("read"))
}

func (a *asker) poll(scan *Scan, n *node) {
	if !n.has(text) {
		return
	}
	first, most, err := parsePoll(n.text)
	if err != nil {
		a.foreign(n, err.Error())
		return
	}
	scan.PollMin, scan.PollMax = first, most
}

// reading reads the search that fetches what a scan has found. It has the names of
// the scan's for_each.
func (a *asker) reading(spec *Spec, n *node) {
	scan := a.template
	a.template = a.newTemplate(outlier.OpSearch)
	a.fields(nil, n.get("where"))
	a.order(n.get("sort"))
	a.paging(spec, n, defaultReading)
	if a.Params.Has("referenceId") {
		a.refuse(a.merge(n.get("where"))["reference_id"], "the scan's own id stands here, once it has one")
	}
	scan.Read, a.template = a.template, scan
}

// data reads the ids of channels or videos, and what to fetch for each of them.
func (a *asker) data(spec *Spec, n *node, op outlier.Operation, otherwise []outlier.Operation) {
	a.template = a.newTemplate(op)
	if id := n.get("id"); id != nil {
		a.Params[ids] = a.texts(ids, id)
	}
	fresh := a.duration(n.get("refresh_after"))
	ops := otherwise
	if fetch := n.get("fetch").members(); len(fetch) > 0 {
		ops = nil
		for _, f := range fetch {
			ops = append(ops, outlier.Operation(f.textOr("")))
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
func (a *asker) trending(spec *Spec, n *node) {
	a.template = a.newTemplate(outlier.OpTrendingFormats)
	spec.Pages = 1
	for _, e := range n.entries {
		name := e.key.text
		if strings.TrimSpace(name) == "" {
			a.refuse(e.key, "the parameter has no name")
			continue
		}
		for _, member := range e.value.scalars() {
			a.Params[name] = append(a.Params[name], a.patterns(name, member, "")...)
		}
	}
}

// scalars are the members of a list, or the one value in place of one, of any kind
// that can be sent.
func (n *node) scalars() []*node {
	if n.has(boolean) {
		return []*node{n}
	}
	return n.members()
}
