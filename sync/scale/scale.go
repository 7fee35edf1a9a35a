// Package scale computes what a month of use takes: calls, credits, rows, bytes, files, requests to
// a bucket and a lake, CPU time and money. It generates the tables of docs/design/scale.md.
//
// [Count] computes it from a job file and measurements. It plans each job with package plan, as a run does,
// and adds up the runs of the month. It also models three rules of the engine: a fresh answer is not
// requested again, calls of one kind follow each other in the queue, and while calls are made, the sinks
// publish about once a minute.
//
// The measurements are in measured.json: what the service answers, and what storing that takes. The tests
// of this package measure both, and compare the model with plays: days or a month of the engine in virtual
// time. They fail if the two differ by more than the page says.
package scale

import (
	"cmp"
	"context"
	"fmt"
	"iter"
	"maps"
	"math"
	"slices"
	"strings"
	"time"

	"outlierd/outlier"
	"outlierd/schema"
	"outlierd/sync/facts"
	"outlierd/sync/job"
	"outlierd/sync/plan"
)

// Use describes the use of one key.
type Use struct {
	Config *job.Config
	Finds  map[string]int // number of ids that the SQL of a job finds, by job
	From   time.Time
	Days   int

	Service Service // the service's answers for this use
}

// Month has the results of the days of a [Use] that begins with an empty data folder.
type Month struct {
	Runs, Searches float64
	Calls          map[outlier.Operation]float64
	Credits        float64
	Rows           map[string]float64 // of each table at the end
	Publications   float64
	Shown          map[string]float64 // publications in which a table has new rows, by table
	Written        map[string]float64 // Parquet files, by table
	Bytes          Bytes
	Files          float64  // Parquet files at the end
	Bucket         Requests // for the copy of the Parquet files
	Lake           Lake
	CPU            float64 // seconds

	rewritten      map[string]float64 // how often the final rows are rewritten in another file
	merged, single map[string]float64 // runs that leave several files of a table, and files of runs that leave one
}

// Bytes has the sizes on disk at the end.
type Bytes struct{ State, DuckDB, Parquet float64 }

// Requests counts requests to a bucket. Sent is in bytes.
type Requests struct{ Put, Delete, Sent float64 }

// Lake counts what is sent to a lake.
type Lake struct {
	Commits          map[string]float64 // by table
	Put, Get, Delete float64            // to its bucket
}

// Count computes the month of a use. It returns an error for what it does not support: scans, searches
// without an end, and more calls than the pace allows.
func Count(u Use, cost Cost) (*Month, error) {
	month := &Month{
		Calls: map[outlier.Operation]float64{}, Rows: map[string]float64{}, Shown: map[string]float64{},
		Written: map[string]float64{}, rewritten: map[string]float64{}, merged: map[string]float64{},
		single: map[string]float64{},
	}
	until := u.From.AddDate(0, 0, u.Days)
	calendar := plan.NewCalendar(u.Config, u.From, until)
	var all []demand
	for i := range u.Config.Jobs {
		spec := &u.Config.Jobs[i]
		runs := calendar.Runs(spec, u.From)
		if runs == 0 {
			continue
		}
		wants, err := u.demands(spec, runs, month)
		if err != nil {
			return nil, err
		}
		all = append(all, wants...)
		month.show(wants, &u.Service)
	}
	for _, d := range all {
		month.Calls[d.op] += d.calls()
	}
	if err := withinPace(month, u); err != nil {
		return nil, err
	}
	month.addRows(all, &u.Service)
	month.store(&u.Service, cost, float64(u.Days))
	return month, nil
}

// A demand has the calls of one operation that the runs of a job make.
type demand struct {
	op           outlier.Operation
	runs         float64
	first, later float64 // calls of the first run, and of each later one
	entities     float64 // approximate number of different entities, over all runs
	paid         bool
}

func (d *demand) calls() float64 { return d.first + (d.runs-1)*d.later }

// demands returns the demands of a job with the given number of runs. It adds runs, searches and credits
// to the month.
func (u *Use) demands(spec *job.Spec, runs int, month *Month) ([]demand, error) {
	if spec.Scan != nil || spec.Pages == job.AllPages {
		return nil, fmt.Errorf("job %s: scans, and searches without an end, are not counted", spec.Name)
	}
	p, err := u.plan(spec)
	if err != nil {
		return nil, err
	}
	n, apart := float64(runs), float64(u.Days)/float64(runs) // days
	cost, most := p.Buys(p.Stored.CapFor(spec.Budget))
	month.Runs += n
	month.Searches += n * float64(len(p.Steps))
	month.Credits += n * float64(cost.Credits)
	var all []demand
	fresh := min(1, u.Service.New*apart) // share of the best hits that no earlier run had
	pages := float64(most)
	if pages > 0 {
		op := plan.PagedBy(p.Steps[0].Query.Op())
		all = append(all, demand{op: op, runs: n, first: pages, later: pages, paid: true,
			entities: pages * u.Service.Answers[op].hits() * u.Service.Distinct * (1 + (n-1)*fresh)})
	}
	for _, call := range p.Stored.Enrich {
		hits := pages * u.Service.Answers[outlier.OpSearch].hits() * u.Service.Distinct
		entities := min(float64(call.Most(most, len(p.Steps))), hits)
		if aboutChannels(call.Op) {
			entities *= u.Service.Channels
		}
		again := max(fresh, 1/(math.Floor(call.RefreshAfter.Hours()/24/apart)+1))
		if call.RefreshAfter == plan.Once {
			again = fresh
		}
		all = append(all, demand{op: call.Op, runs: n, first: entities, later: entities * again,
			entities: entities * (1 + (n-1)*fresh)})
	}
	for _, call := range p.Stored.Fetch {
		entities := float64(len(p.Stored.IDs))
		later := entities
		if call.RefreshAfter == plan.Once {
			later = 0
		}
		all = append(all, demand{op: call.Op, runs: n, first: entities, later: later, entities: entities})
	}
	return all, nil
}

// plan returns the plan of a run of the job. Its SQL finds made-up ids, as many as the use says.
func (u *Use) plan(spec *job.Spec) (*plan.Plan, error) {
	reader := &facts.Reader{Config: u.Config, IDs: func(context.Context, string, string) (ids []string, err error) {
		form := "%011d" // id of a video
		if len(spec.Fetch) > 0 && aboutChannels(spec.Fetch[0].Op) {
			form = "UC%022d"
		}
		for i := range u.Finds[spec.Name] {
			ids = append(ids, fmt.Sprintf(form, i))
		}
		return ids, nil
	}}
	known, err := reader.NeverRun(context.Background(), spec, facts.Options{At: u.From})
	if err != nil {
		return nil, err
	}
	for op := range known.Paging {
		known.Paging[op] = job.PagingPage // it was learned long ago, so no page is wasted on it
	}
	return plan.New(spec, known)
}

func aboutChannels(op outlier.Operation) bool {
	return op == outlier.OpChannelVideos || op == outlier.OpChannelShorts
}

// withinPace returns an error if the calls of a month are more than the pace allows.
func withinPace(month *Month, u Use) error {
	calls, limit := sum(month.Calls), u.Config.Service.Limit
	most := float64(limit.Requests) * float64(u.Days) * float64(24*time.Hour/limit.Window)
	if calls > most {
		return fmt.Errorf("%.0f calls in %d days are more than the pace of %s allows: %.0f", calls, u.Days, limit, most)
	}
	return nil
}

// perMinute is the number of calls that are published at a time: those of a minute.
const perMinute = 10

// show adds the publications of a job: those of its first run, which fills the tables, and those of the others.
func (month *Month) show(wants []demand, s *Service) {
	month.showRuns(1, 0.5, wants, s, func(d *demand) (calls, fresh float64) { return d.first, d.first })
	month.showRuns(wants[0].runs-1, 1, wants, s, func(d *demand) (calls, fresh float64) {
		return d.later, max(0, d.entities-d.first)
	})
}

// showRuns adds the publications of the given number of runs, and the publications in which each table
// has new rows. A run publishes at its first call, each minute, when its pages are loaded, and at its
// end. size is the size of the tables at that time, as a share of their size at the end. of returns the
// number of calls of each run, and the approximate number of new entities in all runs.
func (month *Month) showRuns(runs, size float64, wants []demand, s *Service, of func(*demand) (calls, fresh float64)) {
	pages, data := 0.0, 0.0
	for i := range wants {
		d := &wants[i]
		calls, fresh := of(d)
		times := runs * min(1, calls) * max(1, calls/perMinute+0.3) // calls of one kind follow each other
		if d.paid {
			times = runs * min(calls, 2) // with the first page, and after all pages
			pages += calls
		} else {
			data += calls
		}
		for _, table := range schema.Tables() {
			rows := s.Answers[d.op].Rows[table.Name]
			if rows == 0 && (table.History == nil || s.Answers[d.op].Rows[table.History.Name] == 0) {
				continue
			}
			news := times
			if table == schema.Missing || table.Kind == schema.Changes { // which have only new rows
				news = min(times, fresh*rows)
			}
			month.Shown[table.Name] += news
			month.rewritten[table.Name] += times * size
			if news >= 2*runs {
				month.merged[table.Name] += runs
			} else {
				month.single[table.Name] += news
			}
		}
	}
	each := 2 + max(0, math.Ceil((pages+data)/perMinute)-1)
	if pages > 0 && data > 0 {
		each++
	}
	month.Publications += runs * each
	month.Shown["ops.requests"] += runs * (each - 1)
	month.Shown["ops.runs"] += runs * 2 // started and ended
	if pages > 0 {
		month.Shown["ops.searches"] += runs * 2
		month.Shown["ops.credits"] += runs * 2
	}
}

// addRows adds the rows of each table. Histories have the rows of every answer, other tables those of every
// entity.
func (month *Month) addRows(all []demand, s *Service) {
	for _, table := range schema.Tables() {
		whole := table.Kind == schema.History || table.Kind == schema.Log
		for _, d := range all {
			asked := d.entities
			if d.paid && !whole {
				asked = d.entities / max(1, s.Answers[d.op].hits())
			} else if whole {
				asked = d.calls()
			}
			month.Rows[table.Name] += asked * s.Answers[d.op].Rows[table.Name]
		}
	}
	month.Rows["ops.runs"], month.Rows["ops.searches"] = month.Runs, month.Searches
	for _, d := range all {
		month.Rows["ops.requests"] += d.calls()
		if d.paid {
			month.Rows["ops.credits"] += d.calls()
		}
	}
}

// store adds what storing the rows takes.
func (month *Month) store(s *Service, cost Cost, days float64) {
	for op, n := range inOrder(month.Calls) {
		month.Bytes.State += n * (s.Answers[op].Bytes + cost.StatePerCall)
	}
	for table, rows := range inOrder(month.Rows) {
		month.Bytes.Parquet += rows * cost.ParquetPerRow[table]
	}
	month.Bytes.DuckDB = cost.DuckDBPerParquet * month.Bytes.Parquet
	for table, times := range inOrder(month.Shown) {
		bytes := month.Rows[table] * cost.ParquetPerRow[table]
		if rewritten(table) {
			month.Files++
			month.Written[table] = times
			month.Bucket.Sent += month.rewritten[table] * bytes
			continue
		}
		closed := min(days-1, month.merged[table])               // several files of a day become one after the day
		month.Files += closed + month.single[table] + times/days // plus the parts of the last day
		month.Written[table] = times + closed
		month.Bucket.Sent += 2 * bytes
	}
	month.Bucket.Put = sum(month.Written)
	month.Bucket.Delete = max(0, month.Bucket.Put-month.Files) // all except the final ones
	month.Bucket.Put += month.Publications                     // the manifest
	month.Bucket.Sent += month.Publications * manifestPerFile * month.Files / 2
	// A batch is a commit of each table with new rows, and two of the table with the writer's positions:
	// one for the answers and one for the operations tables.
	month.Lake.Commits = maps.Clone(month.Shown)
	month.Lake.Commits["outlierd_writers"] = 2 * month.Publications
	commits := sum(month.Lake.Commits)
	month.Lake.Put, month.Lake.Get, month.Lake.Delete = commits*cost.LakePut, commits*cost.LakeGet, commits*cost.LakeDelete
	month.CPU = sum(month.Calls) * cost.CPUPerCall
}

// manifestPerFile is the number of bytes per file in the manifest of a bucket: see docs/buckets.md.
const manifestPerFile = 230

// rewritten reports whether new rows of a table are written by replacing its file.
func rewritten(table string) bool {
	for _, t := range schema.Tables() {
		if t.Name == table {
			return t.Kind == schema.Current || t.Kind == schema.Children
		}
	}
	return strings.HasPrefix(table, "ops.")
}

func sum[K cmp.Ordered](all map[K]float64) (s float64) {
	for _, n := range inOrder(all) {
		s += n
	}
	return s
}

// inOrder iterates over a map in the order of its keys: sums of floating-point numbers depend on the order.
func inOrder[K cmp.Ordered](all map[K]float64) iter.Seq2[K, float64] {
	return func(yield func(K, float64) bool) {
		for _, key := range slices.Sorted(maps.Keys(all)) {
			if !yield(key, all[key]) {
				return
			}
		}
	}
}
