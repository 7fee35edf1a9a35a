package thumbnails

import (
	"bytes"
	"errors"
	"fmt"
	"image"
	_ "image/jpeg" // the formats of image.DecodeConfig
	_ "image/png"
	"net/http"
)

// checkPicture returns the picture that data is. Its type follows from its content, so that whatever a host
// claims, a browser never takes it for anything else.
func checkPicture(data []byte) (*Picture, error) {
	if len(data) > maxBytes {
		return nil, fmt.Errorf("more than %d bytes", maxBytes)
	}
	kind := http.DetectContentType(data)
	config, _, err := image.DecodeConfig(bytes.NewReader(data))
	switch {
	case kind == "image/webp": // the standard library cannot measure it
	case err != nil:
		return nil, errors.New("something other than a JPEG, PNG or WebP")
	case config.Width > maxSide || config.Height > maxSide:
		return nil, fmt.Errorf("a picture of %d × %d pixels, larger than %d", config.Width, config.Height, maxSide)
	}
	return &Picture{Type: kind, Data: data}, nil
}
