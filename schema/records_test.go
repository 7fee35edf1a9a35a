package schema

import (
	"slices"
	"strings"
	"testing"
	"time"
)

func TestRecordValuesFollowColumnOrder(t *testing.T) {
	at := time.Date(2025, 11, 20, 8, 0, 0, 123456000, time.UTC)
	rows := [][]any{
		{int64(1), "r1", "coffee", "manual", nil, at, nil, "ok", int64(2), int64(80), int64(7), map[string]int64{"outliers": 80, "channels": 3}, int64(5), int64(4), int64(0), int64(1), int64(0), 1.5, nil, "abc", nil},
		make([]any, len(OpsRuns.Columns)),
	}
	batch, err := NewRecord(OpsRuns.Schema(), rows)
	if err != nil {
		t.Fatal(err)
	}
	defer batch.Release()
	if batch.NumRows() != 2 || !batch.Schema().Equal(OpsRuns.Schema()) {
		t.Fatalf("got %d rows of %v", batch.NumRows(), batch.Schema())
	}
	for name, want := range map[string][]string{
		"id": {"1", "NULL"}, "job": {"coffee", "NULL"}, "due_at": {"NULL", "NULL"}, "started_at": {"2025-11-20T08:00:00.123456Z", "NULL"},
		"rows": {`[{"key":"channels","value":3},{"key":"outliers","value":80}]`, "NULL"}, "waited_s": {"1.5", "NULL"},
	} {
		if got := cells(t, batch, name); !slices.Equal(got, want) {
			t.Errorf("%s %v, want %v", name, got, want)
		}
	}
}

// The error of a record names the row, the column and the type of a value that does not fit.
func TestRecordErrorNamesValue(t *testing.T) {
	row := make([]any, len(OpsLimits.Columns))
	row[0], row[2] = int64(1), "ten"
	_, err := NewRecord(OpsLimits.Schema(), [][]any{row})
	if err == nil || !strings.Contains(err.Error(), "row 0, column max_requests: got string, want int64") {
		t.Errorf("error %v", err)
	}
	if _, err := NewRecord(OpsLimits.Schema(), [][]any{{int64(1)}}); err == nil {
		t.Error("a short row was taken")
	}
}
