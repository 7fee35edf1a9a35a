package ledger

import "outlierd/outlier"

// Demand is what the runs of one job need in the rest of a billing cycle.
type Demand struct {
	Runs int             `json:"runs"` // still to come, including the next one
	Each outlier.Credits `json:"each"` // the cost of one run that gets everything it asks for
	Step outlier.Credits `json:"-"`    // the least that is useful: a page, or a scan and a page of its results
}

// Share returns what the next run of a job may spend of the credits left in the cycle, of which all jobs together
// want the given number, so that all jobs are treated fairly: everything that it asks for if there is enough for all
// jobs, otherwise the job's part in proportion to its demand, spread over its runs.
//
// What one run does not spend is available to later runs, because each calls Share again. A part
// that is too small for a step in every run is saved until it is enough for one, so that a job
// with a small part runs rarely instead of never. For the same reason the last run takes a step
// whatever its part is: a job that is due once in a cycle would otherwise never get anything.
func Share(left, wanted outlier.Credits, mine Demand) outlier.Credits {
	if mine.Runs < 1 || mine.Each < 1 {
		return 0
	}
	left = max(left, 0)
	if wanted <= left {
		return mine.Each
	}
	// The part of the given number of runs, rounded to the nearest step, and down if two are
	// equally near. Because sums are rounded and not parts, parts too small for a step add up to
	// one.
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
