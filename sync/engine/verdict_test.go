package engine

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"outlierd/outlier"
	"outlierd/outlier/pace"
	"outlierd/sync/ledger"
	"outlierd/sync/load"
	"outlierd/sync/runs"
	"outlierd/sync/store"
)

func TestAnErrorHasOneVerdict(t *testing.T) {
	soon := time.Now().Add(time.Second)
	service := func(kind outlier.Kind, status int) error { return &outlier.Error{Kind: kind, Status: status} }
	for _, c := range []struct {
		err  error
		want verdict
	}{
		{nil, verdict{}},
		{&waitError{soon}, verdict{scope: ofCall, status: runs.Failed, retryAt: soon}},
		{&pace.LongWaitError{Until: soon}, verdict{scope: ofAll, status: runs.PausedQuota, retryAt: soon}},
		{&store.LowSpaceError{}, verdict{scope: ofAll, status: runs.Failed}},
		{&store.MovedError{}, verdict{scope: ofAll, status: runs.Failed}},
		{&load.SinksDownError{}, verdict{scope: ofPages, status: runs.Failed}},
		{&CancelledError{}, verdict{scope: ofRun, status: runs.Interrupted}},
		{&UnsettledScanError{}, verdict{scope: ofStep, status: runs.Failed}},
		{errors.Join(service(outlier.Lost, 0), &UnsettledScanError{}), verdict{scope: ofStep, status: runs.Failed}},
		{&ledger.Exceeded{}, verdict{scope: ofStep, status: runs.PausedBudget}},
		{&ClockError{}, verdict{scope: ofStep, status: runs.PausedBudget}},
		{errors.New("disk gone"), verdict{scope: ofRun, status: runs.Failed}},
		{&QueuedError{errors.New("next is due")}, verdict{scope: ofRun, status: runs.Partial}},

		{service(outlier.NoCredits, 402), verdict{scope: ofStep, status: runs.PausedBudget, kind: outlier.NoCredits}},
		{service(outlier.Unauthorized, 401), verdict{ofRun, runs.Failed, outlier.Unauthorized, time.Time{}, afterRefusal}},
		{service(outlier.Limited, 429), verdict{ofRun, runs.Failed, outlier.Limited, time.Time{}, afterRefusal}},
		{service(outlier.Unsent, 0), verdict{ofRun, runs.Failed, outlier.Unsent, time.Time{}, afterFailure}},
		{service(outlier.Lost, 0), verdict{ofCall, runs.Failed, outlier.Lost, time.Time{}, afterFailure}},
		{service(outlier.Foreign, 502), verdict{ofCall, runs.Failed, outlier.Foreign, time.Time{}, afterFailure}},
		{service(outlier.Foreign, 302), verdict{scope: ofCall, status: runs.Failed, kind: outlier.Foreign}},
		{service(outlier.Invalid, 400), verdict{scope: ofCall, status: runs.Failed, kind: outlier.Invalid}},

		// An answer that is not recorded, or that is not the service's, says nothing about the service.
		{errors.Join(service(outlier.Lost, 0), &outlier.UnkeptError{}), verdict{scope: ofRun, status: runs.Failed}},
		{&NotServiceError{Err: service(outlier.Foreign, 200)}, verdict{scope: ofRun, status: runs.Failed}},
		// A call that may not be repeated ends its search, whatever became of it.
		{errors.Join(service(outlier.Limited, 429), &RequestsError{3}),
			verdict{ofStep, runs.PausedBudget, outlier.Limited, time.Time{}, afterRefusal}},
		{&QueuedError{service(outlier.NoCredits, 402)},
			verdict{scope: ofStep, status: runs.PausedBudget, kind: outlier.NoCredits}},
	} {
		if got := judge(fmt.Errorf("wrapped: %w", c.err)); c.err != nil && got != c.want {
			t.Errorf("%T %v means %+v, want %+v", c.err, c.err, got, c.want)
		}
	}
	if got := judge(nil); got != (verdict{}) {
		t.Errorf("no error means %+v", got)
	}
}
