package engine

import (
	"fmt"

	"outlierd/outlier"
	"outlierd/sync/runs"
)

// unsettled says of a run that goes on what it waits for if that is a person's word on
// its scan. One that is about other searches, too, performs these. A scan that is merely
// intended is none of this: a run begins it anew, or is about to send it right now.
func (e *Engine) unsettled(f *JobForecast) error {
	if f.Continues == "" {
		return nil
	}
	steps, err := e.Store.Runs.Steps(f.Continues)
	if err != nil {
		return err
	}
	open, waits := 0, []string{}
	for i := range steps {
		if steps[i].Stop != "" {
			continue
		}
		open++
		if steps[i].Op != outlier.OpStartScan {
			continue
		}
		scan, err := e.Store.Runs.ScanOf(steps[i].ID)
		if err != nil {
			return err
		}
		if scan != nil && scan.State == runs.ScanUnknown {
			waits = append(waits, fmt.Sprintf("a scan of %q may have been started: %s", scan.Queries, settling(scan)))
		}
	}
	if open > 0 && len(waits) == open {
		f.Problem = waits[0]
		return nil
	}
	f.Changes = append(f.Changes, waits...)
	return nil
}
