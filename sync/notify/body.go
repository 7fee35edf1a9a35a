package notify

import (
	"bytes"
	"encoding/json"
	"errors"
	"mime"
	"regexp"
	"strconv"
	"strings"
	"text/template"
	"time"
	"unicode/utf8"

	"outlierd/internal/excerpt"
	"outlierd/sync/job"
)

// message is the body of a request with its type and other headers.
type message struct {
	body        []byte
	contentType string
	headers     map[string]string
}

// Maximum lengths of texts in the formats, in characters.
const (
	maxSlack   = 30_000
	maxDiscord = 2000
	maxNtfy    = 1000 // an ntfy server cuts off at 4,096 bytes, and a character has up to four
	maxMore    = 20   // the line that says how many rows are left out
)

// writeBody returns the body of a webhook's request.
func writeBody(t *job.Target, e Event) (message, error) {
	switch t.As {
	case job.AsSlack:
		text, err := chatText(t, e, maxSlack, escapeSlack)
		return jsonMessage(map[string]any{
			"text": text, "unfurl_links": false, "unfurl_media": false, "link_names": false,
		}, err)
	case job.AsDiscord:
		text, err := chatText(t, e, maxDiscord, escapeDiscord)
		return jsonMessage(map[string]any{
			"content": text, "flags": 1 << 2, // no previews of links
			"allowed_mentions": map[string]any{"parse": []string{}},
		}, err)
	case job.AsNtfy:
		return ntfyMessage(t, e)
	}
	if t.Body == "" {
		return jsonMessage(e, nil)
	}
	body, err := fillTemplate(t.Body, e, keepText)
	m := plainMessage(body)
	m.contentType = "application/json"
	if declared, is := t.Headers["Content-Type"]; is {
		m.contentType = declared.Reveal()
	}
	if err == nil && isJSON(m.contentType) && !json.Valid(m.body) {
		err = errors.New("the body is not JSON: write values as {{json .Title}}, " +
			"or declare another type: headers: {Content-Type: text/plain}")
	}
	return m, err
}

func keepText(s string) string { return s }

// isJSON reports whether a type of content is JSON.
func isJSON(contentType string) bool {
	kind, _, err := mime.ParseMediaType(contentType)
	return err == nil && (kind == "application/json" || strings.HasSuffix(kind, "+json"))
}

func plainMessage(text string) message {
	return message{[]byte(text), "text/plain; charset=utf-8", map[string]string{}}
}

func jsonMessage(v any, err error) (message, error) {
	if err != nil {
		return message{}, err
	}
	body, err := json.Marshal(v)
	return message{body, "application/json", map[string]string{}}, err
}

// chatText returns the text of a chat message of at most most characters. Its untrusted parts are escaped by escape.
func chatText(t *job.Target, e Event, most int, escape func(string) string) (string, error) {
	if t.Body != "" {
		text, err := fillTemplate(t.Body, e, escape)
		return excerpt.Runes(text, most), err
	}
	title := escape(e.Title)
	text := title + "\n" + e.describeEvent(most-utf8.RuneCountInString(title)-maxMore, escape)
	return excerpt.Runes(strings.TrimSpace(text), most), nil
}

// mention matches what chats interpret as a mention: @everyone, @here, @name.
var mention = regexp.MustCompile(`@(\w)`)

// preventMentions prevents mentions by inserting a zero-width space.
func preventMentions(s string) string { return mention.ReplaceAllString(s, "@\u200b$1") }

// escapeSlack escapes as Slack's documentation says. Slack's mentions, such as <!channel>, and its
// links are in angle brackets.
func escapeSlack(s string) string {
	return preventMentions(strings.NewReplacer("&", "&amp;", "<", "&lt;", ">", "&gt;").Replace(s))
}

var discordMarkup = regexp.MustCompile("[\\\\*_~`|>\\[\\]()#<-]")

// escapeDiscord escapes all characters that Discord reads as Markdown. Mentions notify no one in any
// case, because allowed_mentions is empty.
func escapeDiscord(s string) string {
	return preventMentions(discordMarkup.ReplaceAllString(s, `\$0`))
}

// ntfyMessage returns a message for ntfy: its body is shown unchanged, and the rest is in headers.
func ntfyMessage(t *job.Target, e Event) (message, error) {
	text, err := e.describeEvent(maxNtfy-maxMore, keepText), error(nil)
	if t.Body != "" {
		text, err = fillTemplate(t.Body, e, keepText)
	}
	m := plainMessage(excerpt.Runes(text, maxNtfy))
	m.headers["Title"] = headerText(e.Title)
	if isUrgent(e.Kind) {
		m.headers["Priority"] = "high"
	}
	if len(e.Rows) == 1 && e.Rows[0].Link != "" {
		m.headers["Click"] = e.Rows[0].Link
	}
	return m, err
}

// isUrgent reports whether calls stop until a person acts.
func isUrgent(k Kind) bool { return k == Failed || k == KeyRefused || k == DiskLow || k == SinkBehind }

// fields are the fields of an event in a template. Untrusted texts are escaped for the format of
// the target.
type fields struct {
	eventFields
	Event Kind
	Time  string
}

type eventFields Event

// fillTemplate executes a template.
func fillTemplate(body string, e Event, escape func(string) string) (string, error) {
	parsed, err := parseBody(body)
	if err != nil {
		return "", err
	}
	f := fields{eventFields(e), e.Kind, e.Time.Format(time.RFC3339)}
	f.Title, f.Text, f.Rows = escape(e.Title), escape(e.Text), nil
	for _, r := range e.Rows {
		shown := Row{Title: escape(r.Title), Link: r.Link, Values: map[string]any{}}
		for name, value := range r.Values {
			shown.Values[name] = templateValue(value, escape)
		}
		f.Rows = append(f.Rows, shown)
	}
	var out bytes.Buffer
	if err := parsed.Execute(&out, f); err != nil {
		return "", err
	}
	return out.String(), nil
}

// templateValue returns a value of a row for templates, which can print, format and compare numbers.
func templateValue(value any, escape func(string) string) any {
	switch v := value.(type) {
	case string:
		return escape(v)
	case json.Number:
		if n, err := strconv.ParseInt(v.String(), 10, 64); err == nil {
			return n
		}
		if f, err := v.Float64(); err == nil && strings.ContainsAny(v.String(), ".eE") {
			return decimal(f)
		}
	}
	return value
}

// decimal is a number with a fraction, which prints without an exponent.
type decimal float64

func (d decimal) String() string { return strconv.FormatFloat(float64(d), 'f', -1, 64) }

func parseBody(body string) (*template.Template, error) {
	return template.New("body").Option("missingkey=zero").Funcs(template.FuncMap{"json": asJSON}).Parse(body)
}

// asJSON encodes a value as JSON, for templates.
func asJSON(v any) (string, error) {
	var out bytes.Buffer
	w := json.NewEncoder(&out)
	w.SetEscapeHTML(false)
	err := w.Encode(v)
	return strings.TrimSuffix(out.String(), "\n"), err
}

// CheckBody returns what is wrong with the template of a webhook's body. It executes the template for
// events as they are delivered: with and without rows, with titles that have all characters that could be
// markup, with large numbers, and with values that are missing.
func CheckBody(t *job.Target) error {
	if t.Body == "" {
		return nil
	}
	const title = "\"quoted\" \\ {{.Job}} {} \n <!channel> @everyone"
	quoted, err := asJSON(title)
	if err != nil {
		return err
	}
	alert := Event{ID: "1", Kind: Alert, Alert: "breakout", Title: title}
	for _, found := range []string{
		`{"video_id": "dQw4w9WgXcQ", "title": ` + quoted + `, "channel_title": ` + quoted + `,
			"view_count": 9007199254740993, "average_views_ratio": 28.888888888888889, "z_score": 5.5}`,
		`{"video_id": null, "title": null, "channel_title": null,
			"view_count": null, "average_views_ratio": null, "z_score": null}`,
	} {
		row, err := readRow(found, nil)
		if err != nil {
			return err
		}
		alert.Rows = append(alert.Rows, row.Row)
	}
	for _, e := range []Event{
		{
			ID: "0", Kind: Failed, Job: "coffee", Run: "r", Title: title, Text: title,
			Counts: map[string]int64{"credits": 2},
		},
		alert,
		{ID: "2", Kind: Test, Title: title},
	} {
		if _, err := writeBody(t, e); err != nil {
			return err
		}
	}
	return nil
}
