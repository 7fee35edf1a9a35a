package command

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"strings"
	"syscall"
	"testing"

	"outlierd/outlier"
	"outlierd/sync/serve"
	"outlierd/sync/store"
)

// TestFailuresOfActionsAreNoRefusals: the page logs them. What a person can change is said on the page.
func TestFailuresOfActionsAreNoRefusals(t *testing.T) {
	t.Parallel()
	eio := &fs.PathError{Op: "write", Path: "state.db", Err: syscall.EIO}
	for _, c := range []struct {
		err     error
		refused bool
	}{
		{usageError{errors.New("job coffee runs by hand only")}, true},
		{&outlier.Error{Kind: outlier.Unsent, Cause: syscall.ECONNREFUSED}, true},
		{fmt.Errorf("pause jobs: %w", eio), false},
		{fmt.Errorf("pause jobs: %w", &store.FullError{Dir: "state", Cause: syscall.ENOSPC}), false},
		{fmt.Errorf("pause jobs: %w", &store.CorruptError{Path: "state.db"}), false},
		{fmt.Errorf("pause jobs: %w", store.ErrClosed), false},
	} {
		got := forPeople(context.Background(), c.err)
		refused, is := errors.AsType[*serve.RefusedError](got)
		if is != c.refused || is && !strings.Contains(refused.Error(), c.err.Error()) || !is && got != c.err {
			t.Errorf("%v: got %v, want a refusal: %t", c.err, got, c.refused)
		}
	}
}

func TestSchedulesInWords(t *testing.T) {
	for cron, want := range map[string]string{
		"30 6 * * *": "daily 06:30", "0 18 * * mon,thu": "mon,thu 18:00", "*/5 * * * *": "*/5 * * * *", "0 6 1 * *": "0 6 1 * *", "@daily": "@daily",
	} {
		if got := scheduleWords(cron); got != want {
			t.Errorf("%s: %s, want %s", cron, got, want)
		}
	}
}
