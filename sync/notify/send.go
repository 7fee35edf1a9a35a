package notify

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"net/url"
	"os/exec"
	"path"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/google/uuid"

	"outlierd/internal/excerpt"
	"outlierd/internal/subprocess"
	"outlierd/sync/job"
)

// Sender sends events. Its methods may be called by several goroutines.
type Sender struct {
	Transport http.RoundTripper // to webhooks and Healthchecks
	UserAgent string
	Redact    func(string) string                       // removes the service's key from a text
	Dir       string                                    // working directory of commands
	Env       func(name string) (value string, ok bool) // environment for commands: PATH and the like

	// Picture returns the picture of a video for the mails of reports; nil for none.
	Picture func(ctx context.Context, video string) (*Picture, error)

	// Attach returns the file that the mails of a report have, with all of its rows as they are now; nil for
	// none.
	Attach func(ctx context.Context, report string, due time.Time) (*File, error)

	enclosing sync.Mutex
}

// timeout is the time limit of one attempt, for all kinds of targets.
const timeout = 20 * time.Second

// RefusedError is the error of a target that answered a request with a refusal. It may accept other
// events.
type RefusedError struct {
	Host   string
	Status int    // of HTTP
	Answer string // beginning of the answer, on one line
	After  time.Duration
}

func (e *RefusedError) Error() string {
	text := fmt.Sprintf("%s answered %d %s", e.Host, e.Status, http.StatusText(e.Status))
	if e.Status/100 == 3 {
		return text + ": redirects are not followed, as the address is a secret; write the address that it leads to"
	}
	if e.Answer != "" {
		text += ": " + e.Answer
	}
	return text
}

// isBusy reports whether the answer is about the target as a whole, and not about this event.
func (e *RefusedError) isBusy() bool {
	switch e.Status {
	case http.StatusRequestTimeout, http.StatusTooEarly, http.StatusTooManyRequests:
		return true
	}
	return e.Status/100 == 3 || e.Status >= 500
}

// Send sends an event to a target, once, within 20 s; what a report encloses may take as long before. The error shows
// no secret of the target. It is a [*RefusedError] if the target may accept other events.
func (s *Sender) Send(ctx context.Context, t *job.Target, e Event) error {
	e = e.cleanForSending(s.Redact)
	var in *enclosure
	if t.Kind == job.TargetMail {
		in = s.encloseReport(ctx, e)
	}
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	var err error
	switch t.Kind {
	case job.TargetWebhook:
		err = s.sendWebhook(ctx, t, e)
	case job.TargetHealthchecks:
		err = s.pingHealthchecks(ctx, t, e)
	case job.TargetCommand:
		err = s.runCommand(ctx, t, e)
	case job.TargetMail:
		err = sendMail(ctx, &t.Mail, e, in)
	default:
		return fmt.Errorf("target %s is of the unknown kind %q", t.Name, t.Kind)
	}
	return withoutSecrets(err, t)
}

// withoutSecrets returns err, or an error without the target's secrets if its text has one. What the answer
// says about the next attempt stays.
func withoutSecrets(err error, t *job.Target) error {
	if err == nil {
		return nil
	}
	hide := func(text string) string {
		for _, secret := range t.Secrets() {
			text = strings.ReplaceAll(text, secret, "********")
		}
		return text
	}
	if refused, ok := errors.AsType[*RefusedError](err); ok {
		clean := *refused
		clean.Answer = excerpt.Runes(hide(refused.Answer), 120)
		return &clean
	}
	if clean := hide(err.Error()); clean != err.Error() {
		return errors.New(clean)
	}
	return err
}

func (s *Sender) sendWebhook(ctx context.Context, t *job.Target, e Event) error {
	m, err := writeBody(t, e)
	if err != nil {
		return err
	}
	for name, value := range t.Headers {
		m.headers[name] = value.Reveal()
	}
	m.headers["Idempotency-Key"] = e.ID
	return s.post(ctx, t.Host, t.URL.Reveal(), m)
}

// post sends a message to an address of a host, and judges the answer.
func (s *Sender) post(ctx context.Context, host, address string, m message) error {
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, address, bytes.NewReader(m.body))
	if err != nil {
		return errors.New("the address cannot be used") // the error of net/http would quote it
	}
	r.Header.Set("Content-Type", m.contentType)
	for name, value := range m.headers {
		r.Header.Set(name, value)
	}
	r.Header.Set("User-Agent", s.UserAgent)
	client := http.Client{
		Transport:     s.Transport,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	answer, err := client.Do(r)
	if err != nil {
		if wrapped, ok := errors.AsType[*url.Error](err); ok {
			err = wrapped.Err // the rest of the message is the address, which is a secret
		}
		if errors.Is(err, context.DeadlineExceeded) {
			err = fmt.Errorf("no answer within %d s", int(timeout.Seconds()))
		}
		return fmt.Errorf("%s: %w", host, err)
	}
	said, err := io.ReadAll(io.LimitReader(answer.Body, 4<<10))
	if err := errors.Join(err, answer.Body.Close()); err != nil && answer.StatusCode/100 != 2 {
		return fmt.Errorf("%s answered %d, and the answer was cut off: %w", host, answer.StatusCode, err)
	}
	if answer.StatusCode/100 == 2 {
		return nil
	}
	return &RefusedError{
		Host: host, Status: answer.StatusCode, Answer: oneLine(strings.ToValidUTF8(string(said), "")),
		After: retryAfter(answer.Header.Get("Retry-After")),
	}
}

// retryAfter reads a Retry-After header, which has seconds or a date.
func retryAfter(text string) (wait time.Duration) {
	if seconds, err := strconv.ParseUint(text, 10, 32); err == nil {
		wait = time.Duration(seconds) * time.Second
	} else if at, err := http.ParseTime(text); err == nil {
		wait = max(0, time.Until(at))
	}
	return min(wait, maxBackoff)
}

// maxBackoff is the maximum time between two attempts.
const maxBackoff = 6 * time.Hour

// headerText encodes a text as the value of a header; ASCII is unchanged.
func headerText(s string) string { return mime.BEncoding.Encode("utf-8", oneLine(s)) }

// pingSuffix returns how Healthchecks is notified of an event: the end of the address, and false for an
// event that it is not notified of.
func pingSuffix(k Kind) (suffix string, ok bool) {
	switch k {
	case Started:
		return "start", true
	case Published, Partial, Test:
		return "", true
	case Failed, BudgetPaused:
		return "fail", true
	}
	return "", false
}

func (s *Sender) pingHealthchecks(ctx context.Context, t *job.Target, e Event) error {
	suffix, ok := pingSuffix(e.Kind)
	if !ok {
		return nil
	}
	address, err := pingURL(t.URL.Reveal(), suffix, e)
	if err != nil {
		return err
	}
	return s.post(ctx, t.Host, address, plainMessage(strings.TrimSpace(e.Title+"\n"+e.Text)))
}

var notSlug = regexp.MustCompile(`[^a-z0-9-]+`)

// pingURL returns the address to ping. An address that ends in the id of a check is used as it is. Any
// other is a project's, and the job's name is added: the project creates a check for a new name.
func pingURL(text, suffix string, e Event) (string, error) {
	u, err := url.Parse(text)
	if err != nil {
		return "", errors.New("the address cannot be used")
	}
	query := u.Query()
	if uuid.Validate(path.Base(u.Path)) != nil {
		u = u.JoinPath(notSlug.ReplaceAllString(strings.ToLower(cmp.Or(e.Job, "outlierd")), "-"))
		query.Set("create", "1")
	}
	if suffix != "" {
		u = u.JoinPath(suffix)
	}
	if uuid.Validate(e.Run) == nil {
		query.Set("rid", e.Run)
	}
	u.RawQuery = query.Encode()
	return u.String(), nil
}

// Describe describes a target without its secrets: its kind and where it leads.
func Describe(t *job.Target) string {
	switch t.Kind {
	case job.TargetWebhook:
		return fmt.Sprintf("webhook at %s as %s", t.Host, t.As)
	case job.TargetHealthchecks:
		return "healthchecks at " + t.Host
	case job.TargetMail:
		return fmt.Sprintf("mail to %s by %s", strings.Join(t.Mail.To, ", "), t.Mail.Host)
	}
	return t.Kind + " " + strings.Join(t.Command[:min(len(t.Command), 1)], "")
}

// encodeEvent returns the JSON form of an event, with a line break at its end.
func encodeEvent(e Event) ([]byte, error) {
	text, err := json.Marshal(e)
	return append(text, '\n'), err
}

// passedOn are the environment variables that a command inherits. Others could hold secrets, such as
// the service's key.
var passedOn = []string{"PATH", "HOME", "LANG", "LC_ALL", "TZ", "USER", "TMPDIR"}

// runCommand starts a target's program without a shell. It passes the event on standard input, and its
// main fields in the environment.
func (s *Sender) runCommand(ctx context.Context, t *job.Target, e Event) error {
	input, err := encodeEvent(e)
	if err != nil {
		return err
	}
	return subprocess.Run(ctx, timeout, t.Command, func(c *exec.Cmd) {
		c.Dir, c.Stdin, c.Env = s.Dir, bytes.NewReader(input), []string{}
		for _, name := range passedOn {
			if value, ok := s.Env(name); ok {
				c.Env = append(c.Env, name+"="+value)
			}
		}
		c.Env = append(c.Env, "OUTLIERD_EVENT="+string(e.Kind), "OUTLIERD_EVENT_ID="+e.ID,
			"OUTLIERD_JOB="+e.Job, "OUTLIERD_TITLE="+e.Title)
	})
}
