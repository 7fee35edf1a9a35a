package simulator

import (
	"slices"
	"time"

	"outlierd/outlier/simulator/library"
)

// Phase is one status of a scan and how long it lasts. The last phase of a scan lasts for
// ever.
type Phase struct {
	Status string
	Lasts  time.Duration
}

// unfinished are the statuses of a scan that goes on. The interface shows Running alone (States
// and transitions). A scan has ended when its last phase has any other status.
var unfinished = []string{"Queued", "Running", "Suspended", "ContinuedAsNew"}

// completed is the only final status with results.
const completed = "Completed"

// drawPhases are random: a scan is queued for up to three minutes, and 3 % do not complete.
func (n *scan) drawPhases(seed uint64) []Phase {
	d, m := library.Random(seed, library.ForScan, n.started, bitIf(n.standard), n.topics, n.salt), n.mode()
	lasts := m.shortest + time.Duration(d.Float64()*float64(m.longest-m.shortest))
	queued := time.Duration(10+d.IntN(170)) * time.Second
	return []Phase{{"Queued", queued}, {"Running", lasts - queued}, {Status: lastStatus(d.Float64())}}
}

func lastStatus(luck float64) string {
	switch {
	case luck < 0.01:
		return "Terminated"
	case luck < 0.03:
		return "Failed"
	}
	return completed
}

// state is the phase of a scan at some time.
type state struct {
	status string
	since  time.Duration // of the scan's start
	ended  bool
}

// stateAt is the state after some time. A scan without phases has completed at once.
func stateAt(course []Phase, after time.Duration) state {
	var since time.Duration
	for i, p := range course {
		if last := i == len(course)-1; last || after < since+p.Lasts {
			return state{p.Status, since, last && !slices.Contains(unfinished, p.Status)}
		}
		since += p.Lasts
	}
	return state{completed, since, true}
}
