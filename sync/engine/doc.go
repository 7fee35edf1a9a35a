// Package engine runs jobs: it starts and resumes runs according to their plans, buys pages, starts and
// reads scans, makes the data calls about hits, and runs the schedule. Package facts reads what a plan
// depends on, package load writes answers to the sinks, and package forecast predicts what would happen.
//
// # Reading order
//
// Most calls between files go from top to bottom of this list:
//
//   - engine.go: the engine; progress.go: what a run has done, as its rows say.
//   - scheduler.go: the schedule, which adds runs to a worker when they are due; due.go says which are,
//     order.go has the requests of other goroutines.
//   - next.go: what is done next, from rows; worker.go: the turns in which that is performed.
//   - begin.go: how runs start and are resumed.
//   - run.go: one run, from its start to its record; ending.go says how its searches ended.
//   - search.go: pages of searches; scan.go: scans; adopt.go:
//     scans that a person settles; paging.go: what `from` counts; stops.go: why a search ends.
//   - enrich.go: data calls about hits and ids.
//   - fetch.go: attempts at a call; blocks.go and clock.go prevent or delay calls.
//   - apply.go: how an answer turns into rows; verdict.go: what an error means.
//
// A [worker] performs the runs in progress: each [run] has its [search]es, a [caller] makes the calls, and an [applier]
// turns answers into rows. Most references in the other direction are to these types, whose methods are in the file of
// what they do. The rest end something: a search ends its run, a failed call pauses the queue.
//
// # The path of an answer
//
// A run starts by resolving its job into steps and a plan, which are stored. From then on it reads these
// and never the file, so a run that was killed continues as it started; only its caps are those of the
// current file. Every call is one [outlier.Client.Do]: one transaction commits the answer, its outcome, and what
// follows from it, such as the step's cursor and the hits of the page ([applier.apply]). So a kill at any moment
// leaves either the page with the cursor behind it, or neither. The next turn reads what to do from the rows, so that
// a run goes on after a kill with the action that would have followed ([workFacts.next]). That a run goes on without a
// search, because of a cap or an error, is in the row of the search, until a person or the job's next due time
// continues the run.
//
// A search that ends by itself moves the watermark of what it searched for in the same transaction, and
// the next run starts its window there. A search that a cap or an error ended does not move it.
//
// After the last page, one idempotent transaction ranks the hits and queues the job's calls about
// them. All jobs share the queue: a call is not made if the answer that is known is fresh, or known to be
// missing.
//
// # The worker
//
// A run lives in its row: it is in progress while that has no end. A turn of a [worker] reads the rows of these runs,
// and nothing of them is kept until the next turn.
// A worker makes one call at a time for all of them: pages first, then scans that are due for
// polling, then the data calls of all runs by their value. In this way scheduled runs overlap
// ([Engine.Serve]). While a run waits for a scan, the worker performs the others; scan.go explains why a
// scan is never started twice.
//
// A turn of the worker never waits. A call that the rate limit delays, or that is to be retried after a
// pause, returns a [waitError], and the worker's owner sleeps until the first of them may leave. So a
// run that a person asks for waits at most for the call in progress: its pages and then its data calls
// come before everything else ([Engine.Order]). Without a schedule, a manual run has a worker of its
// own ([Engine.Perform]), for which it is urgent in the same way.
//
// An error means the same wherever it arrives ([judge]). One in a search affects only that search, one in a run's
// pages ends that run, and one that every call would meet pauses the queue, longer each time, and ends nothing. An
// attempt that is made again leaves that and its time in the row of its search or its queued call, and the calls
// behind it leave meanwhile.
//
// # Due times
//
// A due time is a row from when it comes until its run is recorded ([runs.Due]). It has
// one run, which is recorded whatever its outcome. When a job is due,
//
//   - a run of the job that has all its pages ends, and its calls stay queued;
//   - a run that is still buying pages continues until it has all of them;
//   - an unfinished run that is not in progress is resumed, once per due time, if it is younger than the
//     job's period (a day at most) or has paid for a scan;
//   - then the due time's own run starts. It supersedes the runs that are still unfinished, as its
//     window covers theirs. So a job that is stuck has one unfinished run, and a record for each
//     due time. Only a run that has paid for a scan stays unfinished beside it.
//
// The follow-ups of a run are recorded when its searches end. A run with overrides does
// not take part in this, and only a person resumes it, unless it has paid for a scan.
//
// # What prevents or delays calls
//
// The limiter enforces the rate limit, and the ledger enforces the caps. This package avoids calls that
// need not be made. An identical request that was answered recently is reused from the journal. A
// refusal for lack of credits, or of the key, is recorded as a block (blocks.go). If only the local
// clock says that a new day or cycle has begun, the service is asked first, or else a person (clock.go).
// With `budget.pace: even`, a run gets a share of what is left of the cycle, and its searches take
// turns in using it ([facts.Reader.Limit]).
package engine
