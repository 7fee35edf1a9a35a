package serve

import (
	"context"
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
	readTime    = 20 * time.Second // for a document
	sendTimeout = 30 * time.Second // for an answer to be received
)

// Documents provides what the interface answers with, and says what may be ordered. Several goroutines call its functions.
type Documents struct {
	Status, Budget func(context.Context) (any, error)
	Run            func(ctx context.Context, id string) (any, error)
	Outliers       func(ctx context.Context, filter url.Values) (any, error)

	// Approve returns why a client may not start a run of a job with these limits, or nil.
	Approve func(ctx context.Context, job string, maxCredits *outlier.Credits) error
}

// Provide sets the documents. Until then requests are answered with 503.
func (s *Server) Provide(d Documents) { s.answers.Store(&d) }

// API returns the handlers of the interface. The caller controls access.
func (s *Server) API() http.Handler { return s.api }

func (s *Server) apiRoutes() *http.ServeMux {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /api/v1/openapi.yaml", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/yaml")
		_, _ = w.Write(Description) // whether the client has read it is its own affair
	})
	mux.HandleFunc("GET /api/v1/status", s.serveDocument(func(d *Documents, r *http.Request) (any, error) { return d.Status(r.Context()) }))
	mux.HandleFunc("GET /api/v1/budget", s.serveDocument(func(d *Documents, r *http.Request) (any, error) { return d.Budget(r.Context()) }))
	mux.HandleFunc("GET /api/v1/outliers", s.serveDocument(func(d *Documents, r *http.Request) (any, error) {
		return d.Outliers(r.Context(), r.URL.Query())
	}))
	mux.HandleFunc("GET /api/v1/runs/{run}", s.serveRun)
	mux.HandleFunc("POST /api/v1/jobs/{job}/runs", s.startRun)
	mux.HandleFunc("/", s.refuseUnknown)
	return mux
}

// serveDocument returns the handler of a document.
func (s *Server) serveDocument(read func(*Documents, *http.Request) (any, error)) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		ctx, cancel := context.WithTimeout(r.Context(), readTime)
		defer cancel()
		d, err := s.documents()
		var document any
		if err == nil {
			document, err = read(d, r.WithContext(ctx))
		}
		if err != nil {
			WriteFailure(w, err)
			return
		}
		writeDocument(w, http.StatusOK, document)
	}
}

func (s *Server) documents() (*Documents, error) {
	d := s.answers.Load()
	if d == nil {
		return nil, Refuse(http.StatusServiceUnavailable, "%s is starting; repeat the request", s.about.Name())
	}
	return d, nil
}

// serveRun answers with the record of a run: at once, or when it has ended or the time in wait is over.
func (s *Server) serveRun(w http.ResponseWriter, r *http.Request) {
	if err := s.awaitRun(w, r); err != nil {
		WriteFailure(w, err)
		return
	}
	s.serveDocument(func(d *Documents, r *http.Request) (any, error) {
		return d.Run(r.Context(), r.PathValue("run"))
	})(w, r)
}

// awaitRun returns when a run has ended, when the time in wait is over, or when the daemon stops.
func (s *Server) awaitRun(w http.ResponseWriter, r *http.Request) error {
	wait := time.Duration(0)
	if text := r.URL.Query().Get("wait"); text != "" {
		var err error
		if wait, err = time.ParseDuration(text); err != nil || wait < 0 || wait > maxWait {
			return requestMistake("wait must be a duration from 0s to 60s, such as 30s; got %.40q", text)
		}
	}
	if err := extendDeadlines(w, wait); err != nil {
		return err
	}
	enough, ticker := time.NewTimer(wait), time.NewTicker(progressEvery)
	defer enough.Stop()
	defer ticker.Stop()
	for {
		row, err := readRun(s.engine, r.PathValue("run"))
		if err != nil || row.Status != runs.Running {
			return err
		}
		select {
		case <-ticker.C:
		case <-enough.C:
			return nil
		case <-s.stopping:
			return nil
		case <-r.Context().Done():
			return context.Cause(r.Context())
		}
	}
}

// extendDeadlines gives a request more time than the server does: to be worked on, and for its answer.
func extendDeadlines(w http.ResponseWriter, work time.Duration) error {
	control := http.NewResponseController(w)
	return errors.Join(control.SetReadDeadline(time.Time{}), control.SetWriteDeadline(time.Now().Add(work+sendTimeout)))
}

// startRun starts a run of a job, or joins the one in progress, and answers with its record. A request that is repeated
// with its key is answered with the same run.
func (s *Server) startRun(w http.ResponseWriter, r *http.Request) {
	run, status, err := s.orderKeyed(w, r)
	var document any
	if err == nil {
		document, err = s.answers.Load().Run(r.Context(), run)
	}
	if err != nil {
		WriteFailure(w, err)
		return
	}
	w.Header().Set("Location", "/api/v1/runs/"+run)
	writeDocument(w, status, document)
}

// orderKeyed returns the run of a request's key, which it starts or joins if the key is new, and the status of the answer.
func (s *Server) orderKeyed(w http.ResponseWriter, r *http.Request) (run string, status int, err error) {
	d, err := s.documents()
	if err != nil {
		return "", 0, err
	}
	o := Order{Asked: job.Asked{Job: r.PathValue("job")}, Trigger: engine.Manual}
	if err := s.readLimits(w, r, &o); err != nil {
		return "", 0, err
	}
	if err := extendDeadlines(w, 2*orderTime); err != nil { // a call in progress may take longer than the order may wait
		return "", 0, err
	}
	ctx, cancel := context.WithTimeoutCause(r.Context(), orderTime, Refuse(http.StatusServiceUnavailable,
		"%s is busy; repeat the request with the same Idempotency-Key", s.about.Name()))
	defer cancel()
	before, err := s.engine.Store.Runs.Keyed(o.key) // without waiting for a call in progress
	if err == nil && before != nil {
		err = &engine.RepeatedError{Run: before}
	}
	if err == nil {
		err = d.Approve(ctx, o.Job, o.MaxCredits)
	}
	var ordered *engine.OrderedRun
	if err == nil {
		ordered, err = s.orderRun(ctx, &o)
	}
	repeated, isRepeated := errors.AsType[*engine.RepeatedError](err)
	switch {
	case isRepeated:
		return repeated.Run.ID, http.StatusOK, nil
	case err != nil:
		return "", 0, err
	case ordered.Joined():
		return ordered.Run(), http.StatusOK, nil
	}
	return ordered.Run(), http.StatusCreated, nil
}

// readLimits reads the body and the key of a request for a run.
func (s *Server) readLimits(w http.ResponseWriter, r *http.Request, o *Order) error {
	var limits struct {
		MaxCredits *outlier.Credits `json:"max_credits,omitempty"`
	}
	if err := s.readBody(w, r, &limits); err != nil {
		return err
	}
	if o.MaxCredits = limits.MaxCredits; o.MaxCredits != nil {
		if err := job.CheckCredits(int64(*o.MaxCredits)); err != nil {
			return requestMistake("max_credits %w", err)
		}
	}
	text, err := json.Marshal(limits)
	o.key = runs.Key{Name: r.Header.Get("Idempotency-Key"), Request: o.Job + " " + string(text)}
	if o.key.Name == "" || len(o.key.Name) > maxKey {
		return requestMistake("the header Idempotency-Key must have 1 to %d characters: a name of your choice for this run, such as "+
			"its date. A request that is repeated with the same one starts no second run", maxKey)
	}
	return err
}
