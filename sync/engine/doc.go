// Package engine runs jobs: it plans them, buys their pages, enriches their hits,
// loads what was bought into the sinks and keeps the schedule.
//
// # The path of one answer
//
// A run begins by resolving its job into stored steps; from then on it reads the
// steps and never the file, so a run that was killed goes on as it was meant.
// [Engine.Run] takes the pages of each step, one call at a time. Every call is one
// [outlier.Client.Do] bound to the step: the store commits the answer, its
// outcome, the step's cursor and the hits of the page in one transaction. A kill
// at any instant therefore leaves either the page and the cursor behind it, or
// neither.
//
// When the last page is in, one idempotent transaction ranks the hits and queues
// what the job wants to know about them. The queue belongs to all jobs: an entity
// that is fresh, or known to be missing, is not asked for again.
//
// # The journal leads, the sinks follow
//
// Nothing is written to a sink that is not durable in the journal first. The
// [loader] reads the journal from each sink's own watermark, so a sink that was
// locked, full or new catches up without a purchase. What readers see changes
// only when a sink publishes.
package engine
