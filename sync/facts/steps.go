package facts

import (
	"outlierd/outlier"
	"outlierd/sync/job"
	"outlierd/sync/journal"
	"outlierd/sync/runs"
)

// ScanOf returns the scan that a step asks for, from its parameters.
func ScanOf(step *runs.Step, again bool) runs.Scan {
	params := step.Query.Params()
	return runs.Scan{
		Run: step.Run, Again: again,
		FindBy: params.Get("findBy"), Mode: params.Get("mode"), Queries: params["query"],
	}
}

// Beyond returns how many pages follow those that a step has taken, according to the service; -1 if
// it does not say.
func Beyond(step *runs.Step) int {
	if step.Total < 0 {
		return -1
	}
	size := outlier.MaxSize // or less, if the service has smaller pages
	pages := step.Pages
	if step.Stop == runs.StopMissing {
		pages-- // the last one is empty
	}
	if pages > 0 && step.Hits > 0 {
		size = min(size, (step.Hits+pages-1)/pages)
	}
	if step.Reading == job.PagingOffset {
		return max(0, (int(step.Total)-step.Seen-step.Unread+size-1)/size)
	}
	return max(0, (int(step.Total)+size-1)/size-step.Next)
}

// paidScan reports whether a step is for a scan that was paid for, or may have been, and whose
// results are not read completely.
func paidScan(scans *runs.Scans, step *runs.Step) (bool, error) {
	if step.Stop != "" || step.Query.Op() != outlier.OpStartScan {
		return step.Stop == "" && step.Scan != "", nil
	}
	scan, err := scans.OfStep(step.ID)
	return err == nil && !scan.Unstarted(), err
}

// Holder returns the step whose hold pays for a page of a scan's results: the step that started or
// joined the scan. It is 0 if there is none, as for any other search.
func Holder(scans *runs.Scans, steps []runs.Step, reading *runs.Step) (int64, error) {
	for i := range steps {
		step := &steps[i]
		if reading.Scan == "" || step.Query.Op() != outlier.OpStartScan || step.Item != reading.Item {
			continue
		}
		scan, err := scans.OfStep(step.ID)
		if err != nil || scan != nil && scan.ScanID == reading.Scan {
			return step.ID, err
		}
	}
	return 0, nil
}

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
