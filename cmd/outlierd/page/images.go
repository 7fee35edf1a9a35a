package page

import (
	"context"
	"slices"
	"sync"
	"time"

	"outlierd/cmd/outlierd/thumbnails"
	"outlierd/sinks/duckdb/query"
)

// maxLists is how many lists of videos are remembered.
const maxLists = 32

// lists has the videos of the latest lists. A browser asks for the picture of each, and they are found together.
type lists struct {
	mu     sync.Mutex
	latest []*[]string // ids
}

// begin returns what adds videos to a new list.
func (l *lists) begin() (add func(id string)) {
	l.mu.Lock()
	defer l.mu.Unlock()
	list := new([]string)
	l.latest = append(l.latest[max(0, len(l.latest)+1-maxLists):], list)
	return func(id string) {
		l.mu.Lock()
		defer l.mu.Unlock()
		*list = append(*list, id)
	}
}

// with returns the latest list that has a video, or this video alone.
func (l *lists) with(id string) []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, list := range slices.Backward(l.latest) {
		if slices.Contains(*list, id) {
			return slices.Clone(*list)
		}
	}
	return []string{id}
}

// Images returns the pictures of a video: the one that it had at a time before it was changed, or else those of today.
func (t *Tables) Images(ctx context.Context, id string, at time.Time) (images []thumbnails.Image, err error) {
	if !at.IsZero() {
		err = t.read(ctx, rows(t, query.FormerThumbnail(id, at), &images))
	}
	if err != nil || len(images) > 0 {
		return images, err
	}
	pictures := t.each(query.Thumbnails(t.lists.with(id)), func(row cells) {
		var of string
		var image thumbnails.Image
		if row.into(&of, &image.URL, &image.Width); of == id {
			images = append(images, image)
		}
	})
	pictures.Keep = true
	return images, t.read(ctx, pictures)
}
