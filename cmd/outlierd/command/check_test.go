package command

import (
	"path/filepath"
	"testing"

	"outlierd/schema"
	"outlierd/sinks/compare"
	"outlierd/sync/job"
)

// TestCheckReadsOnePublication: the published file is replaced between its marks and its rows.
func TestCheckReadsOnePublication(t *testing.T) {
	t.Parallel()
	bubble(t, onceJobs, func(p *person) {
		p.must("run", "coffee")
		found := openFile(p.Context(), job.SinkDuckDB, p.place(job.SinkDuckDB), filepath.Join(p.dir, "kept"))
		p.must("run", "coffee", "--again")
		reader := compare.Open(p.dir)
		rows, err := reader.Rows(p.Context(), found.Source, schema.OutliersHistory)
		if err != nil || len(found.Problems) > 0 || rows.Last == 0 || rows.Last > found.Has.Answers {
			p.Errorf("answers %d, rows up to %d: %v %v", found.Has.Answers, rows.Last, found.Problems, err)
		}
		if err := reader.Close(); err != nil {
			p.Error(err)
		}
	})
}
