package credit

import "outlierd/outlier"

// Demand is what the runs of one job want of the rest of a billing cycle.
type Demand struct {
	Runs int             // that are still to come, the next one included
	Each outlier.Credits // what one of them costs if it gets all that it asks for
	Step outlier.Credits // the least that is of any use to it: a page, or a scan and a page of its results
}

// Share is what the next run of the job whose demand is all[i] may spend of what is
// left, if the rest of the cycle is to be fair: all of it if there is enough for
// everybody, else the job's part in proportion to what it wants, spread over its runs.
//
// What one run leaves is there for those that come after it, because each asks anew.
// A part that is too small for a step in every run is saved until it is enough for
// one, so that a job with little comes seldom instead of never.
func Share(left outlier.Credits, all []Demand, i int) outlier.Credits {
	mine := all[i]
	if mine.Runs < 1 || mine.Each < 1 {
		return 0
	}
	var wanted outlier.Credits
	for _, d := range all {
		wanted += outlier.Credits(d.Runs) * d.Each
	}
	left = max(left, 0)
	if wanted <= left {
		return mine.Each
	}
	part := left * outlier.Credits(mine.Runs) * mine.Each / wanted
	step, runs := max(mine.Step, 1), outlier.Credits(mine.Runs)
	// What the later runs need, to the nearest step; halves go to this one.
	kept := (2*part*(runs-1) + runs*step - 1) / (2 * runs * step) * step
	share := min(max(part-kept, 0), mine.Each)
	return share / step * step
}
