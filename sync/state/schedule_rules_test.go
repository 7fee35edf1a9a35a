package state_test

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"time"

	"outlierd/outlier"
	"outlierd/sync/ledger"
)

// # Invariants after every turn
//
// In each period the service has charged no more than the ledger holds, even after kills, changes of the
// calendar and renames of jobs. Periods are those of the calendar in force, and earlier spending belongs to
// them by its time. No purchase exceeds a cap. A cap may be lowered below what is held, and an adjustment is
// subject to no cap. No more than one scan is started for a step. The hold of a scan whose start is not
// confirmed is kept, whatever becomes of its run. Nothing is booked for a day that has not started at the
// service, whatever the local clock says.

// broken is a rule that does not hold.
type broken struct{ rule, detail string }

func (b *broken) Error() string { return b.rule + ": " + b.detail }

// The rules.
const (
	ruleCharged = "the service charged more than is held"
	ruleCapped  = "a purchase exceeded a cap"
	ruleScans   = "one scan was started more than once"
	ruleSame    = "the same scan was bought twice at a time"
	ruleHolds   = "the hold of a scan was released while its start was not confirmed"
	ruleClock   = "the time is wrong"
	ruleLedger  = "the ledger contradicts itself"
	ruleNews    = "a follower of the operations tables has other rows than the state"
)

// hoped is what must have happened in some schedule, so that the rules were tested.
var hoped = []string{
	"a day turned", "a cycle turned", "the ledger was adjusted", "prices changed", "the key changed", "the time was asked for", "the service sent no time",
	"killed idle", "killed about to reserve", "killed reserved", "killed marked as sent", "killed at the service", "killed answered",
	"killed settled", "killed intended", "killed looked",
	"refused by run", "refused by job_month", "refused by day", "refused by month",
	"service: served", "service: served from the cache", "service: refused", "service: failed", "service: lost",
	"service: unreachable", "service: drop request", "service: unauthorized", "service: rate limited", "service: no credits", "service: server error",
	"service: gateway page", "service: html page", "service: garbage", "service: drop answer", "service: cut body", "service: stall", "service: slow",
	"settled as charged", "settled as refunded", "settled as unknown",
	"a run was superseded while its scan was not confirmed",
	"two calls on their way", "a page was paid from a hold", "a scan stood in the way of another",
	"the calendar changed", "the calendar was changed back", "a job got another name", "a restart changed prices", "the day was spent in a roomy month",
	"a scan was adopted", "a scan was never created", "a scan was told of while it was started", "a scan was read",
}

// caps are what the configuration allows in each scope; a scope that is missing has no cap.
type caps map[ledger.Scope]outlier.Credits

// roomy is a cap of the billing cycle that no schedule meets.
const roomy = 10_000

// recap draws caps, tight enough to be met.
func (s *schedule) recap() {
	s.caps = caps{}
	if s.dice.IntN(5) == 0 {
		s.caps[ledger.ScopeDay], s.caps[ledger.ScopeMonth] = one[outlier.Credits](s.dice, 8, 70, 130), roomy
		return
	}
	draw := func(scope ledger.Scope, most ...outlier.Credits) {
		if s.dice.IntN(3) > 0 {
			s.caps[scope] = one(s.dice, most...)
		}
	}
	draw(ledger.ScopeRun, 6, 60, 90, 120)
	draw(ledger.ScopeJobMonth, 10, 100, 200, 300)
	draw(ledger.ScopeDay, 8, 70, 130, 200)
	draw(ledger.ScopeMonth, 20, 150, 250, 400)
}

// of are the caps on a call that is booked at a time.
func (c caps) of(periods []ledger.Period) (all []ledger.Cap) {
	for _, p := range periods {
		if most, ok := c[p.Scope]; ok {
			all = append(all, ledger.Cap{Scope: p.Scope, Period: p.Key, Max: most})
		}
	}
	return all
}

// periodsOf are the periods that a call counts for, under the name that its job has.
func (s *schedule) periodsOf(c *call) []ledger.Period {
	return s.periodsAt(c.run, c.job, c.at)
}

func (s *schedule) periodsAt(run, job string, at time.Time) []ledger.Period {
	return ledger.Periods(run, job, ledger.Day(at, s.options.Location), ledger.Cycle(at, s.options.Location, s.options.Renews))
}

// begun is a scan that the service accepted, for an intent of a step.
type begun struct {
	step, intent int64
	id           string
	what         string    // it looks for
	at           time.Time // by the local clock, which deadlines go by
	ended        bool      // at the service
	besides      string    // the scan of the same that ran when it was begun; "" if none did
}

// spending is what the service charged for calls of a job, or what was adjusted.
type spending struct {
	run, account string // the name with which the job began; both "" if it was adjusted
	at           time.Time
	credits      outlier.Credits
}

// books are what is known without the ledger.
type books struct {
	read    int // lines of the service's books
	spent   []spending
	charged map[ledger.Period]outlier.Credits // what was spent, by the calendar in force
	begun   []begun                           // scans at the service
	held    map[ledger.Period]outlier.Credits // by the ledger, when it was looked at last
	newest  time.Time                         // reservation
}

// spend records what was spent.
func (s *schedule) spend(one spending) {
	s.spent = append(s.spent, one)
	s.count(one)
}

func (s *schedule) count(one spending) {
	for _, period := range s.periodsAt(one.run, one.account, one.at) {
		if one.account != "" || period.Scope == ledger.ScopeMonth {
			s.charged[period] += one.credits
		}
	}
}

// recount adds up what was spent, in the periods of another calendar.
func (s *schedule) recount() {
	s.charged = map[ledger.Period]outlier.Credits{}
	for _, one := range s.spent {
		s.count(one)
	}
}

// check holds the ledger against the rules.
func (p *process) check() error {
	held, err := p.ledger()
	if err != nil {
		return err
	}
	wrong := p.checkPeriods(held)
	p.held = held
	if wrong == nil {
		wrong = p.checkScans()
	}
	if wrong == nil {
		wrong = p.checkHolds()
	}
	if wrong == nil {
		wrong = p.checkClock()
	}
	return wrong
}

// ledger is what the ledger holds in each period that has a cap, and in those in which anything was spent.
func (p *process) ledger() (map[ledger.Period]outlier.Credits, error) {
	periods, err := p.store.CappedPeriods(p.options.Location, p.options.Renews)
	if err != nil {
		return nil, err
	}
	held := map[ledger.Period]outlier.Credits{}
	for _, period := range slices.AppendSeq(periods, maps.Keys(p.charged)) {
		if held[period], err = p.store.Ledger.Held(p.capOn(period)); err != nil {
			return nil, err
		}
	}
	return held, nil
}

// capOn is the cap on a period, whose job is called by the name that it has.
func (s *schedule) capOn(period ledger.Period) ledger.Cap {
	if period.Scope == ledger.ScopeJobMonth {
		account, cycle := ledger.CutJobCycle(period.Key)
		period.Key = ledger.JobCycle(s.names[account], cycle)
	}
	return ledger.Cap{Scope: period.Scope, Period: period.Key}
}

// boughtLater is what was bought on top after the end of a period. Where the present one
// reaches up to what is dated in the future, its cap is raised by that as well.
func (p *process) boughtLater(period ledger.Period) (bought outlier.Credits) {
	if period.Scope != ledger.ScopeMonth {
		return 0
	}
	_, end, err := period.Bounds(p.options.Location, p.options.Renews)
	if err != nil {
		p.wrong = err
	}
	for _, one := range p.spent {
		if one.account == "" && one.credits < 0 && !one.at.Before(end) {
			bought -= one.credits
		}
	}
	return bought
}

// checkPeriods: what is dated in the future counts as now, so that a clock which is behind
// lets the present period hold more than it did.
func (p *process) checkPeriods(held map[ledger.Period]outlier.Credits) error {
	for _, period := range inOrder(p.charged) {
		if charged := p.charged[period]; charged > held[period]+p.boughtLater(period) {
			return &broken{ruleCharged, fmt.Sprintf("%d credits for %s %s, of which %d are held", charged, period.Scope, period.Key, held[period])}
		}
	}
	for _, period := range inOrder(held) {
		now := held[period]
		if most, capped := p.caps[period.Scope]; capped && !p.store.Clock.Now().Before(p.newest) && now > max(most, p.held[period]) {
			return &broken{ruleCapped, fmt.Sprintf("%s %s holds %d of %d credits, and held %d before", period.Scope, period.Key, now, most, p.held[period])}
		}
	}
	return nil
}

// inOrder are the periods of m, so that the same schedule always breaks the same rule.
func inOrder(m map[ledger.Period]outlier.Credits) []ledger.Period {
	return slices.SortedFunc(maps.Keys(m), func(a, b ledger.Period) int {
		return cmp.Or(cmp.Compare(a.Scope, b.Scope), cmp.Compare(a.Key, b.Key))
	})
}

// begin records that the service has started a scan. An equal scan that runs and is not too old should
// have been joined.
func (p *process) begin(b begun) {
	b.at = time.Now()
	for _, other := range p.begun {
		if other.what == b.what && !other.ended && b.at.Sub(other.at) < 24*time.Hour {
			b.besides = other.id
		}
	}
	p.begun = append(p.begun, b)
}

func (s *schedule) checkScans() error {
	for i, b := range s.begun {
		for _, other := range s.begun[:i] {
			if b.step == other.step || b.intent == other.intent {
				return &broken{ruleScans, fmt.Sprintf("step %d began %s for intent %d and %s for intent %d", b.step, other.id, other.intent, b.id, b.intent)}
			}
			if b.besides == other.id {
				return &broken{ruleSame, fmt.Sprintf("%s was begun while %s ran, for %s", b.id, other.id, b.what)}
			}
		}
	}
	return nil
}

// checkHolds: a scan that is found can be read.
func (p *process) checkHolds() error {
	n, err := p.store.GivenAway()
	if err == nil && n > 0 {
		err = &broken{ruleHolds, fmt.Sprintf("%d times", n)}
	}
	return err
}

// heed counts the answers from which this process knows the time.
func (p *process) heed(answer *outlier.Answer) {
	if answer != nil && !answer.ServiceTime().IsZero() {
		p.told++
	}
}

// checkClock: once two answers have told the time, it is not taken to be later than it is;
// one that is far from what was believed may be wrong.
func (p *process) checkClock() error {
	if told := p.store.Clock.Now(); p.told > 1 && told.After(p.now()) {
		return &broken{ruleClock, fmt.Sprintf("it is taken for %v, and the service has %v", told, p.now())}
	}
	return nil
}

// checkDay: nothing is booked for a day that has not come, whose budget is fresh. A
// service that does not tell the time leaves us with the local clock.
func (p *process) checkDay(c *call) error {
	booked, today := ledger.Day(c.at, p.options.Location), ledger.Day(p.now(), p.options.Location)
	if booked > today && !p.silent {
		return &broken{ruleClock, fmt.Sprintf("a call was booked for %s on %s", booked, today)}
	}
	return nil
}

// checkRefund: nothing is refunded that the service has charged.
func checkRefund(c *call, o outlier.Outcome) error {
	if o == outlier.Refunded && c.charged > 0 {
		return &broken{ruleCharged, fmt.Sprintf("%d credits for a call that is refunded", c.charged)}
	}
	return nil
}

// audit adds the ledger up row by row, which leaves no room for what is only set aside
// to cover what was charged.
func (p *process) audit() error {
	for _, period := range inOrder(p.held) {
		held := p.held[period]
		b, err := p.store.Ledger.Balance(p.capOn(period))
		switch charged := p.charged[period]; {
		case err != nil:
			return err
		case b.Held() != held:
			return &broken{ruleLedger, fmt.Sprintf("%s %s holds %d credits, and its rows add up to %d", period.Scope, period.Key, held, b.Held())}
		case charged > held-b.Scans+p.boughtLater(period):
			return &broken{ruleCharged, fmt.Sprintf("%d credits for %s %s, of which %d are held for calls", charged, period.Scope, period.Key, held-b.Scans)}
		}
	}
	return nil
}
