//go:build otlp

package trace

import (
	"cmp"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"sync"
	"time"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracehttp"
	"go.opentelemetry.io/otel/sdk/resource"
	sdk "go.opentelemetry.io/otel/sdk/trace"
	otrace "go.opentelemetry.io/otel/trace"
	"golang.org/x/time/rate"

	"outlierd/outlier"
	"outlierd/sync/ledger"
	"outlierd/sync/runs"
	"outlierd/sync/state"
)

const (
	mostWaiting = 256        // runs whose traces are queued; more are dropped
	batch       = 512        // spans that are sent at once
	logEvery    = time.Hour  // how often dropped traces are logged
	name        = "outlierd" // name of the service, unless OTEL_SERVICE_NAME is set
)

// A Tracer exports the traces of runs. A nil Tracer does nothing.
type Tracer struct {
	options Options
	store   *state.Store
	ended   chan ending
	closed  chan struct{}
	stop    context.CancelFunc
	stopped sync.WaitGroup
	dropped rate.Sometimes
}

// ending is the end of a run.
type ending struct {
	run        string
	superseded bool // it is not resumed, whatever its status
}

// New returns a tracer, or nil if the environment names no collector or disables tracing. The
// variables are those of the OpenTelemetry specification.
func New(o Options) *Tracer {
	if !o.isWanted() {
		return nil
	}
	return &Tracer{options: o, ended: make(chan ending, mostWaiting), closed: make(chan struct{}),
		dropped: rate.Sometimes{Interval: logEvery}}
}

// Start starts sending until [Tracer.Close].
func (t *Tracer) Start(store *state.Store) {
	if t == nil {
		return
	}
	ctx, cancel := context.WithCancel(context.Background())
	t.store, t.stop = store, cancel
	t.stopped.Go(func() { t.serveEndings(ctx) })
}

// RunEnded queues the trace of a run. It returns at once, and may be called in the transaction that
// records the end.
func (t *Tracer) RunEnded(r runs.Run, superseded bool) {
	if t == nil || r.Status.Open() && !superseded {
		return
	}
	select {
	case t.ended <- ending{r.ID, superseded}:
	default:
		t.logFailure(fmt.Errorf("%d traces wait already", mostWaiting))
	}
}

// closeTime is how long queued traces are still sent when the program ends.
const closeTime = 3 * time.Second

// Close sends queued traces for at most three seconds.
func (t *Tracer) Close() error {
	if t == nil || t.stop == nil {
		return nil
	}
	close(t.closed)
	late := time.AfterFunc(closeTime, t.stop)
	t.stopped.Wait()
	late.Stop()
	t.stop()
	return nil
}

func (t *Tracer) logFailure(err error) {
	t.dropped.Do(func() { t.options.Log.Warn("traces dropped", "err", t.options.Redact(err.Error())) })
}

// serveEndings sends traces one after another.
func (t *Tracer) serveEndings(ctx context.Context) {
	var s *sender
	for {
		e, more := t.nextEnding()
		if !more {
			break
		}
		var err error
		if s == nil {
			s, err = t.newSender(ctx)
		}
		if err == nil {
			err = t.sendRun(ctx, s, e)
		}
		if err != nil {
			t.logFailure(fmt.Errorf("trace of run %s: %w", e.run, err))
		}
	}
	if s != nil {
		_ = s.exporter.Shutdown(ctx) // it buffers nothing
	}
}

// nextEnding waits for the next run that has ended. It reports false once the tracer is closed.
func (t *Tracer) nextEnding() (e ending, more bool) {
	select {
	case e = <-t.ended:
		return e, true
	default:
	}
	select {
	case e = <-t.ended:
		return e, true
	case <-t.closed:
		return e, false
	}
}

// sender makes spans and sends them.
type sender struct {
	exporter sdk.SpanExporter
	tracer   otrace.Tracer
	ctx      context.Context
	spans    []sdk.ReadOnlySpan
	err      error // the first error of the trace
}

func (t *Tracer) newSender(ctx context.Context) (*sender, error) {
	otel.SetErrorHandler(otel.ErrorHandlerFunc(t.logFailure)) // for example for a partial success
	exporter, err := otlptracehttp.New(ctx, otlptracehttp.WithRetry(otlptracehttp.RetryConfig{Enabled: false}),
		otlptracehttp.WithProxy(refuseRedirects))
	if err != nil {
		return nil, err
	}
	about, err := resource.New(ctx,
		resource.WithAttributes(attribute.String("service.name", name),
			attribute.String("service.version", t.options.Version)),
		resource.WithTelemetrySDK(), resource.WithFromEnv())
	if err != nil {
		return nil, err
	}
	s := &sender{exporter: exporter, ctx: ctx}
	s.tracer = sdk.NewTracerProvider(sdk.WithSpanProcessor(s), sdk.WithIDGenerator(ids{}),
		sdk.WithResource(about)).Tracer(name)
	return s, nil
}

// refuseRedirects returns the proxy for a request according to the environment. It refuses requests that
// follow a redirect: those would send the headers of OTEL_EXPORTER_OTLP_HEADERS, such as a token, to any
// host, and the answer might be a login page. The exporter's HTTP client cannot be replaced without
// losing the certificates and timeouts of other variables.
func refuseRedirects(r *http.Request) (*url.URL, error) {
	if r.Response != nil {
		return nil, errors.New("the collector redirects; redirects are not followed, because they could leak its token")
	}
	return http.ProxyFromEnvironment(r)
}

// OnStart, OnEnd, Shutdown and ForceFlush implement [sdk.SpanProcessor]: spans are sent in batches,
// and none is dropped because many end at once.
func (s *sender) OnStart(context.Context, sdk.ReadWriteSpan) {}

func (s *sender) OnEnd(span sdk.ReadOnlySpan) {
	if s.spans = append(s.spans, span); len(s.spans) >= batch {
		_ = s.ForceFlush(s.ctx) // s.err has it
	}
}

func (s *sender) Shutdown(context.Context) error { return nil }

func (s *sender) ForceFlush(ctx context.Context) error {
	if len(s.spans) > 0 && s.err == nil {
		s.err = s.exporter.ExportSpans(ctx, s.spans)
	}
	s.spans = s.spans[:0]
	return s.err
}

// sendRun sends the spans of a run, from its records.
func (t *Tracer) sendRun(ctx context.Context, s *sender, e ending) error {
	run, err := t.store.Runs.Get(e.run)
	if err != nil || run == nil || run.Status.Open() && !e.superseded {
		return err
	}
	steps, err := t.store.Steps.OfRun(run.ID)
	if err != nil {
		return err
	}
	calls, err := t.store.Calls.OfRun(run.ID)
	if err != nil {
		return err
	}
	s.err = nil
	root, span := s.beginSpan(ctx, run.ID, "", "run", run.Started, otrace.SpanKindInternal, t.ofRun(run)...)
	var direct []ledger.Call // data calls
	of := map[int64][]ledger.Call{}
	for i := range steps {
		of[steps[i].ID] = nil
	}
	for _, c := range calls {
		if _, known := of[c.Step]; known {
			of[c.Step] = append(of[c.Step], c)
		} else {
			direct = append(direct, c)
		}
	}
	for i := range steps {
		t.sendStep(root, s, run, &steps[i], of[steps[i].ID])
	}
	t.sendCalls(root, s, run, direct)
	if run.Status == runs.Failed {
		span.SetStatus(codes.Error, t.options.Redact(run.Error))
	}
	span.End(otrace.WithTimestamp(cmp.Or(run.Ended, time.Now())))
	return s.ForceFlush(ctx)
}

// beginSpan starts a span whose id is derived from its run and subject.
func (s *sender) beginSpan(ctx context.Context, run, about, name string, at time.Time, kind otrace.SpanKind,
	attrs ...attribute.KeyValue) (context.Context, otrace.Span) {
	ctx = context.WithValue(ctx, identity{}, [2]string{run, about})
	return s.tracer.Start(ctx, name, otrace.WithTimestamp(at), otrace.WithSpanKind(kind),
		otrace.WithAttributes(attrs...))
}

func (t *Tracer) ofRun(r *runs.Run) []attribute.KeyValue {
	return []attribute.KeyValue{
		attribute.String("outlierd.run", r.ID), attribute.String("outlierd.job", r.Job),
		attribute.String("outlierd.trigger", r.Trigger), attribute.String("outlierd.status", string(r.Status)),
		attribute.Int64("outlierd.pages", r.Pages), attribute.Int64("outlierd.hits", r.Hits),
		attribute.Int64("outlierd.new_hits", r.NewHits),
		attribute.Int64("outlierd.requests", r.Requests), attribute.Int64("outlierd.credits", int64(r.Credits)),
		attribute.Float64("outlierd.waited_s", r.Waited.Seconds()),
	}
}

// sendStep sends the span of a search that has made calls, from the first to the last of them.
func (t *Tracer) sendStep(ctx context.Context, s *sender, run *runs.Run, step *runs.Step, calls []ledger.Call) {
	if len(calls) == 0 {
		return
	}
	last := calls[0].AnsweredAt
	for i := range calls {
		if calls[i].AnsweredAt.After(last) {
			last = calls[i].AnsweredAt
		}
	}
	ctx, span := s.beginSpan(ctx, run.ID, fmt.Sprint("step ", step.ID), string(step.Query.Op()), sentAt(&calls[0]),
		otrace.SpanKindInternal,
		attribute.String("outlierd.run", run.ID), attribute.String("outlierd.job", run.Job),
		attribute.String("outlierd.op", string(step.Query.Op())),
		attribute.StringSlice("outlierd.queries", step.Queries), attribute.StringSlice("outlierd.seeds", step.Seeds),
		attribute.Int("outlierd.pages", step.Pages), attribute.Int("outlierd.hits", step.Hits),
		attribute.String("outlierd.stop_reason", step.Stop))
	t.sendCalls(ctx, s, run, calls)
	span.End(otrace.WithTimestamp(last))
}

// sendCalls sends the spans of requests that were sent.
func (t *Tracer) sendCalls(ctx context.Context, s *sender, run *runs.Run, calls []ledger.Call) {
	for i := range calls {
		c := &calls[i]
		if c.SentAt.IsZero() {
			continue
		}
		attrs := []attribute.KeyValue{
			attribute.String("outlierd.run", run.ID), attribute.String("outlierd.job", c.Job),
			attribute.String("outlierd.op", string(c.Op)),
			attribute.Int("outlierd.attempt", c.Attempt), attribute.Int64("outlierd.credits", int64(c.Price)),
			attribute.String("outlierd.outcome", string(c.Outcome)),
			attribute.Float64("outlierd.waited_s", c.Waited.Seconds()),
		}
		if c.Entity != "" {
			attrs = append(attrs, attribute.String("outlierd.entity", c.Entity))
		}
		if c.Status > 0 {
			attrs = append(attrs, attribute.Int("http.response.status_code", c.Status))
		}
		_, span := s.beginSpan(ctx, run.ID, fmt.Sprint("call ", c.ID), string(c.Op), c.SentAt,
			otrace.SpanKindClient, attrs...)
		if c.Outcome != outlier.Charged && c.Status != 404 {
			span.SetStatus(codes.Error, t.options.Redact(c.Error))
		}
		span.End(otrace.WithTimestamp(cmp.Or(c.AnsweredAt, c.SentAt)))
	}
}

// sentAt returns when a call was sent or cancelled.
func sentAt(c *ledger.Call) time.Time { return cmp.Or(c.SentAt, c.AnsweredAt) }

// identity is the context key of what the ids of a span are derived from: its run and its subject.
type identity struct{}

// ids derives ids by hashing: a run's own id begins with its time, which a sampler would not
// distribute evenly.
type ids struct{}

// NewIDs implements [sdk.IDGenerator].
func (ids) NewIDs(ctx context.Context) (id otrace.TraceID, span otrace.SpanID) {
	of, _ := ctx.Value(identity{}).([2]string)
	sum := sha256.Sum256([]byte(of[0]))
	copy(id[:], sum[:])
	return id, ids{}.NewSpanID(ctx, id)
}

// NewSpanID implements [sdk.IDGenerator].
func (ids) NewSpanID(ctx context.Context, _ otrace.TraceID) (id otrace.SpanID) {
	of, _ := ctx.Value(identity{}).([2]string)
	sum := sha256.Sum256([]byte(of[0] + "\x00" + of[1]))
	copy(id[:], sum[:])
	return id
}
