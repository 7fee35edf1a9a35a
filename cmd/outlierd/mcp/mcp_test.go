package mcp

import (
	"bytes"
	"context"
	"errors"
	"io"
	"strings"
	"testing"
	"testing/synctest"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
)

// program is one whose purchases are those of buy.
func program(buy func(context.Context) error) Program {
	return Program{Version: "v1", Run: func(ctx context.Context, c Command) (*Done, error) {
		switch {
		case c.Args[0] == "budget":
			return &Done{Out: []byte(`{"caps": [{"scope": "job_day", "max": 50, "left": 50}]}`)}, nil
		case c.DryRun:
			return &Done{Out: []byte(`[{"credits": 2, "if_lost": 6}]`)}, nil
		}
		return &Done{}, buy(ctx)
	}}
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

// TestAssistantReadsWhyNothingWasBought: the error of the command is the answer.
func TestAssistantReadsWhyNothingWasBought(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		session := connect(t, program(func(context.Context) error { return errors.New("the disk is full: free some space") }))
		got, err := session.CallTool(t.Context(), &sdk.CallToolParams{Name: "search", Arguments: wanted})
		if err != nil || !got.IsError || !strings.Contains(got.Content[0].(*sdk.TextContent).Text, "free some space") {
			t.Errorf("got %+v, %v", got, err)
		}
	})
}

// TestMessageThatIsTooLargeEndsTheSession with an answer.
func TestMessageThatIsTooLargeEndsTheSession(t *testing.T) {
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
