package serve

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	"outlierd/outlier"
	"outlierd/sync/engine"
	"outlierd/sync/runs"
)

// Limits of the server. Only the daemon's user can reach it, so they guard against mistakes: a client that hangs, a
// program with another protocol.
const (
	maxBody        = 1 << 20 // bytes of a request
	maxHeader      = 16 << 10
	requestTimeout = 10 * time.Second
	closeTimeout   = 2 * time.Second // for answers in progress when the daemon stops
)

// lookEvery is how often a request that waits for the end of a run reads its record.
const lookEvery = 500 * time.Millisecond

// Server answers commands for an engine that keeps a schedule.
type Server struct {
	engine *engine.Engine
	about  About
	http   http.Server
	api    *http.ServeMux // see [Server.API]

	stopping chan struct{} // closed when the engine accepts no more orders

	timeout   time.Duration                                    // for a request to arrive, and for each write of an answer
	compare   atomic.Pointer[func() (refused, changed string)] // see [Server.Compare]
	documents atomic.Pointer[Documents]                        // see [Server.Provide]
	stop      sync.Once
}

// New returns a server for an engine that will keep a schedule. Earlier requests wait until it does.
func New(e *engine.Engine, program string) *Server { return newServer(e, program, requestTimeout) }

func newServer(e *engine.Engine, program string, timeout time.Duration) *Server {
	file, err := filepath.Abs(e.Config.Path)
	if err != nil { // the working folder is gone
		file = e.Config.Path
	}
	s := &Server{
		engine: e, timeout: timeout,
		about:    About{Interface: Version, Program: program, PID: os.Getpid(), Config: file, Started: time.Now().UTC()},
		stopping: make(chan struct{}),
	}
	s.api = api{s}.routes()
	s.http = http.Server{
		Handler: s.routes(), ReadHeaderTimeout: timeout, IdleTimeout: time.Minute, MaxHeaderBytes: maxHeader,
		ErrorLog: slog.NewLogLogger(slog.DiscardHandler, slog.LevelDebug), // a malformed request is not worth a log line
	}
	return s
}

// routes returns the handlers of the socket. Every route for commands that changes the state is a [Change], except
// runs.
func (s *Server) routes() *http.ServeMux {
	mux := http.NewServeMux()
	mux.Handle("/api/v1/", s.api)
	mux.HandleFunc("GET /v1", func(w http.ResponseWriter, _ *http.Request) { writeDocument(w, http.StatusOK, s.Describe()) })
	mux.HandleFunc("POST /v1/login", answerRequest(s, s.makeTicket))
	mux.HandleFunc("POST /v1/runs", s.serveOrder)
	mux.HandleFunc("POST /v1/runs/{run}/cancel", answerRequest(s, s.cancelRun))
	addChange[SetCursors](s, mux)
	addChange[ResetCursors](s, mux)
	addChange[Adjust](s, mux)
	addChange[Lift](s, mux)
	addChange[ClearQueue](s, mux)
	addChange[PauseJobs](s, mux)
	addChange[ResumeJobs](s, mux)
	addChange[PollScan](s, mux)
	addChange[AdoptScan](s, mux)
	addChange[ResolveScan](s, mux)
	addChange[EditMarks](s, mux)
	addChange[ImportVideos](s, mux)
	mux.HandleFunc("/", s.refuseUnknown)
	return mux
}

// Serve answers until Close is called.
func (s *Server) Serve(l net.Listener) error {
	if err := s.http.Serve(l); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}

// Compare sets the function that says how the job file on disk compares with the one in use: see [About.Refused] and
// [About.Changed]. Several goroutines call it.
func (s *Server) Compare(file func() (refused, changed string)) { s.compare.Store(&file) }

// Stop refuses new orders. Clients that follow a run still receive its end.
func (s *Server) Stop() { s.stop.Do(func() { close(s.stopping) }) }

// Close stops the server. Answers in progress have [closeTimeout] to finish.
func (s *Server) Close() error {
	s.Stop()
	ctx, cancel := context.WithTimeout(context.Background(), closeTimeout)
	defer cancel()
	if err := s.http.Shutdown(ctx); !errors.Is(err, context.DeadlineExceeded) {
		return err
	}
	return s.http.Close()
}

// Describe returns what the daemon says about itself now. It reads the job file on disk.
func (s *Server) Describe() About {
	about := s.about
	about.Stuck.Duration = s.Stuck()
	if d := s.documents.Load(); d != nil {
		about.Page = d.Page
	}
	if compare := s.compare.Load(); compare != nil {
		about.Refused, about.Changed = (*compare)()
	}
	return about
}

// stuckAfter is how long the schedule may make no progress. It is longer than a call, and than copying a
// large file for readers.
const stuckAfter = 10 * time.Minute

// Stuck returns how long the schedule has made no progress, since its last heartbeat or the start of the daemon; 0
// while that is not too long.
func (s *Server) Stuck() time.Duration {
	last := s.about.Started
	if beat := s.engine.Beat(); beat.After(last) {
		last = beat
	}
	still := time.Since(last)
	if still <= stuckAfter {
		return 0
	}
	return still.Round(time.Second)
}

// makeTicket makes a ticket for any client of the socket, which only the daemon's user can reach.
func (s *Server) makeTicket(*http.Request, Nothing) (Ticket, error) {
	d := s.documents.Load()
	if d == nil || d.Page == "" {
		return Ticket{}, requestMistake("%s serves no page", s.about.Name())
	}
	return Ticket{Path: d.Ticket()}, nil
}

func isClosed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

// refuseUnknown answers requests for paths of other versions and unknown paths.
func (s *Server) refuseUnknown(w http.ResponseWriter, r *http.Request) {
	WriteFailure(w, Refuse(http.StatusNotFound, "%s %s is not in version %d of the interface, which outlierd %s has",
		r.Method, r.URL.Path, Version, s.about.Program))
}

// writeDocument writes one JSON document. It ignores failed writes, which only the client can act on.
func writeDocument(w http.ResponseWriter, status int, v any) {
	if err, is := v.(error); is {
		v = map[string]*Failure{"error": failureOf(err)}
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	e := json.NewEncoder(w)
	e.SetEscapeHTML(false)
	_ = e.Encode(v)
}

// WriteFailure answers with an error, and an HTTP status for clients that read only that.
func WriteFailure(w http.ResponseWriter, err error) {
	status := http.StatusInternalServerError
	invalid, isInvalid := errors.AsType[*outlier.Error](err)
	_, isUsed := errors.AsType[*runs.KeyError](err)
	refused, isRefused := errors.AsType[*RefusedError](err)
	switch {
	case isRefused:
		status = refused.Status
	case isUsed:
		status = http.StatusUnprocessableEntity
	case errors.Is(err, runs.ErrNoIntent), isInvalid && invalid.Kind == outlier.Invalid:
		status = http.StatusBadRequest
	case errors.Is(err, ErrOtherJobs):
		status = http.StatusConflict
	case errors.Is(err, ErrStopped):
		status = http.StatusServiceUnavailable
	}
	writeDocument(w, status, err)
}

// readBody decodes a request's body, which must be one JSON document without unknown keys, or empty.
func (s *Server) readBody(w http.ResponseWriter, r *http.Request, into any) error {
	control := http.NewResponseController(w)
	if err := control.SetReadDeadline(time.Now().Add(s.timeout)); err != nil {
		return err
	}
	text, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxBody))
	if err == nil && len(text) > 0 { // else the document is empty
		d := json.NewDecoder(bytes.NewReader(text))
		d.DisallowUnknownFields()
		if err = d.Decode(into); err == nil && d.More() {
			err = errors.New("the request has more than one document")
		}
	}
	if _, isTooLarge := errors.AsType[*http.MaxBytesError](err); isTooLarge {
		return Refuse(http.StatusRequestEntityTooLarge, "read the request: %w; at most 1 MiB is read", err)
	}
	if errors.Is(err, os.ErrDeadlineExceeded) {
		return requestMistake("read the request: it did not arrive within %s", s.timeout)
	}
	if err != nil {
		return requestMistake("read the request: %w", err)
	}
	return control.SetReadDeadline(time.Time{}) // or the request would be cancelled at the deadline
}

// betweenCalls calls f between two calls of the engine, once the engine accepts orders.
func (s *Server) betweenCalls(ctx context.Context, f func(context.Context) error) error {
	return s.whenServing(ctx, func() error { return s.engine.Between(ctx, f) })
}

// whenServing calls f once the engine keeps the schedule.
func (s *Server) whenServing(ctx context.Context, f func() error) error {
	select {
	case <-s.engine.Keeping():
	case <-s.stopping:
		return ErrStopped
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	err := f()
	if err != nil && (isClosed(s.stopping) || errors.Is(err, engine.ErrNotServing)) {
		err = fmt.Errorf("%w: %w", ErrStopped, err)
	}
	return err
}

// addChange adds the route of a change.
func addChange[C Change[R], R any](s *Server, mux *http.ServeMux) {
	var none C
	mux.HandleFunc("POST "+pathOf(none), answerRequest(s, func(r *http.Request, c C) (result R, err error) {
		err = s.betweenCalls(r.Context(), func(ctx context.Context) (err error) {
			result, err = c.Do(ctx, s.engine)
			return err
		})
		return result, err
	}))
}

// answerRequest returns a handler that reads a document and answers with another one, or with an error.
func answerRequest[In, Out any](s *Server, answer func(*http.Request, In) (Out, error)) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		var in In
		var out Out
		err := s.readBody(w, r, &in)
		if err == nil {
			out, err = answer(r, in)
		}
		if err != nil {
			WriteFailure(w, err)
			return
		}
		writeDocument(w, http.StatusOK, out)
	}
}

// serveOrder starts a run, or joins it, and says when it has ended. The run continues if the client disconnects.
func (s *Server) serveOrder(w http.ResponseWriter, r *http.Request) {
	var o Order
	var ordered *engine.OrderedRun
	err := s.readBody(w, r, &o)
	if err == nil {
		ordered, err = s.orderRun(r.Context(), &o)
	}
	if err != nil {
		WriteFailure(w, err)
		return
	}
	s.followRun(w, r, ordered)
}

// orderRun starts a run, or joins it.
func (s *Server) orderRun(ctx context.Context, o *Order) (ordered *engine.OrderedRun, err error) {
	var asked engine.Order
	err = s.betweenCalls(ctx, func(context.Context) (err error) {
		asked, err = resolver{s.engine, &s.about}.resolveOrder(o)
		return err
	})
	if errors.Is(err, ErrOtherJobs) {
		err = fmt.Errorf("%w. %s", err, s.differenceRemedy())
	}
	if err != nil {
		return nil, err
	}
	err = s.whenServing(ctx, func() (err error) {
		ordered, err = s.engine.Order(ctx, asked)
		if _, gone := errors.AsType[*engine.JobGoneError](err); gone {
			err = fmt.Errorf("%w: %w", ErrOtherJobs, err)
		}
		return err
	})
	return ordered, err
}

// differenceRemedy says how the job files of a command and of the daemon become the same. It reads the file on disk,
// for which the engine must not wait.
func (s *Server) differenceRemedy() string {
	about := s.Describe()
	switch {
	case about.Changed == ReadSoon:
		return "The file on disk is read there within a minute, or at once on SIGHUP: repeat the command then"
	case about.Changed == ReadOnSignal:
		return "Reload the file there (SIGHUP, or a restart)"
	case about.Refused != "":
		return "The file on disk was refused there: " + about.Refused
	}
	return "That is the file on disk: use it here, too, with the same variables"
}

// followRun sends the events of a run, unless the client disconnects.
func (s *Server) followRun(w http.ResponseWriter, r *http.Request, o *engine.OrderedRun) {
	w.Header().Set("Content-Type", "application/x-ndjson")
	control := http.NewResponseController(w)
	send := func(e Event) error {
		e.Run = o.Run()
		return errors.Join(control.SetWriteDeadline(time.Now().Add(s.timeout)), json.NewEncoder(w).Encode(e), control.Flush())
	}
	if send(Event{Joined: o.Joined()}) != nil {
		return
	}
	select {
	case <-o.Done():
	case <-r.Context().Done():
		return
	}
	row, err := o.Result()
	if err != nil && isClosed(s.stopping) {
		err = fmt.Errorf("%w: %w", ErrStopped, err)
	}
	ended := &Ended{Error: failureOf(err)}
	if row != nil {
		ended.Status, ended.Why = row.Status, row.Error
	}
	_ = send(Event{Ended: ended})
}

// cancelRun ends a run at its next safe point.
func (s *Server) cancelRun(r *http.Request, _ Nothing) (Nothing, error) {
	return Nothing{}, s.whenServing(r.Context(), func() error {
		if _, err := readRun(s.engine, r.PathValue("run")); err != nil {
			return err
		}
		return s.engine.Cancel(r.Context(), r.PathValue("run"))
	})
}
