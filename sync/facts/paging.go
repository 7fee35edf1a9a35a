package facts

import (
	"outlierd/outlier"
	"outlierd/sync/job"
	"outlierd/sync/journal"
)

// Paging returns what `from` counts at an endpoint: the configured value, or else the learned one.
func Paging(config *job.Config, learned *journal.Learned, op outlier.Operation) (journal.Paging, error) {
	if said := ConfiguredPaging(config); said != "" {
		return journal.Paging{Op: op, Reading: said}, nil
	}
	return learned.Paging(op)
}

// ConfiguredPaging returns the configured value of what `from` counts; "" if it is learned.
func ConfiguredPaging(config *job.Config) string {
	if said := config.Service.Paging; said == job.PagingPage || said == job.PagingOffset {
		return said
	}
	return ""
}
