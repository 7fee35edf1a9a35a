package machine

import "testing"

// TestUnmeasuredFileSystemIsNotFull: /proc says of all its numbers that they are 0, as some remote file systems do.
func TestUnmeasuredFileSystemIsNotFull(t *testing.T) {
	room, err := FreeSpace("/proc")
	files, wrong := FreeFiles("/proc")
	if err != nil || wrong != nil || room != Unknown || files != Unknown {
		t.Errorf("%d bytes and %d files are free, %v, %v", room, files, err, wrong)
	}
}
