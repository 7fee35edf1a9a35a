package journal_test

import (
	"errors"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"outlierd/outlier"
	"outlierd/sync/journal"
	"outlierd/sync/ledger"
	"outlierd/sync/queue"
	"outlierd/sync/state/statetest"
	"outlierd/sync/store"
)

// chunk is how many answers are read at a time.
const chunk = 16

func TestJournalReturnsAnswersUnchanged(t *testing.T) {
	t.Parallel()
	s := statetest.Open(t, t.TempDir())
	step := statetest.BeginRun(t, s, "run-1")
	long := `{"hits":[` + strings.Repeat(`{"id":"dQw4w9WgXcQ"},`, 500) + `{}]}`
	search := statetest.AnswerTo(statetest.SearchRequest("1"), "")
	search.Body, search.Encoding = outlier.Pack([]byte(long)), "gzip"
	p := ledger.Purchase{Run: "run-1", Job: "ideas", Step: step.ID, Item: "chess", Page: 1, RankBase: 40, Attempt: 2}
	statetest.Buy(t, s, p, search, outlier.Charged)
	plain := statetest.AnswerTo(statetest.DetailsRequest("video-00001"), "\xef\xbb\xbf"+long)
	statetest.Buy(t, s, ledger.Purchase{Run: "run-1", Job: "ideas"}, plain, outlier.Charged)
	small := statetest.AnswerTo(statetest.DetailsRequest("video-00002"), `{}`)
	statetest.Buy(t, s, ledger.Purchase{Run: "run-1", Job: "ideas"}, small, outlier.Charged)

	at := func(a *outlier.Answer) time.Time { return a.ReceivedAt.UTC().Truncate(time.Microsecond) }
	want := []journal.Entry{{
		ID: 1, Call: journal.Call{Run: "run-1", Job: "ideas", Step: step.ID, Op: outlier.OpSearch, Item: "chess", Page: 1, RankBase: 40,
			Params: "from=1&query=chess&size=40"},
		SentAt: at(search), ReceivedAt: at(search), Status: 200, Outcome: outlier.Charged, Body: []byte(long),
	}, {
		ID: 2, Call: journal.Call{Run: "run-1", Job: "ideas", Op: outlier.OpDetails, Entity: "video-00001"},
		SentAt: at(plain), ReceivedAt: at(plain), Status: 200, Outcome: outlier.Charged, Body: []byte(long),
	}, {
		ID: 3, Call: journal.Call{Run: "run-1", Job: "ideas", Op: outlier.OpDetails, Entity: "video-00002"},
		SentAt: at(small), ReceivedAt: at(small), Status: 200, Outcome: outlier.Charged, Body: []byte(`{}`),
	}}
	if diff := cmp.Diff(want, statetest.Entries(t, s, 0)); diff != "" {
		t.Errorf("journal (-want +got):\n%s", diff)
	}
	kept := statetest.Ask(t, s.DB.Dir(), `SELECT concat(encoding, ' ', iif(length(body) < 3000, 'short', 'long')) FROM responses ORDER BY id`)
	if diff := cmp.Diff([]string{"gzip short", "zstd short", " short"}, kept); diff != "" {
		t.Errorf("bodies as kept (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(want[2:], statetest.Entries(t, s, 2)); diff != "" {
		t.Errorf("journal after 2 (-want +got):\n%s", diff)
	}
}

func TestUnreadableBodiesAreKept(t *testing.T) {
	t.Parallel()
	s := statetest.Open(t, t.TempDir())
	cut := statetest.AnswerTo(statetest.SearchRequest("0"), "")
	cut.Body, cut.Encoding = outlier.Pack([]byte(strings.Repeat("some text ", 100)))[:30], "gzip"
	statetest.Buy(t, s, ledger.Purchase{}, cut, outlier.Charged)
	foreign := statetest.AnswerTo(statetest.SearchRequest("1"), "whatever br is")
	foreign.Encoding = "br"
	statetest.Buy(t, s, ledger.Purchase{}, foreign, outlier.Unknown)
	statetest.Buy(t, s, ledger.Purchase{}, statetest.AnswerTo(statetest.SearchRequest("2"), ""), outlier.Charged)
	for _, e := range statetest.Entries(t, s, 0) {
		if len(e.Body) > 0 {
			t.Errorf("answer %d was opened: %q", e.ID, e.Body)
		}
	}
	if diff := cmp.Diff([]string{"30", "14", "0"}, statetest.Ask(t, s.DB.Dir(), `SELECT length(body) FROM responses ORDER BY id`)); diff != "" {
		t.Errorf("sizes as kept (-want +got):\n%s", diff)
	}
}

// The journal keeps answers with data, parts of lost ones and missing entities, but no refusals.
func TestOnlyInformativeAnswersAreJournaled(t *testing.T) {
	t.Parallel()
	search, details := statetest.SearchRequest("0"), statetest.DetailsRequest("video-00001")
	cutShort := statetest.Lost(search)
	cutShort.Body = []byte(`{"hits":[`)
	for name, c := range map[string]struct {
		answer  *outlier.Answer
		outcome outlier.Outcome
		want    int
	}{
		"charged":                          {statetest.AnswerTo(search, `{}`), outlier.Charged, 1},
		"lost without a byte":              {statetest.Lost(search), outlier.Unknown, 0},
		"lost with what had arrived":       {cutShort, outlier.Unknown, 1},
		"refused":                          {statetest.ErrorTo(search, http.StatusBadRequest, outlier.Invalid), outlier.Refunded, 0},
		"not found, at a data endpoint":    {statetest.ErrorTo(details, http.StatusNotFound, outlier.NotFound), outlier.Refunded, 1},
		"not found, at a search":           {statetest.ErrorTo(search, http.StatusNotFound, outlier.NotFound), outlier.Refunded, 0},
		"too many requests, data endpoint": {statetest.ErrorTo(details, http.StatusTooManyRequests, outlier.Limited), outlier.Refunded, 0},
	} {
		t.Run(name, func(t *testing.T) {
			s := statetest.Open(t, t.TempDir())
			var response int64
			statetest.Buy(t, s, ledger.Purchase{Commit: func(_ *store.Tx, k ledger.Kept) error { response = k.Response; return nil }}, c.answer, c.outcome)
			if got := statetest.Entries(t, s, 0); len(got) != c.want || int(response) != c.want {
				t.Errorf("%d answers kept and Commit was told %d, want %d", len(got), response, c.want)
			}
		})
	}
}

func TestMissingThingsAreRemembered(t *testing.T) {
	t.Parallel()
	s := statetest.Open(t, t.TempDir())
	retry := time.Now().Add(time.Hour).UTC().Truncate(time.Microsecond)
	task := queue.Task{Op: outlier.OpDetails, Entity: "video-00001"}
	p := ledger.Purchase{Commit: func(tx *store.Tx, k ledger.Kept) error { return queue.Done(tx, task, k.Response, true, retry) }}
	statetest.Buy(t, s, p, statetest.ErrorTo(statetest.DetailsRequest("video-00001"), http.StatusNotFound, outlier.NotFound), outlier.Refunded)
	got := statetest.Entries(t, s, 0)
	if len(got) != 1 || !got[0].Missing || !got[0].RetryAt.Equal(retry) || got[0].Status != 404 || got[0].Outcome != outlier.Refunded {
		t.Errorf("journal: %+v, want a missing thing", got)
	}
}

func TestFlippedBitEndsTheJournal(t *testing.T) {
	t.Parallel()
	s := statetest.Open(t, t.TempDir())
	statetest.Free(t, s, 3)
	if err := statetest.Shell(t, s, `DROP TRIGGER responses_fixed; UPDATE responses SET body = CAST('{"n":2}' AS BLOB) WHERE id = 2`); err != nil {
		t.Fatal(err)
	}
	var read []int64
	var last error
	for e, err := range s.Journal.After(0) {
		if last = err; err == nil {
			read = append(read, e.ID)
		}
	}
	if _, ok := errors.AsType[*store.CorruptError](last); !ok || len(read) != 1 {
		t.Errorf("read %v and then %v, want answer 1 and a CorruptError", read, last)
	}
	statetest.WantText(t, last, "answer 2", "checksum")
}

func TestJournalEndCountsWhatWasPruned(t *testing.T) {
	t.Parallel()
	s := statetest.Open(t, t.TempDir())
	for _, want := range []int64{0, 3} {
		if got, err := s.Journal.End(); err != nil || got != want {
			t.Errorf("the journal ends at %d (%v), want %d", got, err, want)
		}
		statetest.Free(t, s, 3)
	}
	if err := statetest.Shell(t, s, `DELETE FROM responses`); err != nil {
		t.Fatal(err)
	}
	if got, err := s.Journal.End(); err != nil || got != 6 {
		t.Errorf("after pruning the journal ends at %d (%v), want 6", got, err)
	}
	statetest.Free(t, s, 1)
	if got := statetest.Entries(t, s, 0); len(got) != 1 || got[0].ID != 7 {
		t.Errorf("the next answer is %v, want id 7", got)
	}
}

// The journal may be written while it is read, and a reader may stop early.
func TestJournalAcceptsWritesDuringReading(t *testing.T) {
	t.Parallel()
	s := statetest.Open(t, t.TempDir())
	statetest.Free(t, s, 2*chunk+5)
	read := 0
	for _, err := range s.Journal.After(0) {
		if err != nil {
			t.Fatal(err)
		}
		if read++; read == chunk+1 {
			break
		}
		statetest.Free(t, s, 1)
	}
	if got, want := len(statetest.Entries(t, s, 0)), 3*chunk+5; got != want {
		t.Errorf("%d answers, want %d", got, want)
	}
}
