// Command outlierd buys outlier-video data on a schedule, within a budget, and
// keeps it in DuckDB and Parquet.
//
// The packages, in the order in which a new reader may want to read them:
//
//   - excerpt: truncating long texts; lazyregexp: compiling regular expressions at their first use;
//     subprocess: running programs that people name. They import nothing of what follows.
//   - outlier: the interface of the service; its Client is the only code that spends.
//   - outlier/pace: the rate limiter.
//   - outlier/simulator: an in-memory service, for tests, demos and sim://.
//   - schema: the tables, one line per column, and decoding driven by them.
//   - sinks: the contract of a sink; duckdb and parquet implement it, bucket copies their files,
//     compare checks them, and duckdb/query reads what is published.
//   - sync/yamltree: YAML with positions, variables and mistakes.
//   - sync/job: jobs.yaml and every mistake in it.
//   - sync/store: the SQLite file: transactions, migrations, lock, disk space.
//   - sync/ops: the rows of the published tables ops.*.
//   - sync/journal: the answers, as received.
//   - sync/forgotten: hashes of erased ids.
//   - sync/ledger: all money: caps, periods, reservations, holds.
//   - sync/queue: queued calls.
//   - sync/runs: runs, steps, hits, scans and watermarks.
//   - sync/state: opens the state folder, which these seven share.
//   - sync/plan: what a run will request and cost, without I/O.
//   - sync/facts: the input of a plan, read from the state; which unfinished runs continue.
//   - sync/load: loads answers from the journal into the sinks.
//   - sync/engine: performs runs, and runs the schedule.
//   - sync/forecast: plans, budget, queue and status, for people.
//   - sync/backup: backups of the state.
//   - sync/check: compares the sinks with the journal.
//   - sync/notify: notifications and their delivery.
//   - sync/metrics: metrics for Prometheus.
//   - sync/trace: traces of runs for OpenTelemetry.
//   - sync/serve: commands beside a daemon.
//   - cmd/outlierd/term: the format of results, for people and for programs.
//   - cmd/outlierd/page: the pages for browsers; thumbnails and pagedata bring what they show.
//   - cmd/outlierd/daemon: what up does beside the schedule.
//   - cmd/outlierd/command: the commands, and the wiring.
package main

import (
	"os"

	"outlierd/cmd/outlierd/command"
)

func main() {
	os.Exit(command.Main())
}
