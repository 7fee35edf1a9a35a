package ledger

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
// one, so that a job with little comes seldom instead of never. For the same reason the
// last run takes a step whatever its part is: a job that is due once in a cycle would
// else get nothing in any of them.
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
	// What falls to so many of the runs, to the nearest step; of two that are as near, to
	// the lesser. Because sums are rounded and not parts, what is too little for a step
	// adds up until it is one.
	step := max(mine.Step, 1)
	due := func(runs int) outlier.Credits {
		return (2*left*outlier.Credits(runs)*mine.Each + wanted*step - 1) / (2 * wanted * step) * step
	}
	share := due(mine.Runs) - due(mine.Runs-1)
	if mine.Runs == 1 {
		share = max(share, step)
	}
	return min(share, mine.Each, left) / step * step
}
