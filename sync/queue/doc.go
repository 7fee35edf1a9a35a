// Package queue keeps the calls that are wanted: in which order they are made, which
// answers are young enough to spare one, which calls have failed and when they are tried
// again. It owns the tables queue, queue_others, queue_counts and freshness.
package queue
