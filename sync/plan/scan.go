package plan

import (
	"fmt"
	"net/url"
	"slices"
	"time"

	"outlierd/outlier"
	"outlierd/sync/job"
)

// Read is the search that reads a scan's results, which lacks only the scan's id.
type Read struct {
	Params  string   `json:"params"`
	Queries []string `json:"queries,omitempty"`
}

// Check says what is wrong with the search, before its scan is bought.
func (r Read) Check() error {
	params, err := url.ParseQuery(r.Params)
	if err != nil {
		return err
	}
	if _, err := outlier.NewRequest(outlier.OpSearch, params, nil); err != nil {
		return fmt.Errorf("the scan is not started, since its results could not be read: %w", err)
	}
	return nil
}

// joins are the open steps that wait for a scan instead of starting one, by ordinal, with
// the id of that scan; "" if a step before them has still to start it.
func joins(steps []Step, live map[int]string) map[int]string {
	joined, begun := map[int]string{}, map[string]bool{}
	for i := range steps {
		step := &steps[i]
		if step.Op != outlier.OpStartScan || step.Stop != "" {
			continue
		}
		params, _ := url.ParseQuery(step.Params) // it was encoded by us
		same := fmt.Sprintf("%q %q %q", params.Get("findBy"), params.Get("mode"), slices.Sorted(slices.Values(params["query"])))
		if begun[same] {
			joined[step.Ordinal] = ""
		}
		begun[same] = true
		if scan := live[step.Ordinal]; scan != "" {
			joined[step.Ordinal] = scan
		}
	}
	return joined
}

// PollPause is how long to wait before a scan is polled again: twice as long each time,
// within the bounds of the job.
func PollPause(scan *job.Scan, polls int) time.Duration {
	pause := scan.PollMin
	for range min(polls, 20) {
		pause = min(2*pause, scan.PollMax)
	}
	return pause
}

// polls is how often a scan is polled until its deadline.
func polls(scan *job.Scan) (n int) {
	for t := time.Duration(0); t < scan.Deadline; n++ {
		t += PollPause(scan, n)
	}
	return n
}
