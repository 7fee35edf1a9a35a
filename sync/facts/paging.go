package facts

import (
	"outlierd/outlier"
	"outlierd/sync/job"
	"outlierd/sync/journal"
)

// Paging is what is believed of an endpoint: what the configuration says, or else what was
// learned.
func (r *Reader) Paging(op outlier.Operation) (journal.Paging, error) {
	if said := ConfiguredPaging(r.Config); said != "" {
		return journal.Paging{Op: op, Reading: said, Evidence: "service.paging says so"}, nil
	}
	return r.Store.Journal.Paging(op)
}

// ConfiguredPaging is what the configuration says that `from` counts; "" if that is learned.
func ConfiguredPaging(config *job.Config) string {
	if said := config.Service.Paging; said == job.PagingPage || said == job.PagingOffset {
		return said
	}
	return ""
}
