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
	"outlierd/sync/serve"
)

// serveFeed serves the result of a question as a feed. Readers that have it already cost no query: its tag changes
// with each publication, with the question, and with the hour, because SQL may ask for the time.
func (s *Site) serveFeed(w http.ResponseWriter, r *http.Request) error {
	name, isFeed := strings.CutSuffix(r.PathValue("file"), ".atom")
	questions := s.from.Questions()
	asked := slices.IndexFunc(questions, func(q Question) bool { return q.Name == name })
	if asked < 0 || !isFeed {
		return serve.Refuse(http.StatusNotFound, "No question of the job file has a feed at %.80q.", r.URL.Path)
	}
	published, err := s.from.PublishedAt()
	if err != nil {
		return explainFeed(err)
	}
	since := published
	if hour := time.Now().Truncate(time.Hour); hour.After(since) {
		since = hour
	}
	q := questions[asked]
	tag := fmt.Sprintf(`"%.8x"`, sha256.Sum256(fmt.Appendf(nil, "%d %q", since.UnixNano(), q)))
	unchanged := strings.Contains(r.Header.Get("If-None-Match"), tag)
	var feed []byte
	if !unchanged {
		err = askInTurn(r.Context(), s.asking, func(ctx context.Context) (err error) {
			feed, err = s.from.Feed(ctx, q, published)
			return err
		})
		if err != nil {
			return explainFeed(err)
		}
	}
	header := w.Header()
	header.Set("ETag", tag)
	header.Set("Cache-Control", "private, no-cache") // to be kept, and asked for
	if unchanged {
		w.WriteHeader(http.StatusNotModified)
		return nil
	}
	header.Set("Content-Type", "application/atom+xml; charset=utf-8")
	_, _ = w.Write(feed) // whether the client has read it is its own affair
	return nil
}

// explainFeed explains why there is no feed. A page with status 200 would be taken for one.
func explainFeed(err error) error {
	if errors.Is(err, ErrNothingPublished) || errors.Is(err, notify.ErrNoFeed) {
		return serve.Refuse(http.StatusNotFound, "%w.", err)
	}
	return err
}
