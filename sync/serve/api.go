package serve

import (
	"cmp"
	"context"
	"crypto/sha256"
	"crypto/subtle"
	_ "embed"
	"encoding/json"
	"errors"
	"net/http"
	"net/url"
	"time"

	"outlierd/outlier"
	"outlierd/sync/engine"
	"outlierd/sync/job"
	"outlierd/sync/runs"
)

// # The interface for other programs
//
// The socket and daemon.listen serve the same handlers below /api/v1. Description has every route. A client knows
// neither the job file nor the state: it orders a run of a job as the daemon has it, and gets the documents that
// commands print with -o json.

// Description is the OpenAPI document of the interface.
//
//go:embed openapi.yaml
var Description []byte

// Limits of the interface.
const (
	maxKey      = 200              // characters of an idempotency key
	maxWait     = time.Minute      // for the end of a run; proxies often end a request after it
	orderTime   = time.Minute      // for an order, which may have to wait for a call in progress
	sendTimeout = 30 * time.Second // for an answer to be received
)

// Documents provides what the interface answers with, and says what may be ordered. Several goroutines call its
// functions.
type Documents struct {
	Status, Budget func(context.Context) (any, error)
	Run            func(ctx context.Context, id string) (any, error)
	Outliers       func(ctx context.Context, filter url.Values) (any, error)

	Page   string               // the address of the page of the daemon; "" for none
	Ticket func() (path string) // makes a [Ticket] of it

	// Approve returns why a client may not start a run of a job with these limits, or nil.
	Approve func(ctx context.Context, job string, maxCredits *outlier.Credits) error
}

// Provide sets the documents. Until then requests are answered with 503.
func (s *Server) Provide(d Documents) { s.documents.Store(&d) }

// API returns the handlers of the interface. The caller controls access.
func (s *Server) API() http.Handler { return s.api }

// api answers requests of other programs.
type api struct{ server *Server }

func (a api) routes() *http.ServeMux {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /api/v1/openapi.yaml", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/yaml")
		_, _ = w.Write(Description) // whether the client has read it is its own affair
	})
	mux.HandleFunc("POST /api/v1/jobs/{job}/runs", a.serveDocument(a.startRun))
	mux.HandleFunc("GET /api/v1/runs/{run}", a.serveDocument(a.awaitRun))
	mux.HandleFunc("GET /api/v1/status", a.serveDocument(func(d *Documents, _ http.ResponseWriter, r *http.Request) (any, error) {
		return d.Status(r.Context())
	}))
	mux.HandleFunc("GET /api/v1/budget", a.serveDocument(func(d *Documents, _ http.ResponseWriter, r *http.Request) (any, error) {
		return d.Budget(r.Context())
	}))
	mux.HandleFunc("GET /api/v1/outliers", a.serveDocument(func(d *Documents, _ http.ResponseWriter, r *http.Request) (any, error) {
		return d.Outliers(r.Context(), r.URL.Query())
	}))
	mux.HandleFunc("/", a.server.refuseUnknown)
	return mux
}

// serveDocument returns a handler that answers with a document. If that was created, its address is set.
func (a api) serveDocument(read func(*Documents, http.ResponseWriter, *http.Request) (any, error)) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		d, status := a.server.documents.Load(), http.StatusOK
		if d == nil {
			WriteFailure(w, Refuse(http.StatusServiceUnavailable, "%s is starting; repeat the request", a.server.about.Name()))
			return
		}
		document, err := read(d, w, r)
		if err != nil {
			WriteFailure(w, err)
			return
		}
		if w.Header().Get("Location") != "" {
			status = http.StatusCreated
		}
		writeDocument(w, status, document)
	}
}

// awaitRun returns the record of a run: at once, or when it has ended, the time in wait is over or the daemon stops.
func (a api) awaitRun(d *Documents, w http.ResponseWriter, r *http.Request) (any, error) {
	wait, err := time.ParseDuration(cmp.Or(r.URL.Query().Get("wait"), "0s"))
	if err != nil || wait < 0 || wait > maxWait {
		return nil, requestMistake("wait must be a duration from 0s to 60s, such as 30s; got %.40q", r.URL.Query().Get("wait"))
	}
	if err := extendDeadlines(w, wait); err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(r.Context(), wait)
	defer cancel()
	for ctx.Err() == nil && !isClosed(a.server.stopping) {
		row, err := readRun(a.server.engine, r.PathValue("run"))
		if err != nil {
			return nil, err
		}
		if row.Status != runs.Running {
			break
		}
		select {
		case <-time.After(lookEvery):
		case <-ctx.Done():
		case <-a.server.stopping:
		}
	}
	return d.Run(r.Context(), r.PathValue("run"))
}

// extendDeadlines gives a request more time than the server does: to be worked on, and for its answer.
func extendDeadlines(w http.ResponseWriter, work time.Duration) error {
	control := http.NewResponseController(w)
	return errors.Join(control.SetReadDeadline(time.Time{}), control.SetWriteDeadline(time.Now().Add(work+sendTimeout)))
}

// startRun starts a run of a job, or joins the one in progress, and returns its record. A request that is repeated with
// its key gets the same run.
func (a api) startRun(d *Documents, w http.ResponseWriter, r *http.Request) (any, error) {
	o, err := a.readOrder(w, r)
	if err == nil {
		err = extendDeadlines(w, 2*orderTime) // a call in progress may take longer than the order may wait
	}
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeoutCause(r.Context(), orderTime, Refuse(http.StatusServiceUnavailable,
		"%s is busy; repeat the request with the same Idempotency-Key", a.server.about.Name()))
	defer cancel()
	before, err := a.server.engine.Store.Runs.Keyed(o.key) // without waiting for a call in progress
	if err == nil && before != nil {
		return d.Run(ctx, before.ID)
	}
	if err == nil {
		err = d.Approve(ctx, o.Job, o.MaxCredits)
	}
	var ordered *engine.OrderedRun
	if err == nil {
		ordered, err = a.server.orderRun(ctx, o)
	}
	if repeated, is := errors.AsType[*engine.RepeatedError](err); is { // the same request was being served
		return d.Run(ctx, repeated.Run.ID)
	}
	if err != nil {
		return nil, err
	}
	if !ordered.Joined() {
		w.Header().Set("Location", "/api/v1/runs/"+ordered.Run())
	}
	return d.Run(ctx, ordered.Run())
}

// readOrder reads a request for a run.
func (a api) readOrder(w http.ResponseWriter, r *http.Request) (*Order, error) {
	var limits struct {
		MaxCredits *outlier.Credits `json:"max_credits,omitempty"`
	}
	if err := a.server.readBody(w, r, &limits); err != nil {
		return nil, err
	}
	if limits.MaxCredits != nil {
		if err := job.CheckCredits(int64(*limits.MaxCredits)); err != nil {
			return nil, requestMistake("max_credits %w", err)
		}
	}
	name, key := r.PathValue("job"), r.Header.Get("Idempotency-Key")
	if key == "" || len(key) > maxKey {
		return nil, requestMistake("the header Idempotency-Key must have 1 to %d characters: a name of your choice for this run, "+
			"such as its date. A request that is repeated with the same one starts no second run", maxKey)
	}
	body, err := json.Marshal(limits)
	return &Order{Asked: job.Asked{Job: name}, Trigger: engine.Manual, MaxCredits: limits.MaxCredits,
		key: runs.NewKey(key, name+" "+string(body))}, err
}

// IsToken compares in constant time. No text is an empty token.
func IsToken(token, text string) bool {
	want, got := sha256.Sum256([]byte(token)), sha256.Sum256([]byte(text)) // of equal length, whatever was sent
	return token != "" && subtle.ConstantTimeCompare(want[:], got[:]) == 1
}
