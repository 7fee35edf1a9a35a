package thumbnails

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"image"
	"image/color"
	"image/gif"
	"image/jpeg"
	"image/png"
	"io"
	"log/slog"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// host is the image host of a test.
type host func(*http.Request) (*http.Response, error)

func (h host) RoundTrip(r *http.Request) (*http.Response, error) { return h(r) }

func answer(status int, body io.Reader, headers ...string) *http.Response {
	a := &http.Response{StatusCode: status, Header: http.Header{}, ContentLength: -1, Body: io.NopCloser(body)}
	for i := 0; i < len(headers); i += 2 {
		a.Header.Set(headers[i], headers[i+1])
	}
	return a
}

// photo is a small JPEG, different for each name.
func photo(name string) []byte {
	drawn := image.NewRGBA(image.Rect(0, 0, 16, 9))
	for i, c := range []byte(name) {
		drawn.Set(i%16, i/16, color.RGBA{c, 255 - c, 7, 255})
	}
	var b bytes.Buffer
	if err := jpeg.Encode(&b, drawn, nil); err != nil {
		panic(err)
	}
	return b.Bytes()
}

const address = "https://i.ytimg.com/vi/a/mqdefault.jpg"

// page is a page whose videos have the pictures that the test says.
type page struct {
	*testing.T
	*Thumbnails
}

// open returns a page where each video has a picture at the image host, with its id in the address.
func open(t *testing.T, h http.RoundTripper) *page {
	p := &page{T: t}
	p.Thumbnails = New(Options{
		Find: func(_ context.Context, id string, at time.Time) ([]Image, error) {
			if !at.IsZero() && at.Unix() < 1000 {
				return []Image{{"https://i.ytimg.com/vi/" + id + "/former.jpg", 0}}, nil
			}
			return []Image{{"https://i.ytimg.com/vi/" + id + "/mqdefault.jpg", 320}}, nil
		},
		Hosts: Hosts, Transport: h, Data: t.TempDir(), MaxCache: 1 << 20, Log: slog.New(slog.DiscardHandler),
	})
	return p
}

func (p *page) get(ctx context.Context, video string) *httptest.ResponseRecorder {
	r := httptest.NewRequestWithContext(ctx, http.MethodGet, "/thumbnails/"+video+"?s=320", nil)
	r.SetPathValue("video", video)
	r.Header.Set("Cookie", "session=secret")
	r.Header.Set("Authorization", "Bearer secret")
	r.Header.Set("Referer", "http://127.0.0.1:7411/videos/secret")
	w := httptest.NewRecorder()
	p.ServeHTTP(w, r)
	return w
}

func (p *page) want(status int, video string) *httptest.ResponseRecorder {
	p.Helper()
	w := p.get(p.Context(), video)
	if w.Code != status {
		p.Fatalf("%s: answered %d %s, want %d", video, w.Code, w.Body, status)
	}
	return w
}

// kept returns the names of files in the cache.
func (p *page) kept() (names []string) {
	entries, err := os.ReadDir(filepath.Join(p.Data, Folder))
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		p.Fatal(err)
	}
	for _, entry := range entries {
		names = append(names, entry.Name())
	}
	return names
}

func TestPictureIsFetchedOnceAndKept(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var sent http.Header
		asked := 0
		p := open(t, host(func(r *http.Request) (*http.Response, error) {
			asked++
			sent = r.Header.Clone()
			return answer(200, bytes.NewReader(photo(r.URL.Path)), "Content-Type", "text/html", "Set-Cookie", "a=b"), nil
		}))
		for range 3 {
			w := p.want(200, "a")
			for name, want := range map[string]string{
				"Content-Type": "image/jpeg", "X-Content-Type-Options": "nosniff", "Content-Security-Policy": "default-src 'none'; sandbox",
				"Cross-Origin-Resource-Policy": "same-origin", "Set-Cookie": "", "Cache-Control": "private, max-age=86400",
			} {
				if got := w.Header().Get(name); got != want {
					t.Errorf("%s: %q, want %q", name, got, want)
				}
			}
			if !bytes.Equal(w.Body.Bytes(), photo("/vi/a/mqdefault.jpg")) {
				t.Error("not the picture that the host sent")
			}
		}
		if asked != 1 {
			t.Errorf("the host was asked %d times", asked)
		}
		if names := slices.Sorted(maps.Keys(sent)); !slices.Equal(names, []string{"Accept", "User-Agent"}) {
			t.Errorf("the host was sent %v", names)
		}
		file, err := os.Stat(filepath.Join(p.Data, Folder, nameOf("a", address)))
		if err != nil || file.Mode() != 0o600 {
			t.Errorf("the picture's file has mode %v: %v", file.Mode(), err)
		}
		p.Transport = host(func(*http.Request) (*http.Response, error) { return nil, errors.New("no route to host") })
		p.want(200, "a")
		p.want(http.StatusBadGateway, "b")
	})
}

// The host is never asked for an address that is not its own, wherever in the data it stands.
func TestAddressesElsewhereAreNotFollowed(t *testing.T) {
	t.Parallel()
	for _, address := range []string{
		"http://i.ytimg.com/vi/a/mqdefault.jpg", "//i.ytimg.com/a.jpg", "/vi/a.jpg", "", "file:///etc/passwd", "ftp://i.ytimg.com/a.jpg",
		"https://i.ytimg.com:8443/a.jpg", "https://i.ytimg.com:80/a.jpg", "https://user@i.ytimg.com/a.jpg", "https://i.ytimg.com@evil.example/a.jpg",
		"https://evil.example/i.ytimg.com", "https://i.ytimg.com.evil.example/a.jpg", "https://evil-i.ytimg.com/a.jpg",
		"https://evil.example/#i.ytimg.com", "https://i.ytimg.com./a.jpg", "https://I.YTIMG.COM/a.jpg", "https://i.ytimg.com\\@evil.example/a.jpg",
		"https://169.254.169.254/latest/meta-data/", "https://127.0.0.1/a.jpg", "https://[::1]/a.jpg", "https://[::ffff:127.0.0.1]/a.jpg",
		"https://0x7f000001/a.jpg", "https://localhost/a.jpg", "https://metadata.google.internal/", "javascript:alert(1)", "data:image/svg+xml,<svg/>",
	} {
		p := open(t, host(func(r *http.Request) (*http.Response, error) {
			t.Errorf("%q: %s is asked", address, r.URL)
			return nil, errors.New("not reached")
		}))
		p.Find = func(context.Context, string, time.Time) ([]Image, error) { return []Image{{address, 320}}, nil }
		p.want(http.StatusNotFound, "a")
		p.Transport = nil // and browsers are not sent there
		if w := p.want(http.StatusNotFound, "a"); w.Header().Get("Location") != "" {
			t.Errorf("%q: browsers are sent to %s", address, w.Header().Get("Location"))
		}
	}
}

// endless is a body that is read up to a limit only.
type endless struct {
	start []byte
	read  *int
}

func (e endless) Read(p []byte) (int, error) {
	if *e.read > 300<<20 {
		return 0, io.EOF
	}
	n := len(p)
	if *e.read == 0 {
		n = copy(p, e.start)
	}
	*e.read += n
	return n, nil
}

// An answer that is not a small picture is refused, whatever type it states.
func TestInvalidPictureIsRefused(t *testing.T) {
	t.Parallel()
	encoded := func(encode func(io.Writer) error) []byte {
		var b bytes.Buffer
		if err := encode(&b); err != nil {
			t.Fatal(err)
		}
		return b.Bytes()
	}
	vast := image.NewGray(image.Rect(0, 0, 5000, 1))
	read := 0
	for name, sent := range map[string]*http.Response{
		"HTML as JPEG":  answer(200, strings.NewReader("<!DOCTYPE html><script>alert(1)</script>"), "Content-Type", "image/jpeg"),
		"SVG":           answer(200, strings.NewReader(`<?xml version="1.0"?><svg xmlns="http://www.w3.org/2000/svg" onload="alert(1)"/>`), "Content-Type", "image/svg+xml"),
		"SVG as PNG":    answer(200, strings.NewReader(`<svg onload="alert(1)"/>`), "Content-Type", "image/png"),
		"PDF":           answer(200, strings.NewReader("%PDF-1.7\n"+string(photo("a"))), "Content-Type", "image/jpeg"),
		"script first":  answer(200, io.MultiReader(strings.NewReader("<script>"), bytes.NewReader(photo("a"))), "Content-Type", "image/jpeg"),
		"GIF":           answer(200, bytes.NewReader(encoded(func(w io.Writer) error { return gif.Encode(w, vast, nil) })), "Content-Type", "image/jpeg"),
		"only a start":  answer(200, bytes.NewReader(photo("a")[:3])),
		"nothing":       answer(200, strings.NewReader("")),
		"WebP, empty":   answer(200, strings.NewReader("RIFF\x20\x00\x00\x00WEBPVP8L\x14\x00\x00\x00\x00"+strings.Repeat("\x00", 20))),
		"5000 pixels":   answer(200, bytes.NewReader(encoded(func(w io.Writer) error { return png.Encode(w, vast) }))),
		"300 MB, said":  {StatusCode: 200, ContentLength: 300 << 20, Body: io.NopCloser(endless{photo("a"), &read})},
		"300 MB, quiet": {StatusCode: 200, ContentLength: -1, Body: io.NopCloser(endless{photo("a"), &read})},
		"moved":         answer(302, bytes.NewReader(photo("a")), "Location", "http://169.254.169.254/latest/meta-data/"),
		"moved at home": answer(301, bytes.NewReader(photo("a")), "Location", address),
		"part":          answer(206, bytes.NewReader(photo("a"))),
		"forbidden":     answer(403, bytes.NewReader(photo("a"))),
		"limited":       answer(429, bytes.NewReader(photo("a"))),
		"broken":        answer(500, bytes.NewReader(photo("a"))),
	} {
		read = 0
		asked := 0
		p := open(t, host(func(r *http.Request) (*http.Response, error) {
			asked++
			return sent, nil
		}))
		w := p.want(http.StatusBadGateway, "a")
		if asked != 1 || len(p.kept()) > 0 || read > 2*maxBytes {
			t.Errorf("%s: asked %d times, %d bytes read, kept %v", name, asked, read, p.kept())
		}
		if kind := w.Header().Get("Content-Type"); !strings.HasPrefix(kind, "text/plain") {
			t.Errorf("%s: answered as %s", name, kind)
		}
	}
}

func TestPolyglotsAreServedAsPictures(t *testing.T) {
	t.Parallel()
	both := append(photo("a"), "<script>alert(1)</script><svg onload=alert(1)>"...)
	p := open(t, host(func(*http.Request) (*http.Response, error) {
		return answer(200, bytes.NewReader(both), "Content-Type", "text/html"), nil
	}))
	w := p.want(200, "a")
	if h := w.Header(); h.Get("Content-Type") != "image/jpeg" || h.Get("X-Content-Type-Options") != "nosniff" ||
		!strings.Contains(h.Get("Content-Security-Policy"), "sandbox") {
		t.Errorf("served with %v", h)
	}
}

func TestFormatsAreThoseOfContent(t *testing.T) {
	t.Parallel()
	var drawn bytes.Buffer
	if err := png.Encode(&drawn, image.NewGray(image.Rect(0, 0, 320, 180))); err != nil {
		t.Fatal(err)
	}
	webp := func(chunk, rest string) []byte {
		return []byte("RIFF\x40\x00\x00\x00WEBP" + chunk + "\x30\x00\x00\x00" + rest + strings.Repeat("\x00", 10))
	}
	for _, c := range []struct {
		data []byte
		kind string
	}{
		{photo("a"), "image/jpeg"},
		{drawn.Bytes(), "image/png"},
		{webp("VP8 ", "\x00\x00\x00\x9d\x01\x2a\x40\x01\xb4\x00"), "image/webp"},
		{webp("VP8L", "\x2f\x3f\xc1\x2c\x00"), "image/webp"},
		{webp("VP8X", "\x00\x00\x00\x00\x3f\x01\x00\xb3\x00\x00"), "image/webp"},
		{webp("VP8X", "\x00\x00\x00\x00\x00\x10\x00\xb3\x00\x00"), ""}, // 4097 pixels
		{webp("EXIF", "\x00\x00\x00\x00\x3f\x01\x00\xb3\x00\x00"), ""},
	} {
		picture, err := checkPicture(c.data)
		if (err == nil) != (c.kind != "") || err == nil && picture.Type != c.kind {
			t.Errorf("%.20q is %v: %v, want %q", c.data, picture, err, c.kind)
		}
	}
}

// A fetch ends after five seconds, whether the answer or its body is late.
func TestSlowHostTimesOut(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p := open(t, host(func(r *http.Request) (*http.Response, error) {
			<-r.Context().Done()
			return nil, r.Context().Err()
		}))
		began := time.Now()
		p.want(http.StatusBadGateway, "a")
		if took := time.Since(began); took != maxFetch {
			t.Errorf("left after %s", took)
		}
		body, writer := io.Pipe() // a body that never ends
		defer writer.Close()
		p.Transport = host(func(r *http.Request) (*http.Response, error) {
			context.AfterFunc(r.Context(), func() { body.CloseWithError(r.Context().Err()) })
			return answer(200, body), nil
		})
		began = time.Now()
		p.want(http.StatusBadGateway, "b")
		if took := time.Since(began); took != maxFetch {
			t.Errorf("left after %s", took)
		}
	})
}

// The platform answers 404 with a valid picture.
func TestMissingPictureIsCachedOneDay(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		asked := 0
		p := open(t, host(func(*http.Request) (*http.Response, error) {
			asked++
			return answer(404, bytes.NewReader(photo("gray")), "Content-Type", "image/jpeg"), nil
		}))
		for range 10 {
			p.want(http.StatusNotFound, "a")
		}
		time.Sleep(missingFor - time.Second)
		p.want(http.StatusNotFound, "a")
		if asked != 1 {
			t.Errorf("asked %d times within a day", asked)
		}
		time.Sleep(time.Second)
		p.want(http.StatusNotFound, "a")
		if asked != 2 {
			t.Errorf("asked %d times, want once more after a day", asked)
		}
	})
}

func TestFetchesKeepToTheLimits(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var mu sync.Mutex
		var running, most int
		var began []time.Time
		p := open(t, host(func(r *http.Request) (*http.Response, error) {
			mu.Lock()
			running++
			most = max(most, running)
			began = append(began, time.Now())
			mu.Unlock()
			time.Sleep(100 * time.Millisecond)
			mu.Lock()
			running--
			mu.Unlock()
			return answer(200, bytes.NewReader(photo(r.URL.Path))), nil
		}))
		codes := map[int]int{}
		var all sync.WaitGroup
		for i := range 250 {
			all.Go(func() {
				w := p.get(t.Context(), fmt.Sprint(i))
				mu.Lock()
				defer mu.Unlock()
				codes[w.Code]++
				if w.Code == http.StatusServiceUnavailable && w.Header().Get("Retry-After") != "10" {
					t.Errorf("Retry-After: %q", w.Header().Get("Retry-After"))
				}
			})
		}
		all.Wait()
		if most > atOnce || codes[200] != 206 || codes[503] != 250-206 { // those of ten seconds, and some at once
			t.Errorf("%d at once; answers by status: %v", most, codes)
		}
		for i := range began {
			if i >= perSecond+atOnce && began[i].Sub(began[i-perSecond-atOnce]) < time.Second {
				t.Fatalf("%d fetches began within %s", perSecond+atOnce, began[i].Sub(began[i-perSecond-atOnce]))
			}
		}
	})
}

func TestFetchingPausesAfterFiveFailures(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		asked, works := 0, false
		p := open(t, host(func(r *http.Request) (*http.Response, error) {
			if asked++; works {
				return answer(200, bytes.NewReader(photo(r.URL.Path))), nil
			}
			return nil, errors.New("no route to host")
		}))
		for i := range maxFailures {
			if err := p.Trouble(); err != nil {
				t.Fatalf("after %d failures: %v", i, err)
			}
			p.want(http.StatusBadGateway, fmt.Sprint(i))
		}
		if err := p.Trouble(); err == nil || !strings.Contains(err.Error(), "no route to host") {
			t.Errorf("after %d failures: %v", maxFailures, err)
		}
		w := p.want(http.StatusServiceUnavailable, "a")
		if asked != maxFailures || w.Header().Get("Retry-After") != "600" {
			t.Errorf("asked %d times, Retry-After %s", asked, w.Header().Get("Retry-After"))
		}
		time.Sleep(pause)
		works = true
		p.want(200, "a")
		if err := p.Trouble(); err != nil {
			t.Error(err)
		}
	})
}

func TestPictureIsKeptIfBrowserLeaves(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p := open(t, host(func(r *http.Request) (*http.Response, error) {
			time.Sleep(time.Second)
			return answer(200, bytes.NewReader(photo(r.URL.Path))), nil
		}))
		ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
		defer cancel()
		p.get(ctx, "a")
		time.Sleep(time.Second)
		synctest.Wait()
		if len(p.kept()) != 1 {
			t.Errorf("kept: %v", p.kept())
		}
	})
}

func TestSmallestWidePictureIsChosen(t *testing.T) {
	t.Parallel()
	at := func(name string) string { return "https://i.ytimg.com/" + name }
	images := []Image{{at("800"), 800}, {at("120"), 120}, {at("480"), 480}, {"https://evil.example/320", 320}, {at("0"), 0}}
	for width, want := range map[int64]string{100: "120", 120: "120", 320: "480", 480: "480", 481: "800", 2000: "800"} {
		if got := chooseImage(images, width, Hosts); got != at(want) {
			t.Errorf("%d: %s, want %s", width, got, at(want))
		}
	}
}

func TestFormerPicturesAreServed(t *testing.T) {
	t.Parallel()
	p := open(t, host(func(r *http.Request) (*http.Response, error) {
		return answer(200, bytes.NewReader(photo(r.URL.Path))), nil
	}))
	for at, want := range map[string]string{"999": "/vi/a/former.jpg", "1000": "/vi/a/mqdefault.jpg", "x": "/vi/a/mqdefault.jpg"} {
		r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/thumbnails/a?s=320&at="+at, nil)
		r.SetPathValue("video", "a")
		w := httptest.NewRecorder()
		if p.ServeHTTP(w, r); w.Code != 200 || !bytes.Equal(w.Body.Bytes(), photo(want)) {
			t.Errorf("at %s: %d, want %s", at, w.Code, want)
		}
	}
}

func TestDirectSendsBrowsersToTheHost(t *testing.T) {
	t.Parallel()
	p := open(t, nil)
	if w := p.want(http.StatusFound, "a"); w.Header().Get("Location") != address || len(p.kept()) > 0 {
		t.Errorf("sent to %s, kept %v", w.Header().Get("Location"), p.kept())
	}
	for want, t2 := range map[string]*Thumbnails{
		"'none'": nil, "'self'": open(t, host(nil)).Thumbnails, "'self' https://i.ytimg.com https://i9.ytimg.com https://yt3.ggpht.com": p.Thumbnails,
	} {
		if got := t2.ImageSources(); got != want {
			t.Errorf("img-src %s, want %s", got, want)
		}
	}
}

func TestOddRequestsAreRefused(t *testing.T) {
	t.Parallel()
	p := open(t, host(func(*http.Request) (*http.Response, error) {
		t.Error("the host is asked")
		return nil, errors.New("not reached")
	}))
	p.want(http.StatusNotFound, strings.Repeat("a", 5000))
	for _, size := range []string{"321", "-1", "https://evil.example", "320&s=9"} {
		r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/thumbnails/a", nil)
		r.URL.RawQuery = "s=" + strings.ReplaceAll(size, "&", "%26")
		w := httptest.NewRecorder()
		if p.ServeHTTP(w, r); w.Code != http.StatusBadRequest {
			t.Errorf("s=%s: %d", size, w.Code)
		}
	}
}
