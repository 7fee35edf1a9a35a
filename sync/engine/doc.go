// Package engine runs jobs: it begins runs by their plans, buys their pages, starts and reads
// their scans, asks about their hits, and keeps the schedule. What plans need to know is read by
// package facts, what was bought is loaded into the sinks by package load, and what would happen
// is for package forecast.
//
// # Reading order
//
// In this order most calls between files go from top to bottom:
//
//   - engine.go: the engine and the progress of a run.
//   - scheduler.go: the schedule, which adds runs to a worker when they are due; after.go has
//     the jobs that come after others, order.go what others ask of it meanwhile.
//   - worker.go: what is done next, of all runs under way; begin.go begins and resumes runs,
//     buyrest.go buys what an earlier run left.
//   - run.go: one run, from taking it up to its record; ending.go says how its searches ended.
//   - search.go: pages of searches; scan.go: scans; adopt.go: scans that a person settles;
//     paging.go: what `from` counts; stops.go: why a search ends.
//   - enrich.go: data calls about hits and ids.
//   - fetch.go: attempts at a call; blocks.go and clock.go hold calls back.
//
// References back up are mostly to the types [run] and [worker]: their methods stand in the file
// of what they do. The rest end something: a search ends its run, a call that fails pauses the
// worker.
//
// # The path of one answer
//
// A run begins by resolving its job into steps and a plan, which are stored; from then on it
// reads these and never the file, so a run that was killed goes on as it began. Only
// its caps are those of today's file. Every call is one [outlier.Client.Do] bound to its
// step: the store commits the answer, its outcome, the step's cursor and the hits of the
// page in one transaction. A kill at any instant therefore leaves either the page and the
// cursor behind it, or neither.
//
// A search that comes to its own end moves the watermark of what it searched for in the
// same transaction, and the next run begins its window there. One that a cap or an error
// ended leaves the watermark where it was.
//
// When the last page is in, one idempotent transaction ranks the hits and queues
// what the job wants to know about them. The queue belongs to all jobs: an entity
// that is fresh, or known to be missing, is not asked for again.
//
// # The worker
//
// Calls are made one at a time by a [worker], which works on all runs that are under way:
// pages come first, then scans that it is time to poll, then the data calls of all
// runs by what they are worth. Runs on a schedule overlap in this way ([Engine.Serve]).
// While a run waits for a scan, the worker works on the others; scan.go says why a scan is
// never started twice.
//
// A turn of the worker never waits. A call that the pace does not let leave yet, or that failed
// and is to be repeated, is put off ([waitError]), and the worker's owner sleeps until the first
// of them may leave. So a run that a person asks for need not wait for more than the call under
// way: its pages and then its data calls come before everything else ([Engine.Order]). Where no
// schedule is kept, a run by hand has a worker to itself ([Engine.Run]).
//
// Trouble of one search concerns that search alone, trouble of one run's pages ends that run,
// and what every call would meet pauses the queue, longer each time, and ends nothing.
//
// # A due instant
//
// A due instant has one run, which keeps it for ever and is on record whatever becomes of
// it: that is how it is known that the instant is over. When it comes,
//
//   - a run of the job that has its pages ends, and its calls stay queued;
//   - one that still takes pages goes on to the end of these;
//   - an unfinished run that is not under way goes on, once for each instant, if it is
//     younger than a period of the job (a day at most) or has paid for a scan;
//   - then the instant's own run begins. It supersedes what is still unfinished, as
//     its window covers that too: so a job that is stuck has one unfinished run and a record
//     for each instant. Only a run that has paid for a scan stays unfinished beside it.
//
// What comes after a parent's run is noted as owed with the end of its searches (after.go).
// A run that a person has overridden leaves all this alone, and only a person goes on
// with it.
//
// # What keeps a call back
//
// The pace is the limiter's and the caps are the ledger's; here is what saves both. An
// identical request that was answered lately is taken from the journal. A refusal for
// lack of credits, or of the key, is remembered as a block (blocks.go). Where this machine's
// clock alone says that a new day or cycle has begun, the service is asked first, or else a
// person (clock.go). With `budget.pace: even` a run gets a share of what is left of the
// cycle, which its searches take in turns ([facts.Reader.Limit]).
package engine
