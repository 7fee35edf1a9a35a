// Package journal stores the answers of the service unchanged, and what was learned from them:
// where they differ from the interface, what `from` counts, and the rate limit. It owns the tables
// responses, drift, paging and limits.
package journal
