package simulator

import (
	"math/rand/v2"
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

// drawPhases are random: one scan in two is queued first, one in four is suspended, one in four is
// continued as new, and 3 % do not complete.
func (n *scan) drawPhases(seed uint64) []Phase {
	d := library.Random(seed, library.ForScan, n.started, bitIf(n.standard), n.topics, n.salt)
	m := n.mode()
	left := m.shortest + time.Duration(d.Float64()*float64(m.longest-m.shortest))
	var phases []Phase
	add := func(status string, lasts time.Duration) {
		phases = append(phases, Phase{status, lasts})
		left -= lasts
	}
	if library.Chance(d, 0.5) {
		add("Queued", time.Duration(10+d.IntN(170))*time.Second)
	}
	if library.Chance(d, 0.25) {
		add("Running", randomPart(d, left))
		add("Suspended", randomPart(d, left)/4)
	}
	if library.Chance(d, 0.25) {
		add("Running", randomPart(d, left))
		add("ContinuedAsNew", time.Duration(1+d.IntN(20))*time.Second)
	}
	add("Running", left)
	return append(phases, Phase{Status: lastStatus(d.Float64())})
}

// randomPart is a random part of what is left, in whole seconds.
func randomPart(d *rand.Rand, left time.Duration) time.Duration {
	return time.Duration((0.1 + 0.6*d.Float64()) * float64(left)).Truncate(time.Second)
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
