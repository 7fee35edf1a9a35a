package parquet

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"

	"outlierd/schema"
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

// TestDaysInALowerLayerStay in small parts: overlayfs does not rename folders of a lower layer.
func TestDaysInALowerLayerStay(t *testing.T) {
	layers := t.TempDir()
	if err := unix.Mount("tmpfs", layers, "tmpfs", 0, "size=64m"); err != nil {
		t.Skipf("this user may not mount a file system: %v", err)
	}
	t.Cleanup(func() { unix.Unmount(layers, unix.MNT_DETACH) })
	dir := t.TempDir()
	for _, name := range []string{"lower", "upper", "work"} {
		if err := os.Mkdir(filepath.Join(layers, name), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	s, j := openSink(t, filepath.Join(layers, "lower")), sample()
	writeUpTo(t, s, j, int64(len(j)))
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	how := fmt.Sprintf("lowerdir=%[1]s/lower,upperdir=%[1]s/upper,workdir=%[1]s/work", layers)
	if err := unix.Mount("overlay", dir, "overlay", 0, how); err != nil {
		t.Skipf("no overlay file system can be mounted: %v", err)
	}
	t.Cleanup(func() { unix.Unmount(dir, unix.MNT_DETACH) })
	s = openSink(t, dir)
	publish(t, s)
	if parts := partsOf(t, dir, schema.OutliersHistory)["date=2026-03-01"]; len(parts) < 2 {
		t.Errorf("the first day has the parts %v", parts)
	}
	asListed(t, dir)
	if err := errors.Join(s.Close(), openSink(t, dir).Close()); err != nil {
		t.Error(err)
	}
}
