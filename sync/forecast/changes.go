package forecast

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"outlierd/outlier"
	"outlierd/sync/job"
	"outlierd/sync/plan"
	"outlierd/sync/runs"
)

// changed adds how the next run differs from the last one that followed the file, and which
// searches start from the beginning. Dates change with every run and do not count; another window
// does.
func (r *Reader) changed(f *Job, spec *job.Spec, p *plan.Plan) error {
	rows, err := r.Facts.Store.Runs.List(spec.Name, 1)
	switch {
	case err != nil:
		return err
	case len(rows) == 0:
		f.Changes = []string{"it has never run"}
		return nil
	case f.Continues != "":
		if !p.Stored.Overridden && rows[0].Request != spec.Request {
			f.Changes = []string{"the file has changed since this run started; " +
				"its changes apply from the next run on"}
		}
		return nil
	}
	last, then, err := r.lastOwnRun(spec)
	if last == nil || err != nil {
		return err
	}
	if p.Assumed { // the searches themselves are not known yet
		if last.Request != spec.Request {
			f.Changes = differences(settings(&then), settings(&p.Stored))
		}
		return nil
	}
	c := comparison{reader: r, spec: spec, same: last.Request == spec.Request, then: then, now: p, whole: f.whole}
	old, err := r.Facts.Store.Runs.Steps(last.ID)
	if err != nil {
		return err
	}
	f.Changes, err = c.changes(old)
	return err
}

// lastOwnRun returns the newest run that followed the file of its time, and its plan; nil if there is
// none. It skips runs that could not start.
func (r *Reader) lastOwnRun(spec *job.Spec) (last *runs.Run, then plan.Stored, err error) {
	rows, err := r.Facts.Store.Runs.OwnRuns(spec.Name, expectFrom)
	if err != nil {
		return nil, then, err
	}
	for i := range rows {
		if rows[i].Plan != nil {
			return &rows[i], *rows[i].Plan, nil
		}
	}
	return nil, then, nil
}

// A comparison compares the last run of a job with the next one.
type comparison struct {
	reader *Reader
	spec   *job.Spec
	same   bool // the job has not changed: its searches can differ only in their cursors
	then   plan.Stored
	now    *plan.Plan
	whole  outlier.Credits // the worst-case cost of a run
}

// changes lists changes of the job as a whole, then searches that start from the beginning or have
// other filters, then removed searches.
func (c *comparison) changes(old []runs.Step) (changes []string, err error) {
	if !c.same {
		changes = differences(settings(&c.then), settings(&c.now.Stored))
	}
	before := map[string]*runs.Step{}
	for i := range old {
		if old[i].Scan == "" {
			before[identity(&old[i])] = &old[i]
		}
	}
	steps := c.now.Steps
	for i := range steps {
		step := &steps[i]
		was := before[identity(step)]
		delete(before, identity(step))
		said, err := c.search(was, step)
		if err != nil {
			return nil, err
		}
		changes = append(changes, said...)
	}
	if c.same {
		return changes, nil
	}
	for _, key := range slices.Sorted(maps.Keys(before)) {
		changes = append(changes, named(before[key])+" is no longer searched")
	}
	return changes, nil
}

// search returns the changes of one search; was is nil if the last run did not have it. The search
// is not necessarily new then: a manual run may have been about one search of many.
func (c *comparison) search(was, step *runs.Step) (changes []string, err error) {
	mark, err := c.reader.Facts.Store.Runs.Watermark(c.spec.Name, step.Watermark)
	if err != nil {
		return nil, err
	}
	switch {
	case was == nil && mark.IsZero() && !c.same:
		asked, err := c.reader.Facts.Store.Runs.LastSearched(c.spec.Name, step.Watermark)
		if err != nil || !asked.IsZero() {
			return nil, err
		}
		return []string{named(step) + " is new and starts from the beginning, " + c.price(step.Ordinal)}, nil
	case was == nil:
		return nil, nil
	case mark.IsZero() && runs.Covered(was.Stop) && c.remembers(step):
		changes = append(changes,
			named(step)+" has lost its cursor and starts from the beginning, "+c.price(step.Ordinal))
	}
	if c.same {
		return changes, nil
	}
	for _, change := range differences(filters(&c.then, was), filters(&c.now.Stored, step)) {
		changes = append(changes, fmt.Sprintf("%s: %s; 'cursor reset' searches earlier dates again",
			named(step), change))
	}
	return changes, nil
}

// remembers reports whether a search depends on what it has covered.
func (c *comparison) remembers(step *runs.Step) bool {
	return c.spec.SinceLastSuccess() || c.spec.SeedsFresh > 0 && len(step.Seeds) > 0
}

// price returns the worst-case price of a search that starts from the beginning, even if the run's share
// of the month spreads it over several runs.
func (c *comparison) price(i int) string {
	each, pages := c.now.WholeOf(i)
	all := min(outlier.Credits(pages)*each, c.whole)
	if pages == 1 {
		return fmt.Sprintf("at %d credits", all)
	}
	return fmt.Sprintf("at %d credits a page, %d in all", each, all)
}

func identity(step *runs.Step) string {
	return strings.Join([]string{string(step.Query.Op()), step.Watermark, step.Item}, "\x00")
}

func named(step *runs.Step) string {
	if step.Item != "" {
		return fmt.Sprintf("%s for %q", step.Title(), step.Item)
	}
	return step.Title()
}

// # What is compared
//
// Two plans are compared by the texts of their settings, name and value, which are also what is shown.
// Both texts are made here from the stored plans, so a newer version that words a value differently
// reports no change. Comparing fields would need the same texts, and the fields are not a fixed list:
// kinds of calls and filters have names of their own.

// settings returns what a job does apart from its searches, by the names in the job file.
func settings(f *plan.Stored) map[string]string {
	all := map[string]string{"published_at": f.PublishedAt}
	switch {
	case f.Pages == job.AllPages:
		all["pages"] = "all"
	case len(f.IDs) == 0:
		all["pages"] = fmt.Sprint(f.Pages)
	}
	if f.NewBelow > 0 {
		all["stop_when"] = fmt.Sprintf("new_below %.4g%%", 100*f.NewBelow)
	}
	for _, call := range slices.Concat(f.Enrich, f.Fetch) {
		all[string(call.Op)] = call.String()
	}
	if where := enrichWhere(f, false); len(f.Enrich) > 0 && len(where) > 0 {
		all["enrich.where"] = strings.Join(where, ", ")
	}
	return all
}

// enrichWhere returns the filters of the hits that are enriched, in the words of the job file. Dates
// may change with every run, and can be left out.
func enrichWhere(f *plan.Stored, dates bool) []string {
	params := f.HitParams()
	if !dates {
		params.Del("publishedAtFrom")
		params.Del("publishedAtTo")
	}
	return job.Conditions(params)
}

// filters returns the filters of a search by their names in the job file, without its dates and what
// identifies it. The filters of a scan are those for reading its results.
func filters(f *plan.Stored, step *runs.Step) map[string]string {
	all := map[string]string{}
	for _, query := range []outlier.Query{step.Query, f.Reads[step.Ordinal].Query} {
		params := query.Params()
		for _, name := range []string{"publishedAtFrom", "publishedAtTo", "query"} {
			params.Del(name)
		}
		for _, condition := range job.Conditions(params) {
			name, value, _ := strings.Cut(condition, " ")
			if strings.Contains(value, "..") {
				name = "where." + name
			}
			all[name] = value
		}
	}
	return all
}

// differences lists the names whose values differ. A value that an earlier version did not store is ""
// and ignored.
func differences(was, is map[string]string) (changes []string) {
	names := maps.Clone(was)
	maps.Copy(names, is)
	for _, name := range slices.Sorted(maps.Keys(names)) {
		old, kept := was[name]
		now, wanted := is[name]
		if old == now || kept && old == "" || wanted && now == "" {
			continue
		}
		changes = append(changes, fmt.Sprintf("%s: %s → %s", name, orNone(old), orNone(now)))
	}
	return changes
}

func orNone(value string) string {
	if value == "" {
		return "not set"
	}
	return value
}
