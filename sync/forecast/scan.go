package forecast

import (
	"fmt"

	"outlierd/outlier"
	"outlierd/sync/runs"
)

// addUnsettled adds to the forecast of an unfinished run which of its scans wait for a person because
// their start was not confirmed. The run still performs its other searches. A scan whose start was not
// sent does not count: the run sends it.
func (r *Reader) addUnsettled(f *Job) error {
	if f.Continues == "" {
		return nil
	}
	steps, err := r.Facts.Store.Runs.Steps(f.Continues)
	if err != nil {
		return err
	}
	open, waits := 0, []string{}
	for i := range steps {
		if steps[i].Stop != "" {
			continue
		}
		open++
		if steps[i].Query.Op() != outlier.OpStartScan {
			continue
		}
		scan, err := r.Facts.Store.Runs.ScanOf(steps[i].ID)
		if err != nil {
			return err
		}
		if scan != nil && scan.State == runs.ScanUnknown {
			waits = append(waits,
				fmt.Sprintf("a scan of %q may have been started: %s", scan.Queries, scan.HowToSettle()))
		}
	}
	if open > 0 && len(waits) == open {
		f.Problem = waits[0]
		return nil
	}
	f.Changes = append(f.Changes, waits...)
	return nil
}
