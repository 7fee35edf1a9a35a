package runs

import (
	"fmt"
	"time"
)

// DuplicateRunError says that a due instant was performed before.
type DuplicateRunError struct {
	Job string
	Due time.Time
	Run string // the run that performed it
}

func (e *DuplicateRunError) Error() string {
	return fmt.Sprintf("job %s, due at %s, has been begun already as run %s", e.Job,
		e.Due.Format(time.RFC3339), e.Run)
}

// LiveScanError says that the same scan may be under way, or was made for the same
// due instant.
type LiveScanError struct{ Scan Scan }

func (e *LiveScanError) Error() string {
	text := fmt.Sprintf("job %s has this scan already (intent %d, %s", e.Scan.Job, e.Scan.Intent,
		e.Scan.State)
	if e.Scan.ScanID != "" {
		text += ", id " + e.Scan.ScanID
	}
	text += fmt.Sprintf(", intended at %s)", e.Scan.Intended.Format(time.RFC3339))
	if e.Scan.State == ScanUnknown {
		text += "; say what became of it with scan adopt or scan resolve"
	}
	return text
}
