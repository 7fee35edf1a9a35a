package thumbnails

import (
	"bytes"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

func TestFullDiskStillShowsPictures(t *testing.T) {
	disk := t.TempDir()
	if err := unix.Mount("tmpfs", disk, "tmpfs", 0, "size=64k"); err != nil {
		t.Skipf("needs a file system of its own: %v", err)
	}
	defer func() { must(t, unix.Unmount(disk, 0)) }()
	p := open(t, host(func(r *http.Request) (*http.Response, error) {
		large := append(photo(r.URL.Path), strings.Repeat("x", 9<<10)...)
		return answer(200, bytes.NewReader(large)), nil
	}))
	p.cache.data, p.Data = disk, disk
	for i := range 30 {
		p.want(200, fmt.Sprint(i))
	}
	kept := p.kept()
	if len(kept) == 0 || len(kept) > 7 {
		t.Errorf("kept %d pictures of 9 KB in 64 KB", len(kept))
	}
	for _, name := range kept {
		if picture, err := p.cache.readPicture(name); err != nil || picture == nil || len(picture.Data) < 9<<10 {
			t.Errorf("%s is kept in part: %v", name, err)
		}
	}
}
