package pace

import (
	"math/rand/v2"
	"net/http"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"outlierd/outlier"
)

// ask makes a call that is answered with a at once.
func ask(t *testing.T, l *Limiter, a *outlier.Answer) {
	t.Helper()
	if err := l.Wait(t.Context(), details); err != nil {
		t.Fatal(err)
	}
	l.Observe(a)
}

func TestRefusalBlocksForACredibleTime(t *testing.T) {
	// The service's clock is an hour ahead of ours.
	const skew = time.Hour
	now := time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC) // at which clocks of synctest start
	date := now.Add(skew)
	in := func(d time.Duration) *outlier.Rate {
		return &outlier.Rate{Limit: 10, Current: 11, Reset: date.Add(d)}
	}
	after := func(value string) http.Header { return http.Header{"Retry-After": {value}} }
	for name, tt := range map[string]struct {
		rate   *outlier.Rate
		header http.Header
		want   time.Duration
	}{
		"reset in the body":            {rate: in(42 * time.Second), want: 42 * time.Second},
		"seconds in the header":        {header: after("17"), want: 17 * time.Second},
		"date in the header":           {header: after(date.Add(50 * time.Second).Format(http.TimeFormat)), want: 50 * time.Second},
		"both, header later":           {rate: in(20 * time.Second), header: after("25"), want: 25 * time.Second},
		"both, body later":             {rate: in(30 * time.Second), header: after("25"), want: 30 * time.Second},
		"no hint":                      {want: 6 * time.Second},
		"a rate without reset":         {rate: &outlier.Rate{Limit: 10, Current: 11}, want: 6 * time.Second},
		"reset in the past":            {rate: in(-time.Hour), want: 6 * time.Second},
		"reset at once":                {rate: in(0), want: 6 * time.Second},
		"reset in two hours":           {rate: in(2 * time.Hour), want: maxBlock},
		"reset in the year 9999":       {rate: &outlier.Rate{Limit: 10, Reset: endOfTime}, want: 6 * time.Second},
		"limit of zero":                {rate: &outlier.Rate{Limit: 0, Current: 0, Reset: date.Add(9 * time.Second)}, want: 9 * time.Second},
		"header of a month":            {header: after("2592000"), want: 6 * time.Second},
		"negative header":              {header: after("-5"), want: 6 * time.Second},
		"header that overflows":        {header: after("99999999999999999999"), want: 6 * time.Second},
		"header that is not a time":    {header: after("soon"), want: 6 * time.Second},
		"header of an hour":            {header: after("3600"), want: maxBlock},
		"header of years, short reset": {rate: in(8 * time.Second), header: after("999999999"), want: 8 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				l := open(t, tenAMinute, "")
				header := http.Header{"Date": {date.Format(http.TimeFormat)}}
				for name, values := range tt.header {
					header[name] = values
				}
				ask(t, l, refusal(tt.rate, header))
				blocked := l.Status().BlockedUntil
				ask(t, l, &outlier.Answer{Status: 200})
				if took := time.Since(now); took != tt.want+clockSlack {
					t.Errorf("the next request left after %v, want %v", took, tt.want)
				}
				if !blocked.Equal(now.Add(tt.want + clockSlack)) {
					t.Errorf("blocked until %v, want %v", blocked, now.Add(tt.want+clockSlack))
				}
			})
		})
	}
}

func TestResetWithoutDateUsesLocalClock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := open(t, tenAMinute, "")
		ask(t, l, refusal(&outlier.Rate{Reset: time.Now().Add(33 * time.Second)}, nil))
		if d := time.Until(l.Status().BlockedUntil); d != 33*time.Second+clockSlack {
			t.Errorf("blocked for %v, want %v", d, 33*time.Second+clockSlack)
		}
	})
}

func TestBackoffDoublesUntilAnAnswer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := open(t, tenAMinute, "")
		next := func(a *outlier.Answer) time.Duration {
			ask(t, l, a)
			return time.Until(l.Status().BlockedUntil) - clockSlack
		}
		for _, want := range []time.Duration{6, 12, 24, 48, 96, 192, 300, 300} {
			if got := next(refusal(nil, nil)); (got - want*time.Second).Abs() > want*time.Second/100 {
				t.Errorf("blocked for %v, want about %v", got, want*time.Second)
			}
		}
		hint := http.Header{"Retry-After": {"1"}}
		if got := next(refusal(nil, hint)); got != maxBackoff {
			t.Errorf("after refusals, Retry-After: 1 blocks for %v, want %v", got, maxBackoff)
		}
		ask(t, l, &outlier.Answer{Status: 200})
		if got := next(refusal(nil, hint)); got != time.Second {
			t.Errorf("after an answer, Retry-After: 1 blocks for %v, want 1s", got)
		}
	})
}

func TestRetryAfterOfOverloadedServiceBlocks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := open(t, tenAMinute, "")
		down := &outlier.Answer{
			Status: 503, Header: http.Header{"Retry-After": {"120"}},
			Err: &outlier.Error{Kind: outlier.Foreign, Status: 503},
		}
		ask(t, l, down)
		if s := l.Status(); time.Until(s.BlockedUntil) != 2*time.Minute+clockSlack || s.Limit != 10 {
			t.Errorf("status is %+v, want a block of %v and limit 10", s, 2*time.Minute+clockSlack)
		}
	})
}

func TestLowerLimitLastsOneWeek(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := open(t, tenAMinute, "")
		ask(t, l, refusal(&outlier.Rate{Limit: 5, Current: 6, Remaining: 0}, nil))
		if s := l.Status(); s.Limit != 5 {
			t.Errorf("limit is %d, want 5", s.Limit)
		}
		time.Sleep(learnedFor + time.Second)
		if s := l.Status(); s.Limit != 10 || s.Remaining != 10 {
			t.Errorf("a week later the status is %+v, want limit 10, 10 remaining", s)
		}
	})
}

func TestImplausibleLimitIsIgnored(t *testing.T) {
	for _, r := range []outlier.Rate{{Limit: 0}, {Limit: -1}, {Limit: 1000}, {Limit: 2, Remaining: 7}} {
		synctest.Test(t, func(t *testing.T) {
			l := open(t, tenAMinute, "")
			ask(t, l, refusal(&r, nil))
			if s := l.Status(); s.Limit != 10 {
				t.Errorf("after %+v the limit is %d, want 10", r, s.Limit)
			}
		})
	}
}

func TestRequestsOfOtherClientsAreCounted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := open(t, tenAMinute, "")
		drain(t, l, 3)
		ask(t, l, refusal(&outlier.Rate{Limit: 10, Current: 11}, nil))
		if s := l.Status(); s.Foreign != 6 {
			t.Errorf("of 10 requests 4 are ours: %d are counted as those of other clients, want 6", s.Foreign)
		}
	})
}

// TestPaceRecoversFromAnotherClient that has used the key once.
func TestPaceRecoversFromAnotherClient(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := open(t, tenAMinute, "")
		drain(t, l, 9)
		ask(t, l, refusal(&outlier.Rate{Limit: 10, Current: 11}, nil))
		begun := time.Now()
		for time.Since(begun) < 3*time.Hour {
			drain(t, l, 1)
		}
		begun = time.Now()
		drain(t, l, 10)
		if took := time.Since(begun); took > time.Minute+time.Second {
			t.Errorf("three hours after a call of another client ten requests take %v, want a minute", took)
		}
	})
}

// TestFullBurstIsTriedAgain half a day after a refusal without a reason, if the even pace was used meanwhile.
func TestFullBurstIsTriedAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := open(t, tenAMinute, "")
		drain(t, l, 9)
		ask(t, l, refusal(nil, nil))
		time.Sleep(2 * time.Minute)
		begun := time.Now()
		drain(t, l, trialWork)
		if took := time.Since(begun); took < 19*6*time.Second {
			t.Errorf("after a refusal %d requests took %v, want an even pace of 6 s", trialWork, took)
		}
		if s := l.Status(); s.Remaining > 1 {
			t.Errorf("after a refusal %d may leave at once, want 1", s.Remaining)
		}
		time.Sleep(nearTrialAfter)
		if s := l.Status(); s.Remaining != 10 {
			t.Errorf("%v later %d may leave at once, want 10", nearTrialAfter, s.Remaining)
		}
		drain(t, l, 9)
		ask(t, l, refusal(nil, nil))
		time.Sleep(2 * time.Minute)
		if s := l.Status(); s.Remaining > 1 {
			t.Errorf("after a refused trial %d may leave at once, want 1", s.Remaining)
		}
	})
}

// TestIdleTimeTriesNoFasterPace: it would prove nothing.
func TestIdleTimeTriesNoFasterPace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := open(t, tenAMinute, "")
		ask(t, l, refusal(nil, nil))
		time.Sleep(2 * day)
		if s := l.Status(); s.Remaining > 1 {
			t.Errorf("two idle days after a refusal %d may leave at once, want 1", s.Remaining)
		}
		time.Sleep(learnedFor)
		if s := l.Status(); s.Remaining != 10 {
			t.Errorf("a week later %d may leave at once, want 10", s.Remaining)
		}
	})
}

func TestRestartKeepsTheBlock(t *testing.T) {
	path := filepath.Join(t.TempDir(), "pace.json")
	synctest.Test(t, func(t *testing.T) {
		reset := time.Now().Add(5 * time.Minute)
		ask(t, open(t, tenAMinute, path), refusal(&outlier.Rate{Limit: 5, Current: 6, Reset: reset}, nil))
		time.Sleep(time.Minute)
		s := open(t, tenAMinute, path).Status()
		if time.Until(s.BlockedUntil) != 4*time.Minute+clockSlack || s.Limit != 5 {
			t.Errorf("status is %+v, want a block of %v and limit 5", s, 4*time.Minute+clockSlack)
		}
	})
}

// TestStricterServiceRefusesOnce: one refusal is enough to learn that a service allows less than it states.
func TestStricterServiceRefusesOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		random := rand.New(rand.NewPCG(1, 2))
		n := &link{service: bucketOf(1)(nil, 0), style: styles[0], random: random, begun: time.Now()}
		n.work(open(t, tenAMinute, ""), 1, time.Hour)
		if n.refused != 1 || n.admitted < 580 {
			t.Errorf("%d admitted, %d refused; want at least 580 and 1", n.admitted, n.refused)
		}
	})
}

func TestStatusShowsTheLearnedPace(t *testing.T) {
	l := &Limiter{core: newCore(Quota{600, time.Minute}, 0)}
	for every, want := range map[time.Duration]string{
		0: "600/min", 100 * time.Millisecond: "600/min", 120 * time.Millisecond: "500/min, learned",
	} {
		l.core.setEvery(wallClock(), every)
		if s := l.Status(); s.Pace() != want {
			t.Errorf("one request each %v is shown as %q, want %q", every, s.Pace(), want)
		}
	}
}

// TestSilentServicesPaceIsLearned: the pace of a service that is far slower than configured is learned within
// an hour, shown, and kept when the configured limit is corrected.
func TestSilentServicesPaceIsLearned(t *testing.T) {
	path := filepath.Join(t.TempDir(), "pace.json")
	synctest.Test(t, func(t *testing.T) {
		random := rand.New(rand.NewPCG(1, 2))
		n := &link{service: bucketOf(10)(nil, 0), style: silent, random: random, begun: time.Now()}
		fast := open(t, Quota{600, time.Minute}, path)
		n.work(fast, 1, time.Hour)
		n.refused = 0
		n.work(fast, 1, time.Hour)
		if n.refused > 5 || n.admitted < 500 {
			t.Errorf("in the second hour %d are refused, %d admitted in both; "+
				"want fewer than one in ten minutes, and at least 500", n.refused, n.admitted)
		}
		learned := func(l *Limiter) time.Duration {
			s := l.Status()
			if !s.Learned || !strings.HasSuffix(s.Pace(), "/min, learned") {
				t.Errorf("status %+v shows %q, want a learned pace", s, s.Pace())
			}
			return Quota{s.Limit, s.Window}.spacing()
		}
		before := learned(fast)
		if before < 6*time.Second || before > 9*time.Second {
			t.Errorf("learned one request in %v, want one in 6 to 9 s", before)
		}
		if after := learned(open(t, tenAMinute, path)); (after - before).Abs() > time.Second/10 {
			t.Errorf("with another configured limit, learned one request in %v, want one in %v as before", after, before)
		}
	})
}
