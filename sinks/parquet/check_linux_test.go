package parquet

import (
	"os"
	"testing"

	"golang.org/x/sys/unix"

	"outlierd/sinks/sinktest"
)

// TestLookAtAnotherDisk: the files are read where they are, if they cannot be linked.
func TestLookAtAnotherDisk(t *testing.T) {
	dir, keep := folderIn(t, "/dev/shm"), folderIn(t, "/var/tmp")
	var here, there unix.Stat_t
	if unix.Stat(dir, &there) != nil || unix.Stat(keep, &here) != nil || here.Dev == there.Dev {
		t.Skip("/dev/shm and /var/tmp are on one disk")
	}
	s := openSink(t, dir)
	defer s.Close()
	writeUpTo(t, s, sinktest.Sample(3), 3)
	if err := publishRuns(t, s, 1); err != nil {
		t.Fatal(err)
	}
	f, err := Look(t.Context(), dir, keep, sinktest.Tables())
	if err != nil || f.Dir != dir || len(f.Files) == 0 {
		t.Errorf("%+v, error %v", f, err)
	}
}

func folderIn(t *testing.T, parent string) string {
	t.Helper()
	dir, err := os.MkdirTemp(parent, "outlierd-*")
	if err != nil {
		t.Skipf("there is no second disk: %v", err)
	}
	t.Cleanup(func() {
		if err := os.RemoveAll(dir); err != nil {
			t.Error(err)
		}
	})
	return dir
}
