// Package notify decides which events the targets of the job file are notified of, and delivers them.
//
// # Sending
//
// [Sender.Send] sends one [Event] to one target of the job file: a webhook, a check of
// Healthchecks, a command or a mail server. Titles, channel names and error texts are untrusted.
// Control characters are removed from them, and each format escapes markup and mentions. A command
// reads them from its standard input. A template of a JSON body is refused if such a text could
// break the JSON. Addresses, headers and passwords are secrets: errors name only the host.
//
// # Once, and at least once
//
// A condition that lasts, such as a job that fails, is one event until it is over: the next event
// depends only on the last one and on the current state. The events of a run are written to the outbox in
// the transaction that records the run's status, so that a kill leaves both or neither. A [Deliverer] sends
// them from there, and no target delays another. An event is sent twice only if the process is killed after
// the target has accepted it and before that is recorded. Its id is then the same.
//
// # Alerts
//
// An alert is SQL whose new rows are events ([Questions]). Rows are identified by the columns of the
// alert's key. The rows of the first result are recorded and not sent.
package notify

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"outlierd/internal/excerpt"
)

// Kind is the kind of an event. Its text is a word of `events` in the job file, except for kinds that
// targets cannot choose.
type Kind string

// The kinds of events.
const (
	Published      Kind = "published"       // a run ended, and its data is published
	Partial        Kind = "partial"         // a run ended, and some of its items failed
	Failed         Kind = "failed"          // a run failed
	Recovered      Kind = "recovered"       // the condition of an earlier event is over
	BudgetLow      Kind = "budget_low"      // little of the cycle's credits is left
	BudgetPaused   Kind = "budget_paused"   // a cap or missing credits paused a run
	UnknownOutcome Kind = "unknown_outcome" // a paid call was sent, and it is unknown whether it was charged
	KeyRefused     Kind = "key_refused"     // the service refused the key
	DiskLow        Kind = "disk_low"        // the disk has too little room to buy anything
	SchemaDrift    Kind = "schema_drift"    // answers differ from the interface in a new way
	SinkBehind     Kind = "sink_behind"     // a sink has been disabled for some time
	BackupFailed   Kind = "backup_failed"   // the backups of the daemon fail
	FileRefused    Kind = "file_refused"    // an edit of the job file has a mistake, or needs a restart

	Started Kind = "started" // a run began; for Healthchecks alone
	Alert   Kind = "alert"   // an alert's SQL returned new rows; sent to the alert's own targets
	Report  Kind = "report"  // a report is due; sent to the report's own targets
	Test    Kind = "test"    // `outlierd notify test`
)

// Version is the version of the JSON form of an event. It changes when a member is renamed, removed or
// given another meaning, but not when one is added.
const Version = 1

// Event is one notification. Webhooks and commands receive its JSON form.
type Event struct {
	Version int              `json:"version"`
	ID      string           `json:"id"` // the same whenever the event is sent again
	Kind    Kind             `json:"event"`
	Time    time.Time        `json:"time"`
	Job     string           `json:"job,omitempty"`
	Run     string           `json:"run,omitempty"`
	Alert   string           `json:"alert,omitempty"`
	Report  string           `json:"report,omitempty"`
	Title   string           `json:"title"`            // one line
	Text    string           `json:"text,omitempty"`   // what happened, and what to do; may have several lines
	Counts  map[string]int64 `json:"counts,omitempty"` // of a run: pages, hits, new_hits, requests, credits; of a report: rows
	Rows    []Row            `json:"rows,omitempty"`   // of an alert or a report, at most MaxRows

	again bool // the run before ended in the same way, of which targets were notified; only checks get it
}

// Row is one new row of an alert, or one of a report.
type Row struct {
	Title  string         `json:"title"`
	Link   string         `json:"link,omitempty"` // an address of http or https
	Values map[string]any `json:"values"`         // all columns; numbers are of type [json.Number]
}

// UnmarshalJSON implements [json.Unmarshaler]. It keeps numbers as they were written: a float64 has 53 bits,
// which is less than an id may have.
func (r *Row) UnmarshalJSON(text []byte) error {
	type row Row
	d := json.NewDecoder(bytes.NewReader(text))
	d.UseNumber()
	return d.Decode((*row)(r))
}

// Limits of an event. Longer values are truncated.
const (
	MaxRows  = 20
	maxTitle = 200  // characters
	maxText  = 2000 // characters
	maxValue = 300  // characters of one value of a row
	maxLine  = 350  // characters of all values of a row in a text
)

// cleanForSending prepares an event to be sent. It removes invisible characters and terminal control sequences,
// cuts long texts, and removes the service's key with redact.
func (e Event) cleanForSending(redact func(string) string) Event {
	line := func(s string, most int) string { return excerpt.Runes(oneLine(redact(s)), most) }
	e.Version, e.Time = Version, e.Time.UTC()
	for _, text := range []*string{&e.Title, &e.Job, &e.Run, &e.Alert, &e.Report} {
		*text = line(*text, maxTitle)
	}
	e.Text = excerpt.Runes(removeInvisible(redact(e.Text)), maxText)
	rows := slices.Clone(e.Rows[:min(len(e.Rows), MaxRows)])
	for i, r := range rows {
		rows[i] = Row{Title: line(r.Title, maxTitle), Link: webLink(redact(r.Link)), Values: map[string]any{}}
		for name, value := range r.Values {
			rows[i].Values[line(name, maxTitle)] = cleanValue(value, func(s string) string { return line(s, maxValue) })
		}
	}
	if e.Rows = rows; len(rows) == 0 {
		e.Rows = nil
	}
	return e
}

// cleanValue cleans the texts in a value of a row; lists and structures become their JSON.
func cleanValue(value any, line func(string) string) any {
	switch v := value.(type) {
	case string:
		return line(v)
	case nil, bool, json.Number:
		return v
	}
	text, err := asJSON(value)
	if err != nil { // a value that came from JSON can be encoded again
		return line(fmt.Sprint(value))
	}
	return line(text)
}

// removeInvisible removes invisible characters: control characters other than line breaks, and marks that
// change the direction of writing.
func removeInvisible(s string) string {
	return strings.TrimSpace(strings.Map(func(r rune) rune {
		switch {
		case r == '\n':
			return r
		case r == '\t', r == '\u2028', r == '\u2029':
			return ' '
		case unicode.IsControl(r), unicode.Is(unicode.Bidi_Control, r), r == unicode.ReplacementChar:
			return -1
		}
		return r
	}, s))
}

func oneLine(s string) string { return strings.ReplaceAll(removeInvisible(s), "\n", " ") }

// webLink returns an address of http or https, or "".
func webLink(s string) string {
	u, err := url.Parse(s)
	if err != nil || u.Scheme != "https" && u.Scheme != "http" || u.Host == "" || u.User != nil || len(s) > 2000 {
		return ""
	}
	return u.String()
}

// describeEvent returns the event's text and a line for each row, as many as fit into most characters. escape is
// applied to untrusted texts; links are not escaped.
func (e *Event) describeEvent(most int, escape func(string) string) string {
	text := escape(e.Text)
	for i, r := range e.Rows {
		line := "\n• " + escape(r.heading())
		about := slices.DeleteFunc([]string{r.channelName(), r.glanceText(ageAt(e.Time))}, isBlank)
		if len(about) > 0 {
			line += " (" + escape(excerpt.Runes(strings.Join(about, " · "), maxLine)) + ")"
		}
		if r.Link != "" {
			line += "\n  " + r.Link
		}
		if utf8.RuneCountInString(text+line) > most {
			text += fmt.Sprintf("\nand %d more", len(e.Rows)-i)
			break
		}
		text += line
	}
	return strings.TrimPrefix(text, "\n")
}

func isBlank(s string) bool { return s == "" }

// Sample returns the event that `outlierd notify test` sends.
func Sample(id string, now time.Time) Event {
	return Event{
		Version: Version, ID: id, Kind: Test, Time: now.UTC(),
		Title: "Test notification",
		Text:  "It was sent by `outlierd notify test`. Nothing has happened.",
	}
}
