package trace

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"outlierd/internal/excerpt"
	"outlierd/sync/runs"
)

// A span has the form of OTLP in JSON.
type span struct {
	Trace      string      `json:"traceId"`
	ID         string      `json:"spanId"`
	Parent     string      `json:"parentSpanId,omitempty"`
	Name       string      `json:"name"`
	Kind       int         `json:"kind"`
	Start      string      `json:"startTimeUnixNano"`
	End        string      `json:"endTimeUnixNano"`
	Attributes []attribute `json:"attributes"`
	Status     *status     `json:"status,omitempty"` // nil without an error
}

// The kinds of spans.
const (
	kindInternal = 1
	kindClient   = 3 // a request to another service
)

type status struct {
	Code    int    `json:"code"`
	Message string `json:"message"`
}

func failedWith(message string) *status { return &status{2, message} }

type attribute struct {
	Key   string         `json:"key"`
	Value map[string]any `json:"value"`
}

// newSpan returns a span of a run with attributes, which are pairs of key and value. about says what it is about; ""
// for the run itself. Ids are hashes: a run's own id begins with its time, which a sampler would not distribute evenly.
func newSpan(run *runs.Run, about, name string, from, to time.Time, attributes ...any) span {
	s := span{Trace: idOf(run.ID, 16), ID: idOf(run.ID+"\x00"+about, 8), Name: name, Kind: kindInternal,
		Start: strconv.FormatInt(from.UnixNano(), 10), End: strconv.FormatInt(to.UnixNano(), 10)}
	s.add("outlierd.run", run.ID)
	s.add("outlierd.job", run.Job)
	for i := 0; i+1 < len(attributes); i += 2 {
		s.add(attributes[i].(string), attributes[i+1])
	}
	return s
}

func idOf(text string, size int) string {
	sum := sha256.Sum256([]byte(text))
	return hex.EncodeToString(sum[:size])
}

// add adds an attribute: a text, a list of texts, or a number.
func (s *span) add(key string, value any) {
	s.Attributes = append(s.Attributes, attribute{key, encodeValue(value)})
}

func encodeValue(value any) map[string]any {
	switch v := value.(type) {
	case int64:
		return map[string]any{"intValue": strconv.FormatInt(v, 10)}
	case float64:
		return map[string]any{"doubleValue": v}
	case []string:
		texts := []any{}
		for _, text := range v {
			texts = append(texts, encodeValue(text))
		}
		return map[string]any{"arrayValue": map[string]any{"values": texts}}
	}
	return map[string]any{"stringValue": value}
}

// A collector is an address that takes spans.
type collector struct {
	address string
	headers map[string]string
	about   []attribute // of the program
	client  http.Client
}

// newCollector returns the collector that the environment names, nil if it names none or disables tracing. The
// variables are those of the OpenTelemetry specification.
func newCollector(env func(string) (string, bool), version string) *collector {
	get := func(names ...string) (text string) {
		for _, name := range names {
			if text == "" {
				text, _ = env(name)
			}
		}
		return text
	}
	c := &collector{address: get("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT")}
	if base := get("OTEL_EXPORTER_OTLP_ENDPOINT"); c.address == "" && base != "" {
		c.address = strings.TrimRight(base, "/") + "/v1/traces"
	}
	if c.address == "" || strings.EqualFold(get("OTEL_SDK_DISABLED"), "true") || get("OTEL_TRACES_EXPORTER") == "none" {
		return nil
	}
	c.headers = readPairs(get("OTEL_EXPORTER_OTLP_TRACES_HEADERS", "OTEL_EXPORTER_OTLP_HEADERS"))
	about := readPairs(get("OTEL_RESOURCE_ATTRIBUTES"))
	about["service.name"] = cmp.Or(get("OTEL_SERVICE_NAME"), about["service.name"], "outlierd")
	about["service.version"] = cmp.Or(about["service.version"], version)
	for key, value := range about {
		c.about = append(c.about, attribute{key, encodeValue(value)})
	}
	c.client.Timeout = 10 * time.Second
	c.client.CheckRedirect = func(*http.Request, []*http.Request) error {
		return errors.New("the collector redirects; redirects are not followed, because they could leak its token")
	}
	return c
}

// readPairs reads "key=value,key=value", with values escaped as in addresses.
func readPairs(text string) map[string]string {
	pairs := map[string]string{}
	for pair := range strings.SplitSeq(text, ",") {
		key, value, found := strings.Cut(pair, "=")
		if plain, err := url.PathUnescape(strings.TrimSpace(value)); found && err == nil {
			pairs[strings.TrimSpace(key)] = plain
		}
	}
	return pairs
}

// send sends spans once.
func (c *collector) send(ctx context.Context, spans []span) error {
	body, err := json.Marshal(map[string]any{"resourceSpans": []any{map[string]any{
		"resource":   map[string]any{"attributes": c.about},
		"scopeSpans": []any{map[string]any{"scope": map[string]any{"name": "outlierd"}, "spans": spans}},
	}}})
	if err != nil {
		return err
	}
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, c.address, bytes.NewReader(body))
	if err != nil {
		return errors.New("the address of the collector cannot be used")
	}
	for name, value := range c.headers {
		r.Header.Set(name, value)
	}
	r.Header.Set("Content-Type", "application/json")
	answer, err := c.client.Do(r)
	if err != nil {
		return err
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(io.LimitReader(answer.Body, 64<<10))
	if answer.StatusCode/100 != 2 {
		return fmt.Errorf("the collector answered %s: %s", answer.Status, excerpt.Runes(strings.TrimSpace(string(text)), 120))
	}
	return err
}
