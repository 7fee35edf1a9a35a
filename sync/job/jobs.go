package job

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"strconv"
	"strings"
	"time"

	"outlierd/outlier"
)

// enrichments are the operations that a job can ask for its hits.
var enrichments = []outlier.Operation{
	outlier.OpChannelVideos, outlier.OpChannelShorts, outlier.OpDetails, outlier.OpComments, outlier.OpTranscript,
}

func (b *builder) jobs(n *node) {
	if !n.has(mapping) {
		return
	}
	for _, e := range n.entries {
		if e.value.has(mapping) {
			b.cfg.Jobs = append(b.cfg.Jobs, b.spec(e.key, e.value))
		}
	}
}

func (b *builder) spec(name, n *node) Spec {
	spec := Spec{
		Name: name.text, Line: name.line, Column: name.column,
		About:     n.get("about").textOr(""),
		Every:     b.duration(n.get("every")),
		StopAfter: b.duration(n.get("stop_after")),
		Budget: JobBudget{
			PerRun:   n.get("budget").get("per_run").credits(),
			PerMonth: n.get("budget").get("per_month").credits(),
		},
	}
	spec.Schedule = b.schedule(n)
	spec.Search = b.search(n)
	b.enrich(&spec, n.get("enrich"))
	b.caps(spec, n.get("budget"))
	spec.Hash = hash(spec)
	return spec
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

func (b *builder) schedule(job *node) string {
	n, every := job.get("schedule"), job.get("every")
	if n != nil && every != nil {
		b.refuse(every.handle(), "a job has schedule or every, not both")
	}
	if !n.has(text) {
		return ""
	}
	if _, err := parseCron(n.text); err != nil {
		b.foreign(n, "the schedule "+err.Error())
	}
	return n.text
}

// search reads what the job buys. A job whose verb belongs to a later version has
// been refused already, and lacks no other.
func (b *builder) search(job *node) *search {
	n := job.get("search")
	if n == nil {
		if !job.later() {
			b.missing(job, "search", "a job says what to look for, as in search: {query: moka pot}")
		}
		return nil
	}
	s := &search{Pages: 1}
	for _, f := range s.Template.Fields() {
		if v := n.get(f.Name); v != nil && f.Name == snake(f.Name) {
			b.assign(s, f, v)
		}
	}
	if by, ok := b.sort(n.get("sort")); ok {
		s.Template.SortBy, s.Template.SortOrder = by.By, by.order()
	}
	b.where(s, n.get("where"))
	b.pages(s, n.get("pages"), job.get("budget").get("per_run") != nil)
	return s
}

// later reports whether a key of a later version was refused in n.
func (n *node) later() bool {
	for _, e := range n.entries {
		if e.value.dead {
			return true
		}
	}
	return false
}

func (b *builder) pages(s *search, n *node, capped bool) {
	switch {
	case n.has(whole):
		s.Pages, _ = strconv.Atoi(n.text) // its size is bounded by the schema
	case n.has(text) && !capped:
		b.refuseWithHint(n, "add budget: {per_run: 20} to the job", "all pages can be had only within a budget for the run")
	case n.has(text):
		s.Pages = AllPages
	}
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

// enrich reads what to fetch, in the order of the file.
func (b *builder) enrich(spec *Spec, n *node) {
	var ok bool
	if spec.EnrichSort, ok = b.sort(n.get("sort")); !ok {
		spec.EnrichSort = Sort{By: "zScore"}
		if s := spec.Search; s != nil && s.Template.SortBy != "" {
			spec.EnrichSort = Sort{s.Template.SortBy, s.Template.SortOrder == "asc"}
		}
	}
	if !n.has(mapping) {
		return
	}
	for _, e := range n.entries {
		for _, op := range enrichments {
			if string(op) == e.key.text {
				top, _ := strconv.Atoi(e.value.get("top").textOr("0"))
				spec.Enrich = append(spec.Enrich, Enrich{op, top, b.duration(e.value.get("refresh_after"))})
			}
		}
	}
}

// caps refuses amounts that contradict each other, and those that not even one page
// fits into: such a job would never do anything.
func (b *builder) caps(spec Spec, n *node) {
	all := b.root.get("budget")
	month := b.cfg.Budget.PerMonth
	b.exceeds(n.get("per_run"), spec.Budget.PerMonth, "the job's own per_month")
	b.exceeds(n.get("per_run"), month, "the budget's per_month")
	b.exceeds(n.get("per_month"), month, "the budget's per_month")
	if spec.Search == nil {
		return
	}
	for _, cap := range []*node{n.get("per_run"), n.get("per_month"), all.get("per_day"), all.get("per_month")} {
		b.holdsPage(cap, 0)
	}
	if reserve := all.get("reserve").credits(); reserve != nil {
		b.holdsPage(all.get("per_month"), *reserve)
	}
}

func (b *builder) exceeds(n *node, limit *outlier.Credits, name string) {
	if amount := n.credits(); amount != nil && limit != nil && *amount > *limit {
		b.refuse(n, "a cap of %s is more than %s", n.shown(), name)
	}
}

func (b *builder) holdsPage(n *node, reserve outlier.Credits) {
	page := outlier.OpSearch.Price()
	switch amount := n.credits(); {
	case amount == nil || *amount-reserve >= page:
	case reserve > 0:
		b.refuse(n, "a cap of %s, less the reserve, does not hold a page of a search, which costs %d credits", n.shown(), page)
	default:
		b.refuse(n, "a cap of %s does not hold a page of a search, which costs %d credits", n.shown(), page)
	}
}

// hash tells specs apart that would not do the same.
func hash(spec Spec) string {
	spec.Name, spec.About, spec.Line, spec.Column, spec.Hash = "", "", 0, 0, ""
	zone := ""
	if spec.Search != nil && spec.Search.Published.Zone != nil {
		zone = spec.Search.Published.Zone.String() // encoding/json does not see into it
	}
	normal, err := json.Marshal(struct {
		Spec Spec
		Zone string
	}{spec, zone})
	if err != nil {
		panic("job: a spec is not plain data: " + err.Error())
	}
	sum := sha256.Sum256(normal)
	return hex.EncodeToString(sum[:])
}
