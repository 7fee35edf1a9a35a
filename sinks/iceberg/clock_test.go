//go:build iceberg

package iceberg

import (
	"strings"
	"testing"
	"time"

	"outlierd/sinks/sinktest"
)

// TestClocksDiffer: a writer whose clock is more than a minute behind that of another one publishes nothing, and
// all of it when its clock is set.
func TestClocksDiffer(t *testing.T) {
	t.Parallel()
	dir, j := t.TempDir(), sinktest.Sample(4)
	a, b := line(t, dir, "a"), line(t, dir, "b")
	a.Write(t, j, 0, 2)
	a.Publish(t)
	b.Write(t, j, 0, 4)
	for behind, says := range map[time.Duration]string{
		2 * time.Minute: "a machine whose clock is", 25 * time.Hour: "give the sink another `namespace`",
	} {
		b.Copy.Copy.(*Copy).now = func() time.Time { return time.Now().Add(-behind) }
		if err := b.Copy.Publish(t.Context()); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%v behind: got %v, want %q", behind, err, says)
		}
	}
	b.Copy.Copy.(*Copy).now = func() time.Time { return time.Now().Add(-50 * time.Second) }
	b.Publish(t)
	b.Check(t, j, 4)
	a.Check(t, j, 2)
	a.Close(t)
	b.Close(t)
}
