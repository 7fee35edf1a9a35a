package command

import (
	"context"
	"os"
	"path/filepath"
	"testing"
	"time"

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

// TestCheckIgnoresWarehouseBeingWritten: a run starts while the warehouse is copied, and a block is half written.
func TestCheckIgnoresWarehouseBeingWritten(t *testing.T) {
	t.Parallel()
	p := &person{T: t, dir: t.TempDir(), env: os.LookupEnv}
	p.write(onceJobs)
	p.must("run", "coffee")
	const own = "state/warehouse.duckdb"
	p.damage(own)
	contains(t, p.refused(exitFailed, "check"), "warehouse: different from the state")
	ctx, stop := context.WithCancel(p.Context())
	written := make(chan error)
	go func() {
		var err error
		for at := time.Now(); ctx.Err() == nil && err == nil; at = at.Add(time.Second) {
			err = os.Chtimes(filepath.Join(p.dir, "data", own), at, at)
		}
		written <- err
	}()
	stderr, code := "", -1
	for try := 0; try < 100 && code != exitDone; try++ { // it is written during each, if the machine is not busy
		_, stderr, code = p.do(p.Context(), "check")
	}
	stop()
	if err := <-written; code != exitDone || err != nil {
		t.Errorf("exit code %d, %v: %s", code, err, stderr)
	}
}
