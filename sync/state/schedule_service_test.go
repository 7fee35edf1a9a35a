package state_test

import (
	"errors"
	"fmt"
	"net/http"
	"syscall"

	"outlierd/outlier"
	"outlierd/outlier/simulator"
	"outlierd/sync/ledger"
	"outlierd/sync/runs"
)

// keys of the account, which take turns.
var keys = []string{"first-key", "second-key"}

var errKilled = errors.New("the process is dead")

// client talks to the service as a process does that has just read its key.
func (p *process) client(transport http.RoundTripper) *outlier.Client {
	key, err := outlier.NewKey(keys[p.key])
	if err != nil {
		p.wrong = err
	}
	return &outlier.Client{URL: "https://service.test", Key: key, Transport: transport}
}

// roundTripper is a function that is a transport.
type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// deliver takes a call to the service, and writes down what the service charged for it.
// A dead process delivers nothing.
func (p *process) deliver(r *http.Request, c *call) (*http.Response, error) {
	if p.dead {
		return nil, errKilled
	}
	if r.Header.Get("Authorization") == "Api-Key "+keys[p.key] {
		r = r.Clone(r.Context())
		r.Header.Set("Authorization", "Api-Key demo") // the simulator knows one key alone
	}
	resp, err := p.service.Transport().RoundTrip(r)
	p.readBooks(c)
	if errors.Is(err, syscall.ECONNREFUSED) {
		p.saw("service: " + simulator.Unreachable.String())
	}
	if err != nil {
		return nil, err
	}
	// The simulator stands still, so that its answers cost little; the time is ours to tell.
	resp.Header.Del("Date")
	if !p.silent {
		resp.Header.Set("Date", p.now().UTC().Format(http.TimeFormat))
	}
	return resp, nil
}

// readBooks adds what the service has written since to what the call was for. No other
// call was made: jobs take turns.
func (p *process) readBooks(c *call) {
	lines := p.service.Books().Calls
	for _, line := range lines[p.read:] {
		spent := line.Charged - line.Refunded
		c.charged += spent
		if spent != 0 {
			p.spend(spending{c.run, c.account, c.at, spent})
		}
		if line.Scan != "" {
			p.begin(begun{step: c.step, intent: c.intent, id: line.Scan, what: line.Identity, ended: p.end != ""})
		}
		p.sawLine(line)
		p.note(c.job, "at the service: %s %s, status %d, charged %d %s", line.Op, line.Result, line.Status, spent, line.Fault)
	}
	p.read = len(lines)
}

func (s *schedule) sawLine(line simulator.Call) {
	what := "service: " + string(line.Result)
	if line.Cached {
		what += " from the cache"
	}
	s.saw(what)
	if line.Fault != "" {
		s.saw("service: " + line.Fault)
	}
}

// spoil lets one of the next calls go wrong.
func (p *process) spoil() {
	f := one(p.dice, simulator.Unreachable, simulator.DropRequest, simulator.Unauthorized, simulator.RateLimited, simulator.NoCredits,
		simulator.ServerError, simulator.GatewayPage, simulator.GatewayJSON, simulator.HTMLPage, simulator.Garbage, simulator.DropAnswer, simulator.CutBody,
		simulator.Stall, simulator.Slow)
	p.service.FailNext(one(p.dice, "", "", outlier.OpSearch, outlier.OpStartScan, outlier.OpStartScan, outlier.OpTrendingFormats), f)
	p.note("", "the service prepares: %s", f)
}

// endScans lets all scans that were begun come to an end, or those that begin run on.
func (p *process) endScans() {
	p.end = one(p.dice, "Completed", "Completed", "Completed", "Failed", "")
	p.note("", "scans are %q from now on", p.end)
	for i := range p.begun {
		p.begun[i].ended = p.begun[i].ended || p.end != ""
	}
}

// rekey makes the other key valid.
func (p *process) rekey() {
	p.key = (p.key + 1) % len(keys)
	p.saw("the key changed")
	p.note("", "the key changes")
}

// operate has an operator look for a scan whose start is not confirmed, and settle it.
func (p *process) operate() {
	scans, err := p.store.Scans.List()
	if err != nil {
		p.wrong = err
		return
	}
	for _, scan := range scans {
		if scan.State == runs.ScanUnknown {
			p.settle(scan)
			return
		}
	}
}

// settle tells the truth about a scan. The ledger takes no word for an attempt that is
// under way.
func (p *process) settle(scan runs.Scan) {
	word := runs.Scan{State: runs.ScanNotCreated}
	for _, b := range p.begun {
		if b.intent != scan.Intent {
			continue
		}
		found, err := p.look(b.id)
		if err != nil {
			p.note("", "an operator does not see scan %s: %v", b.id, err)
			return
		}
		word = *found
	}
	busy := p.starting(scan.Intent)
	_, err := p.store.Scans.Settle(scan.Intent, word)
	p.note("", "an operator says that the scan of intent %d is %s: %v", scan.Intent, word.State, err)
	switch {
	case busy != (err != nil):
		p.wrong = fmt.Errorf("an operator's word about intent %d, being started: %v, got %w", scan.Intent, busy, err)
	case busy:
		p.saw("a scan was told of while it was started")
	case word.State == runs.ScanNotCreated:
		p.saw("a scan was never created")
	default:
		p.saw("a scan was adopted")
	}
}

// starting reports whether a call for an intent is on its way.
func (p *process) starting(intent int64) bool {
	for _, j := range p.jobs {
		if j.call != nil && j.call.intent == intent && !j.call.settled {
			return true
		}
	}
	return false
}

// look asks the service how a scan stands, which is free.
func (p *process) look(id string) (*runs.Scan, error) {
	request, err := outlier.DataRequest(outlier.OpScan, id)
	if err != nil {
		return nil, err
	}
	c := p.client(roundTripper(func(r *http.Request) (*http.Response, error) { return p.deliver(r, &call{}) }))
	answer, err := c.Do(p.t.Context(), request, p.store.Ledger.Meter(ledger.Purchase{}))
	p.heed(answer)
	if err != nil {
		return nil, err
	}
	body, err := answer.JSON()
	if err != nil {
		return nil, err
	}
	told, err := outlier.ReadScan(body)
	scan := &runs.Scan{}
	scan.Saw(told, answer.ReceivedAt)
	return scan, err
}
