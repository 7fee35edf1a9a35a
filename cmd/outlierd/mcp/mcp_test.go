package mcp

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"outlierd/cmd/outlierd/report"
	"outlierd/outlier"
	"outlierd/sync/facts"
	"outlierd/sync/forecast"
	"outlierd/sync/ledger"
)

// program is one whose purchases are those of buy.
func program(buy func(context.Context) error) Program {
	day := facts.CapBalance{Scope: ledger.ScopeJobDay, Max: new(outlier.Credits(50)), Left: new(outlier.Credits(50))}
	return Program{
		Version: "v1",
		Run: func(ctx context.Context, c Command) (*Done, error) {
			switch {
			case c.Args[0] == "budget":
				return &Done{Out: []byte("{}")}, nil
			case c.DryRun:
				return &Done{Prices: []report.Price{{Credits: 2, Lost: 6}}}, nil
			}
			return &Done{}, buy(ctx)
		},
		Budget: func(context.Context) (*forecast.Budget, error) {
			return &forecast.Budget{PerSession: 10, Caps: []facts.CapBalance{day}}, nil
		},
	}
}

// connect starts a server and a session of it.
func connect(t *testing.T, p Program) *sdk.ClientSession {
	t.Helper()
	s := newServer(t.Context(), p)
	ours, theirs := sdk.NewInMemoryTransports()
	if _, err := s.sdk.Connect(t.Context(), ours, nil); err != nil {
		t.Fatal(err)
	}
	session, err := sdk.NewClient(&sdk.Implementation{Name: "test", Version: "1"}, nil).Connect(t.Context(), theirs, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := session.Close(); err != nil {
			t.Error(err)
		}
	})
	return session
}

var wanted = map[string]any{"queries": []string{"tea"}, "allow_spend": true}

// TestUnfinishedPurchaseCountsWorstCase: the daemon may continue it.
func TestUnfinishedPurchaseCountsWorstCase(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		session := connect(t, program(func(ctx context.Context) error {
			<-ctx.Done()
			return ctx.Err()
		}))
		ctx, cancel := context.WithCancel(t.Context())
		go func() {
			synctest.Wait()
			cancel()
		}()
		if _, err := session.CallTool(ctx, &sdk.CallToolParams{Name: "search", Arguments: wanted}); !errors.Is(err, context.Canceled) {
			t.Fatalf("the cancelled call: %v", err)
		}
		if got := leftOf(t, session); got != 4 {
			t.Errorf("the session may spend %d credits more, want 4", got)
		}
	})
}

// TestUnstartedPurchaseIsFree, and its error is the answer.
func TestUnstartedPurchaseIsFree(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		session := connect(t, program(func(context.Context) error { return errors.New("the disk is full: free some space") }))
		got, err := session.CallTool(t.Context(), &sdk.CallToolParams{Name: "search", Arguments: wanted})
		if err != nil || !got.IsError || !strings.Contains(got.Content[0].(*sdk.TextContent).Text, "free some space") {
			t.Errorf("got %+v, %v", got, err)
		}
		if got := leftOf(t, session); got != 10 {
			t.Errorf("the session may spend %d credits, want 10", got)
		}
	})
}

// leftOf returns what the budget leaves a session.
func leftOf(t *testing.T, session *sdk.ClientSession) int {
	t.Helper()
	got, err := session.CallTool(t.Context(), &sdk.CallToolParams{Name: "budget"})
	if err != nil {
		t.Fatal(err)
	}
	var shown struct {
		Left struct{ Session int } `json:"budget_left"`
	}
	if err := json.Unmarshal([]byte(got.Content[0].(*sdk.TextContent).Text), &shown); err != nil {
		t.Fatal(err)
	}
	return shown.Left.Session
}

// TestOversizedMessageEndsSession with an answer.
func TestOversizedMessageEndsSession(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	endless := io.MultiReader(strings.NewReader(`{"jsonrpc":"2.0","id":1,"method":"`), io.LimitReader(letters{}, 100<<20))
	if err := Serve(t.Context(), program(nil), endless, &out); err == nil {
		t.Error("the session went on")
	}
	if !strings.Contains(out.String(), `"error":{"code":-32600,"message":"read a message of at most 1048576 bytes: `) {
		t.Errorf("answered %q", out.String())
	}
}

type letters struct{}

func (letters) Read(p []byte) (int, error) {
	for i := range p {
		p[i] = 'x'
	}
	return len(p), nil
}

// TestHTTPAsksForTheToken, limits requests, and serves sessions.
func TestHTTPAsksForTheToken(t *testing.T) {
	t.Parallel()
	port, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- ServeHTTP(ctx, program(nil), port, "the-token-of-tests") }()
	address := "http://" + port.Addr().String() + "/mcp"
	for _, c := range []struct {
		token, host, origin, version string
		body                         io.Reader
		want                         int
	}{
		{"", "", "", "", strings.NewReader("{}"), http.StatusUnauthorized},
		{"another-token", "", "", "", strings.NewReader("{}"), http.StatusUnauthorized},
		{"the-token-of-tests", "evil.test", "", "", strings.NewReader("{}"), http.StatusForbidden},
		{"the-token-of-tests", "", "http://evil.test", "", strings.NewReader("{}"), http.StatusForbidden},
		{"the-token-of-tests", "", "", "1999-01-01", strings.NewReader("{}"), http.StatusBadRequest},
		{"the-token-of-tests", "", "", "", io.LimitReader(letters{}, maxMessage+1), http.StatusRequestEntityTooLarge},
	} {
		r, err := http.NewRequestWithContext(ctx, http.MethodPost, address, c.body)
		if err != nil {
			t.Fatal(err)
		}
		r.Host = c.host
		r.Header = http.Header{"Authorization": {"Bearer " + c.token}, "Content-Type": {"application/json"}, "Accept": {"application/json, text/event-stream"}}
		if c.origin != "" {
			r.Header.Set("Origin", c.origin)
		}
		if c.version != "" {
			r.Header.Set("MCP-Protocol-Version", c.version)
		}
		got, err := http.DefaultClient.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		if got.Body.Close(); got.StatusCode != c.want {
			t.Errorf("%+v: status %d, want %d", c, got.StatusCode, c.want)
		}
	}
	session, err := sdk.NewClient(&sdk.Implementation{Name: "test", Version: "1"}, nil).Connect(ctx, &sdk.StreamableClientTransport{
		Endpoint: address, HTTPClient: &http.Client{Transport: bearer{}},
	}, nil)
	if err != nil {
		t.Fatal(err)
	}
	if got := leftOf(t, session); got != 10 {
		t.Errorf("the session may spend %d credits, want 10", got)
	}
	stop() // while the client waits for notifications
	if err := <-ended; err != nil {
		t.Errorf("the server ended with %v", err)
	}
}

// bearer sends the token.
type bearer struct{}

func (bearer) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	r.Header.Set("Authorization", "Bearer the-token-of-tests")
	return http.DefaultTransport.RoundTrip(r)
}
