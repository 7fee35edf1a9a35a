package engine

import (
	"context"
	"fmt"
	"slices"
	"time"

	"outlierd/outlier"
	"outlierd/outlier/pace"
	"outlierd/sync/credit"
	"outlierd/sync/job"
	"outlierd/sync/state"
)

// # Whose clock
//
// Days and billing cycles turn by the service's clock. Before an answer has told it there
// is only this machine's, and one that was set forward would open a fresh budget. So if it
// shows another period than the last purchase was booked in, and a cap goes by that
// period, the service is asked for nothing but its time before anything is bought. A
// date that is far from what was believed has to be told twice. A service that tells no
// time leaves the machine's clock alone with its claim: then a person has to confirm it.

// nowhere is the id of no video: to ask for its details costs nothing and brings the time.
const nowhere = "-----------"

// askings is how often the service is asked for the time, until two answers agree.
const askings = 3

// ClockError says that nothing tells the time but this machine's clock, which claims that
// another period has begun.
type ClockError struct{ Now time.Time }

func (e *ClockError) Error() string {
	return fmt.Sprintf("the service's answers do not tell the time, and by this machine's clock alone a new day or billing cycle has begun: it shows %s; "+
		"nothing is bought until 'outlierd budget resume' says that the clock is right", e.Now.Format("2006-01-02 15:04 MST"))
}

// proveTime makes sure of the period in which the next purchase is booked.
func (s *shift) proveTime(ctx context.Context) error {
	for range askings {
		if !s.turned() {
			return nil
		}
		told, err := s.askTime(ctx)
		if err != nil {
			return err
		}
		if told.IsZero() {
			break
		}
	}
	return s.confirmed()
}

// turned reports whether this machine's clock shows another period than the last purchase,
// no answer has told the time, and a cap goes by such a period.
func (s *shift) turned() bool {
	day, cycle := s.Store.Turned()
	capped := s.Config.Budget.PerMonth != nil || slices.ContainsFunc(s.Config.Jobs, func(j job.Spec) bool { return j.Budget.PerMonth != nil })
	return day && s.Config.Budget.PerDay != nil || cycle && capped
}

// askTime asks the service for nothing; its answer has a date, or zero is returned.
func (s *shift) askTime(ctx context.Context) (time.Time, error) {
	request, err := outlier.DataRequest(outlier.OpDetails, nowhere)
	if err != nil {
		return time.Time{}, err
	}
	answer, err := s.Client.Do(pace.Urgent(ctx), request, s.Store.Meter(state.Purchase{})) // a purchase waits for it
	if answer == nil || answer.Status == 0 {
		return time.Time{}, fmt.Errorf("ask the service for the time: %w", err)
	}
	return answer.Date(), nil
}

// confirmed takes this machine's clock for right if a person has said so today, by
// 'outlierd budget resume', or else asks for that.
func (s *shift) confirmed() error {
	now, zone := time.Now(), s.Config.Timezone
	if s.Store.ServiceTime().After(now) { // it was set back: what it shows was used up long ago
		s.Store.Trust()
		return nil
	}
	latch, err := s.Store.Latch(state.LatchClock, "")
	if err != nil {
		return err
	}
	if latch != nil && !latch.Until.IsZero() && credit.Day(latch.Until, zone) == credit.Day(now, zone) {
		s.Store.Trust()
		return nil
	}
	unsure := &ClockError{Now: now.In(zone)}
	err = s.Store.Update(func(tx *state.Tx) error {
		return tx.SetLatch(state.LatchClock, "", unsure.Error(), time.Time{})
	})
	if err != nil {
		return err
	}
	return unsure
}
