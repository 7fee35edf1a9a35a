package thumbnails

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"image"
	_ "image/jpeg" // the formats of image.DecodeConfig
	_ "image/png"
)

// checkPicture returns the picture that data is. Its type follows from its content, so that whatever a host
// claims, a browser never takes it for anything else.
func checkPicture(data []byte) (*Picture, error) {
	if len(data) > maxBytes {
		return nil, fmt.Errorf("more than %d bytes", maxBytes)
	}
	var width, height int
	var kind string
	if webp := len(data) >= 30 && string(data[:4]) == "RIFF" && string(data[8:12]) == "WEBP"; webp {
		kind = "webp"
		width, height = webpSize(data)
	} else if config, format, err := image.DecodeConfig(bytes.NewReader(data)); err == nil {
		kind, width, height = format, config.Width, config.Height
	}
	switch {
	case kind == "" || width == 0 || height == 0:
		return nil, errors.New("something other than a JPEG, PNG or WebP")
	case width > maxSide || height > maxSide:
		return nil, fmt.Errorf("a picture of %d × %d pixels, larger than %d", width, height, maxSide)
	}
	return &Picture{Type: "image/" + kind, Data: data}, nil
}

// webpSize returns the size of a WebP of at least 30 bytes; 0 for other content (RFC 9649).
func webpSize(data []byte) (width, height int) {
	bits := binary.LittleEndian.Uint32
	switch string(data[12:16]) {
	case "VP8X":
		return int(bits(data[24:])&0xffffff) + 1, int(bits(data[26:])>>8) + 1
	case "VP8L":
		if data[20] == 0x2f {
			return int(bits(data[21:])&0x3fff) + 1, int(bits(data[21:])>>14&0x3fff) + 1
		}
	case "VP8 ":
		if bytes.Equal(data[23:26], []byte{0x9d, 0x01, 0x2a}) {
			return int(bits(data[26:]) & 0x3fff), int(bits(data[26:]) >> 16 & 0x3fff)
		}
	}
	return 0, 0
}
