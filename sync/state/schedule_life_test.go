package state_test

import (
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"outlierd/outlier"
	"outlierd/sync/ledger"
	"outlierd/sync/state"
)

// process is one life of the program.
type process struct {
	*schedule
	t     *testing.T
	store *state.Store
	jobs  []*job
	lead  time.Duration // of the service's clock over the local one
	told  int           // answers that have told the service's time
	dead  bool
}

// live is the next life, in a bubble of its own.
func (s *schedule) live(t *testing.T) {
	p, err := s.boot(t)
	if err != nil {
		s.wrong = fmt.Errorf("open the state again: %w", err)
		return
	}
	for s.turns > 0 && s.wrong == nil && !p.dead {
		s.turns--
		p.turn()
		if !p.dead && s.wrong == nil {
			s.wrong = p.check()
		}
		if !p.dead && s.wrong == nil {
			s.wrong = p.checkNews()
		}
	}
	if !p.dead && s.wrong == nil {
		s.wrong = p.audit()
	}
	s.wrong = errors.Join(s.wrong, p.close())
}

// boot starts a process at a time that its local clock may be wrong about.
func (s *schedule) boot(t *testing.T) (*process, error) {
	if s.lives++; s.lives > 1 {
		s.clock = s.clock.Add(one(s.dice, time.Second, time.Second, 12*time.Minute, 9*time.Hour))
	}
	late := one(s.dice, 0, 0, 0, 2*time.Minute, 20*time.Hour, 40*24*time.Hour)
	if s.dice.IntN(2) == 0 {
		late = -late
	}
	if s.newest.IsZero() {
		late = 0 // who has bought nothing yet has only the local clock to go by
	}
	time.Sleep(time.Until(s.clock.Add(-late)))
	p := &process{schedule: s, t: t, lead: late}
	p.note("", "a process starts, whose local clock is late by %v", late)
	p.edit()
	store, err := state.Open(t.Context(), s.dir, s.options)
	if err != nil {
		return nil, err
	}
	p.store = store
	for _, account := range slices.Sorted(maps.Keys(s.names)) {
		if err := p.rename(account); err != nil {
			return nil, errors.Join(err, p.close())
		}
		p.jobs = append(p.jobs, hire(p, account))
	}
	if s.held, err = p.ledger(); err != nil {
		return nil, errors.Join(err, p.close())
	}
	return p, nil
}

// renewals are the days on which billing cycles may begin.
var renewals = []int{1, 14, 15, 31}

// edit changes the job file while no process runs: days and cycles begin at other times, or everything
// has another price.
func (p *process) edit() {
	if p.lives > 1 && p.dice.IntN(8) == 0 {
		p.surcharge = one[outlier.Credits](p.dice, 0, 1, 3)
		p.saw("a restart changed prices")
		p.note("", "all prices are raised by %d", p.surcharge)
	}
	if p.lives == 1 || p.dice.IntN(3) > 0 {
		return
	}
	old := p.options
	switch roll := p.dice.IntN(4); {
	case roll == 0 && len(p.before) > 0:
		p.options = p.before[len(p.before)-1]
		p.saw("the calendar was changed back")
	case roll < 2:
		p.options.Renews = one(p.dice, renewals...)
	default:
		p.options.Location = one(p.dice, p.zones...)
	}
	if p.options.Renews == old.Renews && p.options.Location == old.Location {
		return
	}
	p.before = append(p.before, old)
	p.recount()
	p.saw("the calendar changed")
	p.note("", "cycles begin on day %d, in %s", p.options.Renews, p.options.Location)
}

// rename gives a job another name now and then, or one that it had before.
func (p *process) rename(account string) error {
	if p.lives == 1 || p.dice.IntN(8) > 0 {
		return nil
	}
	was, name := p.names[account], account
	if was == account || p.dice.IntN(2) == 0 {
		name = fmt.Sprint(account, "-", p.lives)
	}
	p.names[account] = name
	p.saw("a job got another name")
	p.note("", "job %s is %s now", was, name)
	return p.store.Rename(was, name)
}

// now is the service's time.
func (p *process) now() time.Time { return time.Now().Add(p.lead) }

// close releases all that the process had. Its last writes do not count: after a kill the files were
// copied before.
func (p *process) close() error {
	p.clock, p.dead = p.now(), true
	for _, j := range p.jobs {
		j.stop()
	}
	return p.store.Close()
}

// happenings are the random events of a turn.
var happenings = []struct {
	weight int
	what   func(*process)
}{
	{800, (*process).proceed},
	{25, (*process).kill},
	{40, (*process).wait},
	{70, (*process).spoil},
	{30, (*process).operate},
	{25, (*process).endScans},
	{12, (*process).adjust},
	{20, (*process).change},
	{6, (*process).rekey},
}

func (p *process) turn() {
	total := 0
	for _, h := range happenings {
		total += h.weight
	}
	roll := p.dice.IntN(total)
	for _, h := range happenings {
		if roll -= h.weight; roll < 0 {
			h.what(p)
			return
		}
	}
}

// proceed lets one of the jobs go on to its next point.
func (p *process) proceed() { one(p.dice, p.jobs...).next() }

// kill ends the process. The kernel keeps what was written, so the files stay unchanged.
func (p *process) kill() {
	for _, j := range p.jobs {
		p.saw("killed " + j.at)
	}
	p.note("", "killed")
	next := filepath.Join(p.home, strconv.Itoa(p.lives))
	if err := copyState(p.dir, next); err != nil {
		p.wrong = err
	}
	p.dir, p.dead = next, true
}

// wait lets time pass while calls are in progress.
func (p *process) wait() {
	day, cycle := p.periods()
	d := one(p.dice, 10*time.Second, 61*time.Second, 61*time.Second, 11*time.Minute, 7*time.Hour, 25*time.Hour, 32*24*time.Hour)
	p.note("", "%v pass", d)
	time.Sleep(d)
	newDay, newCycle := p.periods()
	if newDay != day {
		p.saw("a day turned")
	}
	if newCycle != cycle {
		p.saw("a cycle turned")
	}
}

// periods are those of the moment, by the service's clock.
func (p *process) periods() (day, cycle string) {
	now := p.now()
	return ledger.Day(now, p.options.Location), ledger.Cycle(now, p.options.Location, p.options.Renews)
}

// adjust books credits that were spent or bought elsewhere. It is subject to no cap: the maximum of the cycle
// rises by them, even if the cycle of a new calendar has not been summed yet.
func (p *process) adjust() {
	n := one[outlier.Credits](p.dice, -10, -2, 1, 7)
	now := p.store.Clock.Now()
	p.spend(spending{at: now, credits: n})
	cycle := p.periodsAt("", "", now)[1]
	held, err := p.store.Ledger.Held(p.capOn(cycle))
	if err != nil {
		p.wrong = err
	}
	p.held[cycle] = held + n
	p.saw("the ledger was adjusted")
	p.note("", "the books are adjusted by %d", n)
	if err := p.store.Ledger.Adjust(n, "elsewhere"); err != nil {
		p.wrong = err
	}
}

// change sets other caps, or another price list.
func (p *process) change() {
	if p.dice.IntN(2) == 0 {
		p.recap()
		p.note("", "caps are now %v", p.caps)
		return
	}
	p.surcharge = one[outlier.Credits](p.dice, 0, 0, 1, 3)
	p.saw("prices changed")
	p.note("", "all prices are raised by %d", p.surcharge)
}

// one draws one of several.
func one[T any](dice *rand.Rand, of ...T) T { return of[dice.IntN(len(of))] }

// saw counts what happened.
func (s *schedule) saw(what string) { s.seen[what]++ }

// note adds to the trace what happens, and to whom.
func (p *process) note(who, format string, args ...any) {
	if !p.dead {
		p.trace = append(p.trace, fmt.Sprintf("%4d  %s  %-7s %s", p.turns, p.now().Format("01-02 15:04:05"), who, fmt.Sprintf(format, args...)))
	}
}

// story is the course of events so far.
func (s *schedule) story() string {
	return fmt.Sprintf("seed %d, with the turns that were left, the service's time, and what happened:\n%s", s.seed, strings.Join(s.trace, "\n"))
}
