package forecast

import (
	"fmt"

	"outlierd/outlier"
	"outlierd/sync/plan"
	"outlierd/sync/runs"
)

// addUnsettled adds to the forecast of an unfinished run, whose rest is p, which of its scans wait for a person
// because their start was not confirmed. The run still performs its other searches. A scan whose start was not
// sent does not count: the run sends it.
func (c *calculation) addUnsettled(f *Job, p *plan.Plan) error {
	if f.Continues == "" {
		return nil
	}
	var waits []string
	for i := range p.Steps {
		if p.Steps[i].Query.Op() != outlier.OpStartScan {
			continue
		}
		scan, err := c.Store.Scans.OfStep(p.Steps[i].ID)
		if err != nil {
			return err
		}
		if scan != nil && scan.State == runs.ScanUnknown {
			waits = append(waits,
				fmt.Sprintf("a scan of %q may have been started: %s", scan.Queries, scan.HowToSettle()))
		}
	}
	if len(waits) > 0 && len(waits) == len(p.Steps) {
		f.Problem = waits[0]
		return nil
	}
	f.Changes = append(f.Changes, waits...)
	return nil
}
