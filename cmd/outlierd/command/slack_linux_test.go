package command

import (
	"testing"

	"golang.org/x/sys/unix"
)

func TestThreadsHaveTimerSlack(t *testing.T) {
	t.Parallel()
	slack, err := unix.PrctlRetInt(unix.PR_GET_TIMERSLACK, 0, 0, 0, 0)
	if err != nil || slack != 1_000_000 {
		t.Fatalf("a thread has a timer slack of %d ns, %v", slack, err)
	}
}
