package serve

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/http"
	"net/url"
	"syscall"
	"time"
)

// ErrNoDaemon is the error of [Dial] if no daemon serves the state folder.
var ErrNoDaemon = errors.New("no daemon listens")

// ErrOtherVersion is the error of [Client.Understands] for a daemon with another version of the interface.
var ErrOtherVersion = errors.New("another version")

// answerTimeout is the time limit for a daemon to describe itself, which it can do at any time.
const answerTimeout = 10 * time.Second

// maxAnswer is the maximum size of an answer, in bytes. The longest are the marks of many videos.
const maxAnswer = 16 << 20

// Client talks to the daemon that holds a state folder.
type Client struct {
	About
	http http.Client
}

// Dial connects to the daemon of a state folder. Its error is [ErrNoDaemon] if there is none.
func Dial(ctx context.Context, dir string) (*Client, error) {
	return dialSocket(ctx, dir, answerTimeout)
}

func dialSocket(ctx context.Context, dir string, timeout time.Duration) (*Client, error) {
	return Connect(ctx, dir, timeout, func(ctx context.Context, _, _ string) (conn net.Conn, err error) {
		err = reachSocket(dir, func(path string) (err error) {
			conn, err = new(net.Dialer).DialContext(ctx, "unix", path)
			return err
		})
		return conn, err
	})
}

// Connect returns the client of the daemon of a state folder to which dial connects, and which describes itself in
// time.
func Connect(ctx context.Context, dir string, timeout time.Duration, dial func(ctx context.Context, network, address string) (net.Conn, error)) (*Client, error) {
	c := &Client{}
	c.http.Transport = &http.Transport{
		DisableKeepAlives: true, // a closed connection means that no client waits for the answer
		DialContext:       dial,
	}
	within, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	err := c.exchange(within, http.MethodGet, "/v1", nil, &c.About)
	switch {
	case errors.Is(err, fs.ErrNotExist), errors.Is(err, syscall.ENOTDIR), errors.Is(err, syscall.ECONNREFUSED):
		return nil, fmt.Errorf("%w on %s", ErrNoDaemon, Socket(dir))
	case ctx.Err() == nil && errors.Is(err, context.DeadlineExceeded):
		return nil, fmt.Errorf("the process that listens on %s does not answer; stop it, and start it again",
			Socket(dir))
	case err != nil:
		return nil, fmt.Errorf("identify the daemon on %s: %w", Socket(dir), err)
	}
	return c, nil
}

// Understands returns an error if the daemon has another version of the interface than this program.
func (c *Client) Understands(program string) error {
	if c.Interface == Version {
		return nil
	}
	return fmt.Errorf("%w: %s is outlierd %s (interface %d), and this is outlierd %s (interface %d); "+
		"restart it with this version, or use that one",
		ErrOtherVersion, c.Name(), c.Program, c.Interface, program, Version)
}

// Send asks the daemon to make a change, and returns its result.
func Send[R any](ctx context.Context, c *Client, change Change[R]) (result R, err error) {
	return result, c.exchange(ctx, http.MethodPost, pathOf(change), change, &result)
}

// Cancel asks the daemon to end a run at its next safe point.
func (c *Client) Cancel(ctx context.Context, run string) error {
	return c.exchange(ctx, http.MethodPost, "/v1/runs/"+url.PathEscape(run)+"/cancel", Nothing{}, &Nothing{})
}

// Login requests a ticket.
func (c *Client) Login(ctx context.Context) (t Ticket, err error) {
	return t, c.exchange(ctx, http.MethodPost, "/v1/login", Nothing{}, &t)
}

// Order asks the daemon to start a run, or joins one that is in progress. It calls begun once the run is recorded in
// the state, and returns how the run ended. The end of ctx does not end the run.
func (c *Client) Order(ctx context.Context, o Order, begun func(Event)) (*Ended, error) {
	body, err := c.request(ctx, http.MethodPost, "/v1/runs", o)
	if err != nil {
		return nil, err
	}
	defer body.Close()
	var e Event
	for events := json.NewDecoder(body); ; begun(e) {
		if err := events.Decode(&e); err != nil {
			return nil, &LostError{c.Name(), err}
		}
		if e.Ended != nil {
			return e.Ended, nil
		}
	}
}

// LostError is the error of a connection that was lost while a run was followed.
type LostError struct {
	Daemon string
	Cause  error
}

func (e *LostError) Error() string {
	return fmt.Sprintf("lost the connection to %s: %v", e.Daemon, e.Cause)
}

func (e *LostError) Unwrap() error { return e.Cause }

// Err returns why the run failed; nil if it did not.
func (e *Ended) Err() error { return decodeFailure(e.Error) }

// exchange makes a request and decodes the document of its answer.
func (c *Client) exchange(ctx context.Context, method, path string, document, into any) error {
	body, err := c.request(ctx, method, path, document)
	if err != nil {
		return err
	}
	defer body.Close()
	return c.decodeAnswer(body, into)
}

// request makes a request and returns the body of its answer, or the error in it.
func (c *Client) request(ctx context.Context, method, path string, document any) (io.ReadCloser, error) {
	var text []byte
	if document != nil {
		var err error
		if text, err = json.Marshal(document); err != nil {
			return nil, err
		}
	}
	r, err := http.NewRequestWithContext(ctx, method, "http://outlierd"+path, bytes.NewReader(text))
	if err != nil {
		return nil, err
	}
	answer, err := c.http.Do(r)
	if err != nil {
		if outer, is := errors.AsType[*url.Error](err); is {
			err = outer.Err // without the internal address
		}
		if errors.Is(err, io.EOF) || errors.Is(err, syscall.ECONNRESET) {
			err = fmt.Errorf("the connection to the daemon ended before its answer (%w); "+
				"see 'outlierd status' before you repeat the command", err)
		}
		return nil, err
	}
	if answer.StatusCode == http.StatusOK {
		return answer.Body, nil
	}
	var failed struct {
		Error *Failure `json:"error"`
	}
	err = c.decodeAnswer(answer.Body, &failed)
	if err == nil && failed.Error == nil {
		err = c.foreignAnswer(errors.New(answer.Status))
	}
	if err == nil {
		err = decodeFailure(failed.Error)
	}
	return nil, errors.Join(err, answer.Body.Close())
}

func (c *Client) decodeAnswer(body io.Reader, into any) error {
	if err := json.NewDecoder(io.LimitReader(body, maxAnswer)).Decode(into); err != nil {
		return c.foreignAnswer(err)
	}
	return nil
}

// foreignAnswer returns the error for an answer that this version of the daemon never gives.
func (c *Client) foreignAnswer(err error) error {
	return fmt.Errorf("read the daemon's answer: %w; is it another version of outlierd?", err)
}
