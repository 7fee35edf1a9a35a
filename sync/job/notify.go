package job

import (
	"encoding/base64"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/mail"
	"net/url"
	"slices"
	"strings"
	"unicode"

	"outlierd/internal/lazyregexp"
	"outlierd/outlier"
	"outlierd/sync/yamltree"
)

// The kinds of targets: the key under `notify.NAME` that says how notifications are sent.
const (
	TargetWebhook      = "webhook"
	TargetHealthchecks = "healthchecks"
	TargetCommand      = "command"
	TargetMail         = "mail"
)

// The values of `as`: formats of a webhook's body.
const (
	AsJSON    = "json"
	AsSlack   = "slack"
	AsDiscord = "discord"
	AsNtfy    = "ntfy"
)

// Secret is a text that must not be printed, such as a webhook's address or a password. In every format
// it prints as "[redacted]". The zero Secret is empty.
type Secret struct{ text *string } // a pointer, which fmt prints as an address at worst

// Reveal returns the text itself, for the code that sends it.
func (s Secret) Reveal() string {
	if s.text == nil {
		return ""
	}
	return *s.text
}

// Format implements [fmt.Formatter], so that no verb prints the text.
func (s Secret) Format(f fmt.State, _ rune) { io.WriteString(f, "[redacted]") } // fmt.State keeps no errors

// Target is one entry of `notify`: where notifications are sent, and which.
type Target struct {
	Name string
	Kind string // TargetWebhook and so on
	Off  bool   // its address is empty, for example because a variable is not set

	URL     Secret            // of a webhook or healthchecks
	Host    string            // of URL, without the port: the only part that may be shown
	As      string            // of a webhook: AsJSON and so on
	Headers map[string]Secret // of a webhook
	Body    string            // of a webhook: a text/template; "" for the format's own body
	Command []string          `key:"command"` // program and arguments
	Mail    Mail

	Events []string `key:"events"` // events to send; empty for the default

	BodyAt yamltree.Place // of Body
}

// Mail says how a target's mail is sent.
type Mail struct {
	Server   `key:"server"`
	User     string `key:"user"` // "" to send without a login
	Password Secret `key:"password"`
	TLS      string `key:"tls"` // MailStartTLS, MailTLS or MailPlain
	From     string `key:"from"`
	To       []string
}

// The values of mail.tls: how the connection to a mail server is encrypted.
const (
	MailStartTLS = "starttls" // required: without it, nothing is sent
	MailTLS      = "tls"
	MailPlain    = "none"
)

// Alert is one entry of `alerts`: SQL whose new rows are sent to targets.
type Alert struct {
	Name   string
	About  string   `key:"about"` // description for people; "" if there is none
	Key    []string `key:"key"`   // columns that identify a row
	SQL    string   `key:"sql"`
	Notify []string `key:"notify"` // names of targets

	At yamltree.Place // of SQL
}

func readTargets(c *Config, n *yamltree.Node) {
	for _, e := range n.Mappings() {
		readTarget(c, e.Key, e.Value)
	}
}

// readTarget reads one target. The schema has checked its keys and their types.
func readTarget(c *Config, name, n *yamltree.Node) {
	t := Target{Name: name.Text}
	readKeys(&t, schema().Definitions["receiver"], n)
	key, value := n.Choice(schema().Definitions["receiver"].Choices())
	if key == nil {
		return
	}
	switch t.Kind = key.Text; t.Kind {
	case TargetWebhook, TargetHealthchecks:
		targetURL(&t, value)
	case TargetMail:
		readMail(&t.Mail, value)
	}
	readWebhook(&t, n)
	for _, event := range n.Get("events").Members() {
		if t.Kind == TargetHealthchecks {
			event.Refuse("cannot be combined with healthchecks, which gets the start and the end of each run")
		}
	}
	c.Targets = append(c.Targets, t)
}

// targetURL reads an address, which is a secret: no message quotes it.
func targetURL(t *Target, n *yamltree.Node) {
	if !n.Has(yamltree.Text) {
		t.Off = true // invalid or empty
		return
	}
	if t.Off = n.Text == ""; t.Off {
		return
	}
	u, err := url.Parse(n.Text)
	if err != nil || u.Host == "" || u.Scheme != "https" && u.Scheme != "http" || u.User != nil {
		n.Refuse("must be an address such as https://HOST/PATH, without a user and a password")
		return
	}
	t.Host, t.URL = u.Hostname(), Secret{new(n.Text)}
	if u.Scheme == "http" && !outlier.IsLoopback(t.Host) {
		n.Warn("use https", "is sent without encryption: others on the network can read the address and all "+
			"that is sent")
	}
}

// readWebhook reads the keys that only a webhook has.
func readWebhook(t *Target, n *yamltree.Node) {
	if t.Kind != TargetWebhook {
		return
	}
	t.As = n.Get("as").TextOr(formatOf(t.Host))
	if body := n.Get("body"); body != nil {
		t.Body, t.BodyAt = body.TextOr(""), body.At()
	}
	t.Headers = map[string]Secret{}
	for _, e := range n.Get("headers").Pairs() {
		name, value := http.CanonicalHeaderKey(e.Key.Text), e.Value.TextOr("")
		switch {
		case !headerName().MatchString(name) || slices.Contains(ownHeaders, name):
			e.Key.Refuse("cannot be set: use the name of a header other than %s", strings.Join(ownHeaders, ", "))
		case strings.ContainsFunc(value, unicode.IsControl):
			e.Value.Refuse("has a line break or a control character")
		case name == "Content-Type" && (t.As != AsJSON || t.Body == ""):
			e.Key.Refuse("can only be set with as: json and a body, whose type it declares")
		default:
			t.Headers[name] = Secret{&value}
		}
	}
}

// minSecret is the shortest value of a header that is hidden in messages, in characters. A shorter one
// protects nothing, and would make numbers in messages unreadable.
const minSecret = 4

var headerName = lazyregexp.New(`^[A-Za-z0-9_-]+$`)

// ownHeaders are the headers that are set for every request.
var ownHeaders = []string{"Content-Length", "Host", "Idempotency-Key", "Transfer-Encoding"}

// formatOf returns the format that a host is known to accept.
func formatOf(host string) string {
	for domain, as := range map[string]string{
		"hooks.slack.com": AsSlack, "discord.com": AsDiscord, "discordapp.com": AsDiscord, "ntfy.sh": AsNtfy,
	} {
		if host == domain || strings.HasSuffix(host, "."+domain) {
			return as
		}
	}
	return AsJSON
}

func readMail(m *Mail, n *yamltree.Node) {
	if !n.Has(yamltree.Mapping) {
		return
	}
	readKeys(m, schema().Definitions["mail"], n)
	for _, to := range n.Get("to").Members() {
		if box := valueOf[string](to); !slices.Contains(m.To, box) {
			m.To = append(m.To, box)
		}
	}
	password := n.Get("password")
	switch {
	case m.User != "" && password == nil:
		n.Missing("password", `add password: "${SMTP_PASSWORD}"`)
	case m.User == "" && password != nil:
		n.Missing("user", "add user, or remove password")
	case m.User != "" && m.TLS == MailPlain && !outlier.IsLoopback(m.Host):
		n.Get("tls").RefuseWithHint("use starttls or tls", "a password is never sent without encryption")
	}
}

// Server is a mail server.
type Server struct {
	Host string
	Port int
}

// parseServer parses HOST or HOST:PORT.
func parseServer(text string) (Server, error) {
	host, number := text, "587"
	if h, p, err := net.SplitHostPort(text); err == nil {
		host, number = h, p
	}
	port, err := net.LookupPort("tcp", number)
	if err != nil || host == "" || strings.ContainsAny(host, "/@ ") {
		return Server{}, fmt.Errorf("must be HOST or HOST:PORT, got %q", text)
	}
	return Server{host, port}, nil
}

// parseMailbox parses the address of a mailbox.
func parseMailbox(text string) (string, error) {
	parsed, err := mail.ParseAddress(text)
	if err != nil || strings.ContainsFunc(text, func(r rune) bool { return r < ' ' }) {
		return "", fmt.Errorf("must be an address such as outlierd@example.org, got %q", text)
	}
	return parsed.String(), nil
}

func readAlerts(c *Config, root, n *yamltree.Node) {
	for _, e := range n.Mappings() {
		notified := root.Get("defaults").Get("notify")
		switch hasOwn := e.Value.Get("notify") != nil; {
		case !hasOwn && notified == nil:
			e.Key.RefuseWithHint("add notify: with a name under notify", "notifies no target")
		case !hasOwn:
			e.Value.Entries = append(e.Value.Entries, yamltree.Entry{Key: notified.Key, Value: notified})
		}
		a := Alert{Name: e.Key.Text}
		readKeys(&a, schema().Definitions["alert"], e.Value)
		if sql := e.Value.Get("sql"); sql != nil {
			a.At = sql.At()
			needsTables(c, sql)
		}
		for i, column := range a.Key {
			a.Key[i] = strings.ToLower(column)
		}
		c.Alerts = append(c.Alerts, a)
	}
}

// Secrets returns the texts of the target that no log and no error may show: its address and the long parts of it,
// its password, and the values of headers. The longest are first, because one may be part of another.
func (t *Target) Secrets() []string {
	all := []string{t.URL.Reveal()}
	if password := t.Mail.Password.Reveal(); password != "" { // as it is, and as AUTH PLAIN and AUTH LOGIN send it
		all = append(all, password, base64.StdEncoding.EncodeToString([]byte("\x00"+t.Mail.User+"\x00"+password)),
			base64.StdEncoding.EncodeToString([]byte(password)))
	}
	if u, err := url.Parse(t.URL.Reveal()); err == nil {
		for part := range strings.FieldsFuncSeq(u.RequestURI(), func(r rune) bool { return strings.ContainsRune("/?&=", r) }) {
			if len(part) >= 2*minSecret { // an answer may quote the path; "hook" says nothing
				decoded, _ := url.QueryUnescape(part)
				all = append(all, part, decoded)
			}
		}
	}
	for _, value := range t.Headers {
		_, credentials, _ := strings.Cut(value.Reveal(), " ") // an answer may quote them without "Bearer"
		for _, text := range []string{value.Reveal(), credentials} {
			if len(text) >= minSecret {
				all = append(all, text)
			}
		}
	}
	slices.SortFunc(all, func(a, b string) int { return len(b) - len(a) })
	return slices.DeleteFunc(all, func(text string) bool { return text == "" })
}
