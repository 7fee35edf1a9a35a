package simulator

import (
	"bytes"
	"fmt"
	"image"
	"io"
	"net/http"
	"testing"
)

func TestPicturesAreDrawnFromIDs(t *testing.T) {
	t.Parallel()
	get := func(id, size string) (int, []byte) {
		r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "https://"+PictureHost+"/vi/"+id+"/"+size+".jpg", nil)
		if err != nil {
			t.Fatal(err)
		}
		answer, err := Pictures{}.RoundTrip(r)
		if err != nil {
			t.Fatal(err)
		}
		data, err := io.ReadAll(answer.Body)
		if err != nil {
			t.Fatal(err)
		}
		return answer.StatusCode, data
	}
	const videos = 40
	seen, missing := map[string]bool{}, 0
	for i := range videos {
		id := fmt.Sprintf("video%06d", 7*i)
		status, data := get(id, "mqdefault")
		if i%10 == 0 {
			if again, same := get(id, "mqdefault"); status != again || !bytes.Equal(data, same) {
				t.Fatalf("%s is drawn differently the second time", id)
			}
		}
		config, kind, err := image.DecodeConfig(bytes.NewReader(data))
		if err != nil || kind != "jpeg" {
			t.Fatalf("%s is a %s: %v", id, kind, err)
		}
		if status == http.StatusNotFound {
			missing++
			continue
		}
		if config.Width != 320 || config.Height != 180 || len(data) > 20<<10 {
			t.Errorf("%s has %d × %d pixels and %d bytes", id, config.Width, config.Height, len(data))
		}
		seen[string(data)] = true
	}
	if missing == 0 || missing > 3 || len(seen) != videos-missing {
		t.Errorf("%d of %d videos have no picture, the others %d different ones", missing, videos, len(seen))
	}
	if status, _ := get("video000001", "largest"); status != http.StatusNotFound {
		t.Errorf("an unknown size is answered %d", status)
	}
}
