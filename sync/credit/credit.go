// Package credit forwards to package ledger, which has its arithmetic.
package credit

import "outlierd/sync/ledger"

type (
	Scope    = ledger.Scope
	Cap      = ledger.Cap
	Period   = ledger.Period
	Exceeded = ledger.Exceeded
	Demand   = ledger.Demand
)

const (
	Run      = ledger.ScopeRun
	JobMonth = ledger.ScopeJobMonth
	AllDay   = ledger.ScopeDay
	AllMonth = ledger.ScopeMonth
)

var (
	Periods     = ledger.Periods
	JobCycle    = ledger.JobCycle
	CutJobCycle = ledger.CutJobCycle
	Day         = ledger.Day
	Cycle       = ledger.Cycle
	CycleBounds = ledger.CycleBounds
	Share       = ledger.Share
)
