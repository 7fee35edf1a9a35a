package pace

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"outlierd/outlier"
)

// TestSlotIsWhenACallWouldLeave compares a slot with the time when the call then leaves, while calls of
// other classes wait.
func TestSlotIsWhenACallWouldLeave(t *testing.T) {
	for _, tt := range []struct {
		name string
		ctx  func(context.Context) context.Context
		r    *outlier.Request
		want int // windows
	}{
		{"a person's call goes first", Urgent, details, 1},
		{"a search after the one that waits", func(ctx context.Context) context.Context { return ctx }, aSearch, 2},
		{"enrichment last", func(ctx context.Context) context.Context { return ctx }, details, 3},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				l := open(t, Quota{1, time.Minute}, "")
				drain(t, l, 1)
				begun := time.Now()
				var wg sync.WaitGroup
				call := func(ctx context.Context, r *outlier.Request) {
					if err := l.Wait(ctx, r); err != nil {
						t.Error(err)
					}
					l.Observe(&outlier.Answer{Status: 200})
				}
				wg.Go(func() { call(t.Context(), aSearch) })
				wg.Go(func() { call(t.Context(), details) })
				synctest.Wait()
				ctx := tt.ctx(t.Context())
				at, err := l.Slot(ctx, tt.r.Op())
				again, _ := l.Slot(ctx, tt.r.Op())
				if err != nil || !again.Equal(at) {
					t.Errorf("slots at %v and %v, error %v; want the same twice", at, again, err)
				}
				call(ctx, tt.r)
				want := time.Duration(tt.want) * (time.Minute + margin(time.Minute))
				if left := time.Since(begun); left != at.Sub(begun) || left != want {
					t.Errorf("it left after %v, want %v; the slot was after %v", left, want, at.Sub(begun))
				}
				wg.Wait()
			})
		})
	}
}

func TestSlotTakesNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := open(t, tenAMinute, "")
		for range 20 {
			if at, err := l.Slot(t.Context(), outlier.OpDetails); err != nil || at.After(time.Now()) {
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
		_, err = l.Slot(t.Context(), outlier.OpDetails)
		slot, ok := errors.AsType[*LongWaitError](err)
		wait, waits := errors.AsType[*LongWaitError](l.Wait(t.Context(), details))
		if !ok || !waits || !slot.Until.Equal(wait.Until) {
			t.Errorf("Slot failed with %v, Wait with %v; want the same error", slot, wait)
		}
	})
}
