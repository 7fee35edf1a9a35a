package scale

import (
	"outlierd/outlier"
	"outlierd/schema"
)

// best is how many hits count as the best ones of a run: those that data is fetched for.
const best = "30"

// observe measures the service by the answers of a play.
func observe(ask func(sql string) map[string]float64) (m Service) {
	calls := ask("select operation, count(*) from ops.requests group by all")
	entities := ask("select operation, count(distinct entity) from ops.requests group by all")
	bytes := ask("select operation, sum(bytes) from ops.requests group by all")
	m.Answers = map[outlier.Operation]Answer{}
	for op, n := range calls {
		m.Answers[outlier.Operation(op)] = Answer{Bytes: bytes[op] / n, Rows: map[string]float64{}}
	}
	for _, table := range schema.Tables() {
		whole := table.Kind == schema.History || table.Kind == schema.Log
		rows := ask("select operation, count(*) from " + table.Name + " join ops.requests on _response_id = response_id group by all")
		for op, n := range rows {
			of := entities[op]
			if whole || of == 0 {
				of = calls[op]
			}
			m.Answers[outlier.Operation(op)].Rows[table.Name] = n / of
		}
	}
	if search, ok := m.Answers[outlier.OpSearch]; ok { // a row for each hit that is another one
		search.Rows["outliers"] = search.Rows["outliers_history"]
	}
	one := func(sql string) float64 { return ask("select '', " + sql)[""] }
	const hits = `with hits as (select _job, _run_id, video_id, channel_id, max(z_score) as z from outliers_history group by all),
		ranked as (select *, row_number() over (partition by _run_id order by z desc) as place,
			dense_rank() over (partition by _job order by _run_id) as run from hits),
		best as (from ranked where place <= ` + best + `) `
	single := func(sql string) float64 { return ask(hits + "select '', " + sql)[""] }
	m.Distinct = one("count(distinct (_run_id, video_id)) / count(*) from outliers_history")
	m.Channels = single("count(distinct (_run_id, channel_id)) / count(*) from best")
	m.New = single(`count(*) filter (not exists (from best as b where b._job = a._job and b.run < a.run and b.video_id = a.video_id)) / count(*)
		from best as a where run > 1`)
	return m
}

// measure combines two plays: one with few calls a day, and one with many.
func measure(few, many *Played, lake *Asked) *Measured {
	busy := many.Service
	busy.New = few.Service.New // of which a single day tells nothing
	m := &Measured{Services: map[string]Service{"ordinary": few.Service, "busy": busy}}
	calls, bodies := sum(many.Calls), 0.0
	for op, n := range inOrder(many.Calls) {
		bodies += n * busy.Answers[op].Bytes
	}
	m.Cost = Cost{
		StatePerCall: (many.Bytes.State - bodies) / calls, ParquetPerRow: map[string]float64{},
		DuckDBPerParquet: many.Bytes.DuckDB / many.Bytes.Parquet, CPUPerCall: many.CPU / calls,
		LakePut: lake.Put / lake.Commits, LakeGet: lake.Get / lake.Commits, LakeDelete: lake.Delete / lake.Commits,
	}
	for table, bytes := range few.BytesOf { // whose days are closed but for the last
		if few.Rows[table] > 0 {
			m.Cost.ParquetPerRow[table] = bytes / few.Rows[table]
		}
	}
	return m
}
