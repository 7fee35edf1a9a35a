package command

import (
	"log/slog"
	"strings"
	"testing"
	"time"
)

func TestLogTimesUseConfiguredZone(t *testing.T) {
	t.Parallel()
	var out strings.Builder
	zone := time.FixedZone("CET", 3600)
	log := slog.New(slog.NewTextHandler(&out, &slog.HandlerOptions{ReplaceAttr: formatAttrs(zone)}))
	log.Info("sink disabled", "retry_at", time.Date(2026, time.November, 21, 9, 0, 0, 0, time.UTC), "due", time.Time{}, "entity", "")
	got := out.String()
	if !strings.Contains(got, "time=20") || strings.Contains(got, "Z ") ||
		!strings.HasSuffix(got, "retry_at=2026-11-21T10:00:00.000+01:00\n") {
		t.Errorf("got %s, want all times in %s, and no empty values", got, zone)
	}
}
