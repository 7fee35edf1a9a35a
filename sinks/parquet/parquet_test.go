package parquet

import (
	"os"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/google/go-cmp/cmp"

	"outlierd/schema"
	"outlierd/sinks"
	"outlierd/sinks/sinktest"
	"outlierd/testenv"
)

var suite = sinktest.Sink{
	Open: func(t testing.TB, dir string) sinks.Sink { return openSink(t, dir) },
	Read: readTable,
}

func TestMain(m *testing.M) {
	testenv.Prepare()
	m.Run()
}

func options(dir string) Options {
	return Options{Dir: dir, Tables: sinktest.Tables(), Ops: sinktest.Ops()}
}

func openSink(t testing.TB, dir string) *Sink {
	t.Helper()
	s, err := Open(options(dir))
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// readTable reads what a glob for <table>/**/*.parquet finds.
func readTable(t testing.TB, dir string, table *schema.Table) []arrow.RecordBatch {
	t.Helper()
	root, err := os.OpenRoot(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer root.Close()
	s := &Sink{root: root}
	names, err := s.list(table, func(name string) bool { return len(name) > 8 && name[len(name)-8:] == ".parquet" })
	if err != nil {
		t.Fatal(err)
	}
	var rows []arrow.RecordBatch
	for _, name := range names {
		err := s.decode(t.Context(), table, name, nil, func(rec arrow.RecordBatch) error {
			rec.Retain()
			rows = append(rows, rec)
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	return rows
}

// TestBoundsAreOfColumnsThatCanExcludeRows: keys, numbers, times, and texts that repeat.
func TestBoundsAreOfColumnsThatCanExcludeRows(t *testing.T) {
	want := map[string]bool{
		"video_id": true, "channel_id": true, "_run_id": true, "view_count": true, "observed_at": true, "is_positive_outlier": true,
		"title": false, "extra": false,
	}
	properties := encoding(schema.Outliers, rowGroup)
	got := map[string]bool{}
	for _, f := range schema.Outliers.Stored().Fields() {
		if _, asked := want[f.Name]; asked {
			got[f.Name] = properties.StatisticsEnabledFor(f.Name)
		}
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestSinkContract(t *testing.T) { sinktest.Run(t, suite) }
