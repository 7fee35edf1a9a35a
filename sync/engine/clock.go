package engine

import (
	"context"
	"fmt"

	"outlierd/outlier"
	"outlierd/sync/state"
)

// nowhere is the id of no scan: to ask for it costs nothing and brings the time.
const nowhere = "00000000-0000-4000-8000-000000000000"

// proveTime asks the service for its time before a process books its first purchase, if
// this machine's clock shows another day or billing cycle than the last one was booked
// in. Periods turn by the service's clock; until an answer has told it there is only this
// machine's, and one that was set forward would open a fresh budget. A period without a cap may turn
// as it likes. An answer without a date leaves nothing to hold on to, and is not
// waited for.
func (s *shift) proveTime(ctx context.Context) error {
	day, cycle := s.Store.Turned()
	if s.askedTime || !(cycle && s.Config.Budget.PerMonth != nil || day && s.Config.Budget.PerDay != nil) {
		return nil
	}
	request, err := outlier.DataRequest(outlier.OpScan, nowhere)
	if err != nil {
		return err
	}
	answer, err := s.Client.Do(ctx, request, s.Store.Meter(state.Purchase{}))
	if answer == nil || answer.Status == 0 {
		return fmt.Errorf("ask the service for the time: %w", err)
	}
	s.askedTime = true
	return nil
}
