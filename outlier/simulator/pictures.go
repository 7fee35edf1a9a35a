package simulator

import (
	"bytes"
	"fmt"
	"image"
	"image/color"
	"image/jpeg"
	"io"
	"math"
	"math/rand/v2"
	"net/http"
	"strings"

	"outlierd/outlier/simulator/library"
)

// Pictures is the image host of the simulated library, without a network. It draws the picture of a
// video from its id.
type Pictures struct{}

// PictureHost is the host in the addresses of pictures.
const PictureHost = library.PictureHost

// RoundTrip draws a picture. Few videos have none; for these the platform sends a picture of its own,
// with status 404.
func (Pictures) RoundTrip(r *http.Request) (*http.Response, error) {
	if err := r.Context().Err(); err != nil {
		return nil, err
	}
	id, size, _ := strings.Cut(strings.TrimPrefix(r.URL.Path, "/vi/"), "/")
	width, height := library.PictureSize(strings.TrimSuffix(size, ".jpg"))
	status, random := http.StatusOK, library.Random(0, library.ForPicture, library.HashText(id))
	if width == 0 || library.Chance(random, 0.02) {
		status, width, height = http.StatusNotFound, 120, 90
	}
	var body bytes.Buffer
	if err := jpeg.Encode(&body, drawScene(random, width, height), &jpeg.Options{Quality: 82}); err != nil {
		return nil, err
	}
	return &http.Response{
		Status: fmt.Sprint(status, " ", http.StatusText(status)), StatusCode: status, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		Header: http.Header{"Content-Type": {"image/jpeg"}}, ContentLength: int64(body.Len()), Body: io.NopCloser(&body), Request: r,
	}, nil
}

// A disc is a filled circle, in units of the picture's height.
type disc struct {
	x, y, radius float64
	color        color.RGBA
}

// drawScene draws discs over a ground that is darker at its lower edge: a scene that one recognizes again.
func drawScene(random *rand.Rand, width, height int) image.Image {
	hue, ratio := random.Float64(), float64(width)/float64(height)
	top, bottom := hsv(hue, 0.35+0.4*random.Float64(), 0.75+0.25*random.Float64()), hsv(hue+0.08, 0.7, 0.35)
	var discs []disc
	for range 3 + random.IntN(4) {
		discs = append(discs, disc{ratio * random.Float64(), 0.15 + 0.75*random.Float64(), 0.08 + 0.3*random.Float64(),
			hsv(hue+0.33+0.34*random.Float64(), 0.5+0.4*random.Float64(), 0.5+0.5*random.Float64())})
	}
	x, y := ratio*(0.25+0.5*random.Float64()), 0.45
	discs = append(discs, disc{x, 1.05, 0.42, hsv(hue+0.5, 0.65, 0.5)}, disc{x, y, 0.2, hsv(0.07, 0.4, 0.9)}) // a person
	slope, edge := 0.4*(random.Float64()-0.5), 0.7+0.15*random.Float64()
	drawn := image.NewRGBA(image.Rect(0, 0, width, height))
	for py := range height {
		for px := range width {
			x, y := float64(px)/float64(height), float64(py)/float64(height)
			c := mixColors(top, bottom, y)
			if y > edge+slope*(x/ratio-0.5) {
				c = mixColors(bottom, color.RGBA{A: 255}, 0.3)
			}
			for _, d := range discs {
				// The rim is as wide as a pixel, so that it is smooth.
				inside := (d.radius - math.Hypot(x-d.x, y-d.y)) * float64(height)
				c = mixColors(c, d.color, min(max(inside+0.5, 0), 1))
			}
			drawn.SetRGBA(px, py, c)
		}
	}
	return drawn
}

// mixColors is a with a share of b.
func mixColors(a, b color.RGBA, share float64) color.RGBA {
	mix := func(a, b uint8) uint8 { return uint8(float64(a) + share*(float64(b)-float64(a))) }
	return color.RGBA{mix(a.R, b.R), mix(a.G, b.G), mix(a.B, b.B), 255}
}

// hsv is the color with a hue, a saturation and a value, each from 0 to 1; the hue repeats.
func hsv(hue, saturation, value float64) color.RGBA {
	part := func(shift float64) uint8 {
		_, h := math.Modf(hue + shift)
		pure := min(max(math.Abs(6*h-3)-1, 0), 1) // 1 within a sixth of red
		return uint8(255 * value * (1 - saturation*(1-pure)))
	}
	return color.RGBA{part(0), part(2.0 / 3), part(1.0 / 3), 255}
}
