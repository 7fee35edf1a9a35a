// Package journal keeps the answers of the service, as they came, and what they have shown
// of it: where they differ from the interface, what `from` counts, and how fast it may be
// called. It owns the tables responses, drift, paging and limits.
package journal
