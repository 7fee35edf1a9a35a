package page

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"outlierd/sync/notify"
)

// serveFeed serves the result of a question as a feed. Readers that have it already cost no query: its tag changes
// with each publication, with the question, and with the hour, because SQL may ask for the time.
func (s *Site) serveFeed(w http.ResponseWriter, r *http.Request) {
	name, isFeed := strings.CutSuffix(r.PathValue("file"), ".atom")
	questions := s.from.Questions()
	asked := slices.IndexFunc(questions, func(q Question) bool { return q.Name == name })
	if asked < 0 || !isFeed {
		s.serveSentence(w, r, http.StatusNotFound, fmt.Sprintf("No question of the job file has a feed at %.80q.", r.URL.Path))
		return
	}
	published, err := s.from.PublishedAt()
	if err != nil {
		s.refuseFeed(w, r, err)
		return
	}
	since := published
	if hour := time.Now().Truncate(time.Hour); hour.After(since) {
		since = hour
	}
	q, header := questions[asked], w.Header()
	header.Set("ETag", fmt.Sprintf(`"%.8x"`, sha256.Sum256(fmt.Appendf(nil, "%d %q", since.UnixNano(), q))))
	header.Set("Last-Modified", since.UTC().Format(http.TimeFormat))
	header.Set("Cache-Control", "private, no-cache") // to be kept, and asked for
	if isUnchanged(r, header.Get("ETag"), since) {
		w.WriteHeader(http.StatusNotModified)
		return
	}
	var feed []byte
	err = askInTurn(r.Context(), s.asking, func(ctx context.Context) (err error) {
		feed, err = s.from.Feed(ctx, q, published)
		return err
	})
	if err != nil {
		s.refuseFeed(w, r, err)
		return
	}
	header.Set("Content-Type", "application/atom+xml; charset=utf-8")
	_, _ = w.Write(feed) // whether the client has read it is its own affair
}

// refuseFeed explains why there is no feed. A page with status 200 would be taken for one.
func (s *Site) refuseFeed(w http.ResponseWriter, r *http.Request, err error) {
	for _, name := range []string{"ETag", "Last-Modified", "Cache-Control"} {
		w.Header().Del(name)
	}
	if errors.Is(err, ErrNothingPublished) || errors.Is(err, notify.ErrNoFeed) {
		s.serveSentence(w, r, http.StatusNotFound, err.Error()+".")
		return
	}
	s.serveRefusal(w, r, "feed", err)
}

// isUnchanged reports whether the client has what has a tag and a time already. The time counts only without a tag.
func isUnchanged(r *http.Request, tag string, since time.Time) bool {
	if known := r.Header.Get("If-None-Match"); known != "" {
		return strings.Contains(known, tag)
	}
	at, err := http.ParseTime(r.Header.Get("If-Modified-Since"))
	return err == nil && !since.Truncate(time.Second).After(at)
}
