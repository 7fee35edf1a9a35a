package state

import (
	"context"
	"iter"
	"time"

	"outlierd/outlier"
	"outlierd/sync/journal"
	"outlierd/sync/ledger"
	"outlierd/sync/ops"
	"outlierd/sync/queue"
	"outlierd/sync/runs"
	"outlierd/sync/store"
)

// What follows forwards to the packages that own it, for callers that still go by this one.

type Adjustment = ledger.Adjustment
type Balance = ledger.Balance

var Before = queue.Before

type Brought = runs.Sighting
type Call = ledger.Call
type Choice = runs.Choice
type CorruptError = store.CorruptError
type Count = queue.Count
type Debt = runs.Debt
type Drift = journal.Drift
type DuplicateRunError = runs.DuplicateRunError
type Entry = journal.Entry

const Failed = runs.Failed

type Filter = queue.Filter
type FullError = store.FullError
type HeldError = store.HeldError
type Hit = runs.Hit

const Interrupted = runs.Interrupted

type JournalPart = journal.Part
type Kept = ledger.Kept
type Latch = ledger.BlockKind

const LatchClock = ledger.BlockClock
const LatchCredits = ledger.BlockCredits
const LatchKey = ledger.BlockKey

type Latched = ledger.Block
type Limit = journal.Limit
type LiveScanError = runs.LiveScanError
type LockedError = store.LockedError
type LowSpaceError = store.LowSpaceError
type NewerError = store.NewerError

const NoPage = journal.NoPage
const OK = runs.OK
const OKEmpty = runs.OKEmpty

type OlderError = store.OlderError
type Paging = journal.Paging

const Partial = runs.Partial
const PausedBudget = runs.PausedBudget
const PausedQuota = runs.PausedQuota

type Place = queue.Place
type Run = runs.Run

const Running = runs.Running

type Scan = runs.Scan

const ScanEnded = runs.ScanEnded
const ScanExpired = runs.ScanExpired
const ScanFailed = runs.ScanFailed
const ScanIntended = runs.ScanIntended
const ScanNotCreated = runs.ScanNotCreated
const ScanRefused = runs.ScanRefused
const ScanRunning = runs.ScanRunning

type ScanState = runs.ScanState

const ScanUnknown = runs.ScanUnknown

type Searched = runs.Searched
type Sighting = runs.PageHits

const Skew = ledger.Skew

type Spend = ledger.Spend
type Status = runs.Status
type Step = runs.Step
type Task = queue.Task
type Waiting = queue.Waiting
type Watermark = runs.Watermark

// Tx is a unit of work; see [store.Tx].
type Tx struct {
	tx   *store.Tx
	s    *Store
	kept ledger.Kept // the answer being settled
}

// Purchase is [ledger.Purchase].
type Purchase struct {
	Run, Job string
	Step     int64
	Item     string
	Page     int
	RankBase int
	Attempt  int
	TimeOnly bool
	Intent   int64
	Hold     outlier.Credits
	FromHold int64
	Caps     func(service time.Time) []ledger.Cap
	Commit   func(*Tx, Kept) error
}

func (s *Store) purchase(p Purchase) ledger.Purchase {
	to := ledger.Purchase{
		Run: p.Run, Job: p.Job, Step: p.Step, Item: p.Item, Page: p.Page, RankBase: p.RankBase, Attempt: p.Attempt,
		TimeOnly: p.TimeOnly, Intent: p.Intent, Hold: p.Hold, FromHold: p.FromHold, Caps: p.Caps,
	}
	if p.Commit != nil {
		to.Commit = func(tx *store.Tx, k ledger.Kept) error { return p.Commit(&Tx{tx, s, k}, k) }
	}
	return to
}

func (s *Store) Meter(p Purchase) outlier.Meter { return s.ledger.Meter(s.purchase(p)) }

func (s *Store) JoinScan(p Purchase, intent int64) error {
	return s.runs.JoinScan(s.purchase(p), intent)
}

func (s *Store) TakeUp(p Purchase, r *outlier.Request) (*outlier.Answer, error) {
	return s.ledger.TakeUp(s.purchase(p), r)
}

func (s *Store) Flush() error { return s.db.Flush() }

func (s *Store) Update(f func(*Tx) error) error {
	return s.db.Update(func(tx *store.Tx) error { return f(&Tx{tx: tx, s: s}) })
}

func (s *Store) InPieces(ctx context.Context, f func(tx *Tx, most int) (changed int, err error)) error {
	return s.db.InPieces(ctx, func(tx *store.Tx, most int) (int, error) { return f(&Tx{tx: tx, s: s}, most) })
}

func (s *Store) JournalOf(run string, upTo int64) iter.Seq2[*Entry, error] {
	return func(yield func(*Entry, error) bool) {
		ids, err := s.ledger.Answers(run, upTo)
		if err != nil {
			yield(nil, err)
			return
		}
		s.journal.Each(ids)(yield)
	}
}

func (s *Store) Answered(op outlier.Operation, params string, since time.Time) (*Entry, error) {
	return s.journal.Answered(op, params, since, time.Now().Add(ledger.Skew))
}

func (t *Tx) ServiceTime() time.Time { return t.s.ledger.ServiceTime() }

func (t *Tx) Paging(from, size, total int64) error {
	return ledger.Paging(t.tx, t.kept, from, size, total)
}

// OpsNews is [ops.News].
type OpsNews = ops.News

func (s *Store) OpsNews(since int64) (OpsNews, error) { return ops.Since(s.db, since) }

func (s *Store) ForgetOps(version int64) error { return ops.Forget(s.db, version) }

// AfterNow is [queue.AfterNow].
func AfterNow(now time.Time) Place { return queue.AfterNow(now) }

func (s *Store) Balance(c ledger.Cap) (b Balance, err error) {
	return s.ledger.Balance(c)
}

func (s *Store) Adjustments(cycle string) (all []Adjustment, err error) {
	return s.ledger.Adjustments(cycle)
}

func (s *Store) ServiceTime() time.Time {
	return s.ledger.ServiceTime()
}

func (s *Store) ClockAgreed() bool {
	return s.ledger.ClockAgreed()
}

func (s *Store) Turned() (day, cycle bool, err error) {
	return s.ledger.Turned()
}

func (s *Store) Trust() {
	s.ledger.ConfirmClock()
}

func (t *Tx) NoteDrift(seen []Drift, upto int64) (fresh []Drift, err error) {
	return journal.NoteDrift(t.tx, seen, upto)
}

func (s *Store) DriftMark() (mark int64, err error) {
	return s.journal.DriftMark()
}

func (s *Store) Drift() ([]Drift, error) {
	return s.journal.Drift()
}

func (s *Store) Awaits(step int64) (awaits bool, err error) {
	return s.ledger.Awaits(step)
}

func (t *Tx) AddHits(run string, step int64, page, rankBase int, hits []Hit) (seen Sighting, err error) {
	return runs.AddHits(t.tx, run, step, page, rankBase, hits)
}

func (t *Tx) Cover(run string, step int64) error {
	return runs.Cover(t.tx, run, step)
}

func (t *Tx) Sighted(step *Step, hits []Hit) (known int, err error) {
	return runs.Sighted(t.tx, step, hits)
}

func (t *Tx) FirstPage(step *Step) (ids []string, err error) {
	return runs.FirstPage(t.tx, step)
}

func (s *Store) Distinct(run string) (map[string]int64, error) {
	return s.runs.Distinct(run)
}

func (t *Tx) SetAside(response int64) error {
	return journal.SetAside(t.tx, response)
}

func (s *Store) Best(run string, c Choice) (hits []Hit, err error) {
	return s.runs.Best(run, c)
}

func (s *Store) HoldOf(step int64) (rest outlier.Credits, err error) {
	return s.ledger.HoldOf(step)
}

func (t *Tx) Release(step int64) error {
	return runs.Release(t.tx, step)
}

func (s *Store) Journal(after int64) iter.Seq2[*Entry, error] {
	return s.journal.After(after)
}

func (s *Store) JournalEnd() (end int64, err error) {
	return s.journal.End()
}

func (t *Tx) SetLatch(l Latch, key, reason string, until time.Time) error {
	return ledger.SetBlock(t.tx, l, key, reason, until)
}

func (t *Tx) Unlatch(l Latch, key string) error {
	return ledger.LiftBlock(t.tx, l, key)
}

func (s *Store) Latch(l Latch, key string) (*Latched, error) {
	return s.ledger.Block(l, key)
}

func (s *Store) LearnLimit(l Limit) error {
	return s.journal.LearnLimit(l)
}

func (s *Store) Paging(op outlier.Operation) (Paging, error) {
	return s.journal.Paging(op)
}

func (t *Tx) LearnPaging(op outlier.Operation, reading, evidence string) error {
	return journal.LearnPaging(t.tx, op, reading, evidence)
}

func (t *Tx) UnlearnPaging(op outlier.Operation) error {
	return journal.UnlearnPaging(t.tx, op)
}

func (s *Store) Places(f Filter, now time.Time, after Place, limit int) (all []Place, err error) {
	return s.queue.Places(f, now, after, limit)
}

func (s *Store) LastPlace(job string, now time.Time) (*Place, error) {
	return s.queue.LastPlace(job, now)
}

func (s *Store) Between(now time.Time, p, q Place) (n int, err error) {
	return s.queue.Between(now, p, q)
}

func (s *Store) BackedOff(after Place, limit int) (all []Place, err error) {
	return s.queue.BackedOff(after, limit)
}

func (s *Store) Waiting(places []Place) ([]*Waiting, error) {
	return s.queue.At(places)
}

func (t *Tx) Enqueue(tasks []Task) (queued int, err error) {
	return t.s.queue.Enqueue(t.tx, tasks)
}

func (s *Store) Queue(ctx context.Context, tasks iter.Seq[Task], skipped func(Task, time.Time)) error {
	return s.queue.Add(ctx, tasks, skipped)
}

func (s *Store) Fresh(op outlier.Operation, entities []string, since, at time.Time) (n int, err error) {
	return s.queue.Fresh(op, entities, since, at)
}

func (s *Store) Unasked(job string, op outlier.Operation, entities []string, since, at time.Time) (n int, err error) {
	return s.queue.Unasked(job, op, entities, since, at)
}

func (t *Tx) Done(task Task, response int64, missing bool, retryAt time.Time) error {
	return queue.Done(t.tx, task, response, missing, retryAt)
}

func (t *Tx) Fail(task Task, at time.Time, reason string, retryAt time.Time) error {
	return queue.Fail(t.tx, task, at, reason, retryAt)
}

func (s *Store) Expire() (more bool, err error) {
	return s.queue.Expire()
}

func (s *Store) NextTask(now time.Time, f Filter) (*Task, error) {
	return s.queue.NextTask(now, f)
}

func (s *Store) Pending(now time.Time, f Filter) (pending bool, err error) {
	return s.queue.Pending(now, f)
}

func (s *Store) NextRetry(now time.Time, f Filter) (time.Time, error) {
	return s.queue.NextRetry(now, f)
}

func (s *Store) Counts() (all []Count, err error) {
	return s.queue.Counts()
}

func (s *Store) Queued(f Filter) (n int, err error) {
	return s.queue.Queued(f)
}

func (s *Store) Renamed(old, new string) (done bool, err error) {
	return s.runs.Renamed(old, new)
}

func (s *Store) Begin(r Run, steps []Step) error {
	return s.runs.Begin(r, steps)
}

func (s *Store) Unfinished(job string) ([]Run, error) {
	return s.runs.Unfinished(job)
}

func (s *Store) Resume(run string) error {
	return s.runs.Resume(run)
}

func (t *Tx) Owe(debts []Debt) error {
	return runs.Owe(t.tx, debts)
}

func (t *Tx) Forgive(debts []Debt) error {
	return runs.Forgive(t.tx, debts)
}

func (s *Store) Owed() (all []Debt, err error) {
	return s.runs.Owed()
}

func (s *Store) FirstSeen(job string, now time.Time) (first time.Time, err error) {
	return s.runs.FirstSeen(job, now)
}

func (s *Store) Runs(job string, limit int) ([]Run, error) {
	return s.runs.Runs(job, limit)
}

func (s *Store) Run(id string) (*Run, error) {
	return s.runs.Run(id)
}

func (s *Store) OwnRuns(job string, limit int) ([]Run, error) {
	return s.runs.OwnRuns(job, limit)
}

func (s *Store) Performed(job string, due time.Time) (done bool, err error) {
	return s.runs.Performed(job, due)
}

func (s *Store) LastDue(job string) (time.Time, error) {
	return s.runs.LastDue(job)
}

func (s *Store) LiveScan(wish Scan) (live *Scan, err error) {
	return s.runs.LiveScan(wish)
}

func (t *Tx) NamedBefore(scan Scan, scanID string) (*Scan, error) {
	return runs.NamedBefore(t.tx, scan, scanID)
}

func (t *Tx) JoinInstead(scan *Scan, before *Scan) error {
	return runs.JoinInstead(t.tx, scan, before)
}

func (t *Tx) IntendScan(s Scan) (int64, error) {
	return t.s.runs.IntendScan(t.tx, s)
}

func (t *Tx) SaveScan(s Scan) error {
	return runs.SaveScan(t.tx, s)
}

func (s *Store) Scans(job string) ([]Scan, error) {
	return s.runs.Scans(job)
}

func (s *Store) ScanOf(step int64) (scan *Scan, err error) {
	return s.runs.ScanOf(step)
}

func (s *Store) ScanByID(scanID string) (scan *Scan, err error) {
	return s.runs.ScanByID(scanID)
}

func (s *Store) SettleScan(intent int64, sc Scan) (refunded outlier.Credits, err error) {
	return s.runs.SettleScan(intent, sc)
}

func (s *Store) SinksDownSince() (since time.Time, err error) {
	return s.runs.SinksDownSince()
}

func (s *Store) SetSinksDown(since time.Time) error {
	return s.runs.SetSinksDown(since)
}

func (s *Store) Held(c ledger.Cap) (outlier.Credits, error) {
	return s.ledger.Held(c)
}

func (s *Store) Adjust(credits outlier.Credits, why string) error {
	return s.ledger.Adjust(credits, why)
}

func (s *Store) Spent(run string) (Spend, error) {
	return s.ledger.Spent(run)
}

func (t *Tx) AddStep(s Step) (id int64, err error) {
	return runs.AddStep(t.tx, s)
}

func (t *Tx) SaveStep(s Step) error {
	return runs.SaveStep(t.tx, s)
}

func (s *Store) Steps(run string) ([]Step, error) {
	return s.runs.Steps(run)
}

func (s *Store) LastOf(step *Step) (last Step, err error) {
	return s.runs.LastOf(step)
}

func (s *Store) Unread(step *Step) (n int, err error) {
	return s.runs.Unread(step)
}

func (s *Store) PendingFor(ids ...string) (all []Waiting, err error) {
	return s.queue.PendingFor(ids...)
}

func (s *Store) Asked(run string) (map[outlier.Operation]int, error) {
	return s.ledger.Asked(run)
}

func (s *Store) Wanting(task Task) (jobs []string, err error) {
	return s.queue.Wanting(task)
}

func (s *Store) DropUnwanted(ctx context.Context, wanted func(job string, op outlier.Operation) bool) (dropped int, err error) {
	return s.queue.DropUnwanted(ctx, wanted)
}

func (s *Store) ClearQueue(ctx context.Context, job string) (dropped, kept int, err error) {
	return s.queue.Cancel(ctx, job)
}

func (t *Tx) MoveWatermark(w Watermark) error {
	return runs.MoveWatermark(t.tx, w)
}

func (s *Store) Watermark(job, key string) (time.Time, error) {
	return s.runs.Watermark(job, key)
}

func (s *Store) LastSearched(job, key string) (time.Time, error) {
	return s.runs.LastSearched(job, key)
}

func (s *Store) Searched(job, key string) (all []Searched, err error) {
	return s.runs.Searched(job, key)
}

func (s *Store) Watermarks(job string) ([]Watermark, error) {
	return s.runs.Watermarks(job)
}

func (s *Store) SetWatermark(job, key string, at time.Time) error {
	return s.runs.SetWatermark(job, key, at)
}

func (s *Store) ResetWatermarks(job string) (n int, err error) {
	return s.runs.ResetWatermarks(job)
}

func (s *Store) Bringings(id string) (all []Brought, err error) {
	return s.runs.Sightings(id)
}

func (s *Store) CallsAbout(id string) (all []Call, err error) {
	return s.ledger.CallsAbout(id)
}
