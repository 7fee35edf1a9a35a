// Package thumbnails brings the pictures of videos to the page. A request names a video, never an
// address: addresses come from the tables, and only those at the image hosts are followed. With a
// transport the daemon fetches each picture once and keeps it, so that browsers ask no other host, and
// pictures outlive their videos. Without one, browsers are sent to the image host.
//
// An answer of an image host is as untrusted as the titles: it is a small JPEG, PNG or WebP, or it is
// refused.
package thumbnails

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/singleflight"
	"golang.org/x/time/rate"
)

// Limits of fetching. They protect the image hosts as much as the daemon.
const (
	maxBytes  = 512 << 10
	maxSide   = 4096 // pixels
	maxFetch  = 5 * time.Second
	atOnce    = 6
	perSecond = 20
	maxWait   = 10 * time.Second // for the pace, and then for a turn; less than the daemon's limit for an answer

	maxFailures = 5 // in a row, before a pause
	pause       = 10 * time.Minute
)

// widths are the values of the parameter s.
var widths = []string{"320", "480"}

// An Image is a picture of a video, as the service describes it.
type Image struct {
	URL   string
	Width int64
}

// A Picture is the content of an image file.
type Picture struct {
	Type string // such as "image/jpeg", by its content
	Data []byte
}

// Options configure [New].
type Options struct {
	// Find returns the pictures of a video at a time, as the tables have them; those of today for the zero time.
	Find func(ctx context.Context, id string, at time.Time) ([]Image, error)

	Hosts     []string          // the hosts that addresses may have
	Transport http.RoundTripper // sends requests to them; nil: browsers are redirected there
	Data      string            // the data folder, which has the cache
	MaxCache  int64             // bytes
	Log       *slog.Logger
}

// Thumbnails serves pictures. It is safe for concurrent use, and does nothing between requests.
type Thumbnails struct {
	Options
	cache    cache
	fetching singleflight.Group // by name in the cache
	turns    chan struct{}      // of fetches
	pace     *rate.Limiter
	unkept   atomic.Bool // the last picture could not be kept

	mu       sync.Mutex
	failures int // in a row
	resume   time.Time
	trouble  error // the last failure
}

// New returns the thumbnails of a page.
func New(o Options) *Thumbnails {
	return &Thumbnails{Options: o, cache: cache{data: o.Data, max: o.MaxCache},
		turns: make(chan struct{}, atOnce), pace: rate.NewLimiter(perSecond, atOnce)}
}

// ImageSources returns the value of img-src in the page's Content-Security-Policy. It depends on the
// settings only, never on the data.
func (t *Thumbnails) ImageSources() string {
	switch {
	case t == nil:
		return "'none'"
	case t.Transport != nil:
		return "'self'"
	}
	return "'self' https://" + strings.Join(t.Hosts, " https://")
}

// ErrNone is returned for a video without a picture.
var ErrNone = errors.New("there is no picture")

// A BusyError is returned if a picture may be fetched later.
type BusyError struct {
	After time.Duration
	why   error
}

func (e *BusyError) Error() string { return e.why.Error() }

// Trouble returns why no pictures are fetched at the moment; nil if they are.
func (t *Thumbnails) Trouble() error {
	if t == nil {
		return nil
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if wait := time.Until(t.resume); wait > 0 {
		return &BusyError{wait, fmt.Errorf("no pictures are fetched after %d failures: %w", maxFailures, t.trouble)}
	}
	return nil
}

// ServeHTTP serves /thumbnails/{video}?s=320 or s=480: the smallest picture that is at least that wide. With at it
// serves the picture of that time, which is given in seconds.
func (t *Thumbnails) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	h, size := w.Header(), cmp.Or(r.URL.Query().Get("s"), widths[0])
	if !slices.Contains(widths, size) {
		http.Error(w, "s must be "+strings.Join(widths, " or "), http.StatusBadRequest)
		return
	}
	width, _ := strconv.ParseInt(size, 10, 64)
	var at time.Time
	if seconds, err := strconv.ParseInt(r.URL.Query().Get("at"), 10, 64); err == nil {
		at = time.Unix(seconds, 0)
	}
	picture, address, err := t.loadPicture(r.Context(), r.PathValue("video"), width, at)
	busy, isBusy := errors.AsType[*BusyError](err)
	switch {
	case r.Context().Err() != nil: // the client has disconnected
	case errors.Is(err, ErrNone):
		h.Set("Cache-Control", "private, max-age=3600")
		http.Error(w, err.Error(), http.StatusNotFound)
	case isBusy:
		h.Set("Retry-After", strconv.Itoa(int(math.Ceil(busy.After.Seconds()))))
		http.Error(w, err.Error(), http.StatusServiceUnavailable)
	case err != nil:
		http.Error(w, err.Error(), http.StatusBadGateway)
	case picture == nil:
		h.Set("Cache-Control", "private, max-age=86400")
		http.Redirect(w, r, address, http.StatusFound)
	default:
		h.Set("Content-Type", picture.Type)
		h.Set("Content-Length", strconv.Itoa(len(picture.Data)))
		h.Set("X-Content-Type-Options", "nosniff")
		h.Set("Content-Security-Policy", "default-src 'none'; sandbox")
		h.Set("Cross-Origin-Resource-Policy", "same-origin")
		h.Set("Cache-Control", "private, max-age=86400")
		_, _ = w.Write(picture.Data) // whether the client has read it is its own affair
	}
}

// Get returns the smallest picture of a video that is at least width pixels wide, or else its widest
// one: from the cache, or from its host. It needs a transport.
func (t *Thumbnails) Get(ctx context.Context, video string, width int64) (*Picture, error) {
	picture, _, err := t.loadPicture(ctx, video, width, time.Time{})
	return picture, err
}

// loadPicture returns the picture of a time, or now, or only its address if there is no transport.
func (t *Thumbnails) loadPicture(ctx context.Context, video string, width int64, at time.Time) (*Picture, string, error) {
	if len(video) > 64 { // no id is that long
		return nil, "", ErrNone
	}
	images, err := t.Find(ctx, video, at)
	if err != nil {
		return nil, "", err
	}
	address := chooseImage(images, width, t.Hosts)
	if address == "" || t.Transport == nil {
		return nil, address, map[bool]error{true: ErrNone}[address == ""]
	}
	name := nameOf(video, address)
	if picture, err := t.cache.readPicture(name); picture != nil || err != nil {
		return picture, address, err
	}
	fetched := t.fetching.DoChan(name, func() (any, error) { return t.fetchInTurn(address, name) })
	select {
	case done := <-fetched:
		picture, _ := done.Val.(*Picture)
		return picture, address, done.Err
	case <-ctx.Done():
		return nil, "", context.Cause(ctx)
	}
}

// chooseImage returns the address of the smallest picture that is wide enough, or else of the widest one.
// Addresses that are not at one of the hosts are ignored.
func chooseImage(images []Image, width int64, hosts []string) string {
	images = slices.DeleteFunc(slices.Clone(images), func(i Image) bool { return !isAllowed(i.URL, hosts) })
	if len(images) == 0 {
		return ""
	}
	slices.SortFunc(images, func(a, b Image) int { return cmp.Compare(a.Width, b.Width) })
	wide := slices.IndexFunc(images, func(i Image) bool { return i.Width >= width })
	if wide < 0 {
		wide = len(images) - 1
	}
	return images[wide].URL
}

func isAllowed(address string, hosts []string) bool {
	u, err := url.Parse(address)
	return err == nil && u.Scheme == "https" && u.User == nil && (u.Port() == "" || u.Port() == "443") &&
		slices.Contains(hosts, u.Hostname())
}

// fetchInTurn gets a picture from its host when it is its turn, and keeps it.
func (t *Thumbnails) fetchInTurn(address, name string) (*Picture, error) {
	turn := t.pace.Reserve()
	if turn.Delay() > maxWait {
		turn.Cancel()
		return nil, &BusyError{maxWait, errors.New("many pictures are waiting to be fetched")}
	}
	time.Sleep(turn.Delay())
	select {
	case t.turns <- struct{}{}:
		defer func() { <-t.turns }()
	case <-time.After(maxWait):
		return nil, &BusyError{maxWait, errors.New("the image host is slow")}
	}
	if err := t.Trouble(); err != nil {
		return nil, err
	}
	picture, err := t.requestPicture(address)
	t.recordResult(err)
	if err != nil && !errors.Is(err, ErrNone) {
		return nil, fmt.Errorf("fetch a picture: %w", reasonOf(err))
	}
	failed := t.cache.writePicture(name, picture) // it is shown nevertheless
	if was := t.unkept.Swap(failed != nil); failed != nil && !was {
		t.Log.Warn("pictures are not kept", "err", failed)
	}
	return picture, err
}

// requestPicture gets a picture from its host. A transport follows no redirects, and knows neither cookies nor
// the service's key.
func (t *Thumbnails) requestPicture(address string) (_ *Picture, err error) {
	ctx, cancel := context.WithTimeout(context.Background(), maxFetch)
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, address, nil)
	if err != nil {
		return nil, err
	}
	r.Header.Set("Accept", "image/jpeg, image/png, image/webp")
	r.Header.Set("User-Agent", "outlierd")
	answer, err := t.Transport.RoundTrip(r)
	if err != nil {
		return nil, cmp.Or(ctx.Err(), err)
	}
	defer func() { err = cmp.Or(err, answer.Body.Close()) }()
	switch answer.StatusCode {
	case http.StatusOK:
	case http.StatusNotFound, http.StatusGone: // the platform sends a picture with it
		return nil, ErrNone
	default:
		return nil, fmt.Errorf("%s answered %d", r.URL.Hostname(), answer.StatusCode)
	}
	if answer.ContentLength > maxBytes {
		return nil, fmt.Errorf("%s sent %d bytes, more than %d", r.URL.Hostname(), answer.ContentLength, maxBytes)
	}
	data, err := io.ReadAll(io.LimitReader(answer.Body, maxBytes+1))
	if err != nil {
		return nil, cmp.Or(ctx.Err(), err)
	}
	picture, err := checkPicture(data)
	if err != nil {
		return nil, fmt.Errorf("%s sent %w", r.URL.Hostname(), err)
	}
	return picture, nil
}

// recordResult counts failures, and begins a pause after several.
func (t *Thumbnails) recordResult(err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if err == nil || errors.Is(err, ErrNone) {
		t.failures = 0
		return
	}
	if t.failures++; t.failures < maxFailures {
		return
	}
	t.failures, t.resume, t.trouble = 0, time.Now().Add(pause), reasonOf(err)
	t.Log.Warn("pictures are not fetched for a while", "for", pause, "err", err)
}
