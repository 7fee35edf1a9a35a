package pace

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"outlierd/outlier"
)

func TestSlotTakesNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := open(t, tenAMinute, "")
		for range 20 {
			if at, err := l.Slot(outlier.OpDetails); err != nil || at.After(time.Now()) {
				t.Fatalf("in a fresh window the slot is at %v: %v, want now", at, err)
			}
		}
		drain(t, l, 10)
	})
}

func TestSlotFailsAsWaitWould(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, err := Open(tenAMinute, Options{MaxWait: 30 * time.Second})
		if err != nil {
			t.Fatal(err)
		}
		drain(t, l, 10)
		_, err = l.Slot(outlier.OpDetails)
		slot, ok := errors.AsType[*LongWaitError](err)
		wait, waits := errors.AsType[*LongWaitError](l.Wait(t.Context(), details))
		if !ok || !waits || !slot.Until.Equal(wait.Until) {
			t.Errorf("Slot failed with %v, Wait with %v; want the same error", slot, wait)
		}
	})
}
