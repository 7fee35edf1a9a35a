package job

import (
	"cmp"
	"net/url"
	"slices"
	"strings"
	"time"

	"outlierd/outlier"
	"outlierd/sync/yamltree"
)

// readVerb finds the verb of a job.
func readVerb(spec *Spec, job *yamltree.Node) *yamltree.Node {
	key, n := job.Choice(oneOff().Choices())
	if key == nil || !n.Has(yamltree.Mapping) {
		return nil
	}
	spec.Verb = Verb(key.Text)
	return n
}

func isVerb(key string) bool { return slices.Contains(oneOff().Choices(), key) }

// verbs say what each verb requests and how it is read. The parameters are those of the operation:
// [outlier.Operation.Params].
var verbs = map[Verb]struct {
	op   outlier.Operation
	read func(*asker, *Spec, *yamltree.Node)
}{
	VerbSearch:          {outlier.OpSearch, (*asker).readHits},
	VerbRelated:         {outlier.OpRelated, (*asker).readRelated},
	VerbScan:            {outlier.OpStartScan, (*asker).readScan},
	VerbChannels:        {outlier.OpChannelVideos, (*asker).readData},
	VerbVideos:          {outlier.OpDetails, (*asker).readData},
	VerbFindChannels:    {outlier.OpFindChannels, (*asker).findChannels},
	VerbTrendingFormats: {outlier.OpTrendingFormats, (*asker).readTrending},
}

// readAsks reads the request of the verb.
func (b *builder) readAsks(spec *Spec, job, n *yamltree.Node) {
	verb := verbs[spec.Verb]
	spec.Loops = b.readLoops(job)
	a := asker{b: b, loops: job.Get("for_each").Keys(), ask: newTemplate(b.cfg, verb.op)}
	verb.read(&a, spec, n)
	spec.ask = *a.ask
	b.checkFilled(spec)
	for _, l := range spec.Loops {
		if !mentionsName(n, l.Name) {
			at := job.Get("for_each").Get(l.Name).Head()
			at.Refuse("%s does not use ${%s}, so all values would make the same request", spec.Verb, l.Name)
		}
	}
}

// mentionsName reports whether a template below n contains the name, even in an invalid place.
func mentionsName(n *yamltree.Node, name string) bool {
	for child := range n.Children() {
		if slices.Contains(child.Names, name) || mentionsName(child, name) {
			return true
		}
	}
	return false
}

func (a *asker) readRelated(spec *Spec, n *yamltree.Node) {
	spec.SeedsFresh = cmp.Or(valueOf[time.Duration](n.Get("refresh_after")), defaultSeeds)
	// The service would answer a related search without a seed with arbitrary results, and charge for
	// them.
	given := func(name string) bool { return n.Get(snakeCase(name)) != nil }
	if !slices.ContainsFunc(a.ask.Op.Subjects(), given) {
		n.Head().Refuse("must have at least one of title, video_id, thumbnail_video_id and related_channel_id")
	}
	a.readHits(spec, n)
}

// findChannels reads a search for channels: by a query, or for those related to given ones, for which the
// service supports neither queries nor orders.
func (a *asker) findChannels(spec *Spec, n *yamltree.Node) {
	to := n.Get("related_to")
	if to == nil {
		a.readHits(spec, n)
		return
	}
	a.ask.Op = outlier.OpFindRelatedChannels
	for _, key := range []string{"query", "seed", "sort"} {
		if other := n.Get(key); other != nil && !other.Has(yamltree.Null) {
			other.Head().Refuse("cannot be combined with related_to")
			other.Wrong = true
		}
	}
	a.readTexts("relatedChannelId", to)
	a.readHits(spec, n)
}

// readHits reads what all verbs have in common that search for hits.
func (a *asker) readHits(spec *Spec, n *yamltree.Node) {
	a.readFields(n, n.Get("where"))
	a.readOrder(n.Get("sort"))
	a.readPaging(spec, n, 1)
}

// readOrder reads the order of the hits.
func (a *asker) readOrder(n *yamltree.Node) {
	if by := valueOf[Sort](n); by.By != "" {
		a.ask.Params.Set("sortBy", by.By)
		a.ask.Params.Set("sortOrder", by.order())
	}
}

// readPaging reads the maximum number of pages, and when to stop before that.
func (a *asker) readPaging(spec *Spec, n *yamltree.Node, otherwise int) {
	spec.Pages = cmp.Or(valueOf[int](n.Get("pages")), otherwise)
	spec.NewBelow = valueOf[float64](n.Get("stop_when").Get("new_below"))
}

// readScan reads what to scan for, how to wait for the scan, and how to read it.
func (a *asker) readScan(spec *Spec, n *yamltree.Node) {
	spec.Scan = &Scan{PollMin: time.Minute, PollMax: 10 * time.Minute}
	readKeys(spec.Scan, oneOff().Get("scan"), n)
	a.ask.Params = url.Values{"findBy": {outlier.FindByQuery}, "mode": {spec.Scan.Mode}}
	key, query := n.Choice(oneOff().Get("scan").Choices())
	if key != nil && key.Text == "channel_id" {
		a.ask.Params.Set("findBy", outlier.FindByChannels)
	}
	if query != nil {
		a.readTexts("query", query)
	}
	if poll := valueOf[poll](n.Get("poll")); poll.most > 0 {
		spec.Scan.PollMin, spec.Scan.PollMax = poll.first, poll.most
	}
	a.readReading(spec, n.Get("read"))
}

// readReading reads the search of a scan's results. It may use the names of the scan's for_each.
func (a *asker) readReading(spec *Spec, n *yamltree.Node) {
	scan := a.ask
	a.ask = newTemplate(a.b.cfg, outlier.OpSearch)
	a.readFields(nil, n.Get("where"))
	a.readOrder(n.Get("sort"))
	a.readPaging(spec, n, defaultReading)
	if a.ask.Params.Has("referenceId") {
		n.Get("where").Get("reference_id").Refuse("must not be set: the id of the scan itself is used")
	}
	scan.Read, a.ask = a.ask, scan
}

// readData reads the ids of channels or videos, and what to fetch for each of them.
func (a *asker) readData(spec *Spec, n *yamltree.Node) {
	ops := []outlier.Operation{a.ask.Op}
	if a.ask.Op == outlier.OpChannelVideos {
		ops = append(ops, outlier.OpChannelShorts)
	}
	if id := n.Get("id"); id != nil {
		a.readTexts(ids, id)
	}
	fresh := valueOf[time.Duration](n.Get("refresh_after"))
	if fetch := n.Get("fetch").Members(); len(fetch) > 0 {
		ops = nil
		for _, f := range fetch {
			ops = append(ops, outlier.Operation(f.TextOr("")))
		}
	}
	for _, op := range ops {
		if slices.ContainsFunc(spec.Fetch, func(c Call) bool { return c.Op == op }) {
			continue
		}
		call := Call{Op: op, RefreshAfter: fresh, Value: fetches[op].value}
		if op == outlier.OpTranscript && fresh == 0 {
			call.RefreshAfter = Once
		}
		spec.Fetch = append(spec.Fetch, call)
	}
}

// readTrending reads undocumented parameters, by their names on the wire.
func (a *asker) readTrending(spec *Spec, n *yamltree.Node) {
	spec.Pages = 1
	for _, e := range n.Entries {
		name := e.Key.Text
		if strings.TrimSpace(name) == "" {
			e.Key.Refuse("the parameter has no name")
			continue
		}
		for _, member := range e.Value.Members() {
			a.addPattern(name, member, "")
		}
	}
}

// Defaults of how long seeds count as bought, and how many pages of a scan are read.
const (
	defaultSeeds   = 7 * day
	defaultReading = 5
)
