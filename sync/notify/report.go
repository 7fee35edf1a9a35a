package notify

import (
	"bytes"
	"cmp"
	"context"
	_ "embed"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"html/template"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"outlierd/internal/figures"
	"outlierd/sync/job"
	"outlierd/sync/store"
)

// PrepareReports puts the reports that are due in the outbox, each once for each due time. If several due times
// have passed, for example while no process was running, the last one counts. The due time is recorded in
// the transaction that writes the outbox.
func (q *Questions) PrepareReports(ctx context.Context) {
	for i := range q.Watcher.config.Reports {
		report := &q.Watcher.config.Reports[i]
		q.answer(ctx, Report, report.Name, func(ctx context.Context) error { return q.prepareReport(ctx, report) })
	}
}

func (q *Questions) prepareReport(ctx context.Context, report *job.Report) error {
	due, err := q.dueTime(report)
	if err != nil || due.IsZero() {
		return err
	}
	e, failed := MakeReport(ctx, report, due, q.SQL, q.Ask)
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	err = q.Store.Update(func(tx *store.Tx) error {
		if err := q.Watcher.putEvents(tx, report.To, e); err != nil {
			return err
		}
		return setState(tx, reportSubject(report), strconv.FormatInt(store.Micros(due), 10))
	})
	switch {
	case err != nil:
		return err
	case failed != nil:
		q.Log.Warn("report failed", "report", report.Name, "due", due, "err", failed)
	default:
		q.Log.Info("report prepared", "report", report.Name, "due", due, "rows", e.Counts["rows"])
	}
	return nil
}

// reportSubject returns the key in the database of the last due time of a report.
func reportSubject(report *job.Report) string { return "report/" + report.Name }

// dueTime returns the due time for which a report is to be made now, or the zero time. A report is due for the
// first time after it was first seen. A recorded time in the future was recorded while the clock was ahead,
// and counts as now.
func (q *Questions) dueTime(report *job.Report) (due time.Time, err error) {
	last, _, err := lastState(q.Store, reportSubject(report))
	if err == nil && last != "" {
		var us int64
		us, err = strconv.ParseInt(last, 10, 64)
		due = store.Instant(us)
	}
	now := time.Now()
	if err == nil && (due.IsZero() || due.After(now)) {
		return time.Time{}, setState(q.Store, reportSubject(report), strconv.FormatInt(store.Micros(now), 10))
	}
	if err != nil {
		return time.Time{}, err
	}
	return report.Last(due, now, q.Watcher.config.Timezone), nil
}

// MakeReport runs the SQL of a report and returns its event. If the SQL fails, the event says so, and failed is
// the error.
func MakeReport(ctx context.Context, report *job.Report, due time.Time, sqlOf func(*job.Report) (string, error),
	ask func(ctx context.Context, sql string) ([]string, error)) (e Event, failed error) {
	name := cmp.Or(report.About, report.Name)
	e = Event{ID: idOf(string(Report), report.Name, due.UTC().Format(time.RFC3339)), Kind: Report, Time: due,
		Report: report.Name, Title: name}
	var rows int64
	sql, failed := sqlOf(report)
	if failed == nil {
		var first []keyed
		first, rows, failed = firstRows(ctx, sql, nil, MaxRows, ask)
		for _, r := range first {
			e.Rows = append(e.Rows, r.Row)
		}
	}
	if failed != nil {
		e.Rows, e.Title = nil, name+" failed"
		e.Text = fmt.Sprintf("%v\n`outlierd report preview %s` runs its SQL again.", failed, report.Name)
		return e, failed
	}
	e.Counts = map[string]int64{"rows": rows}
	switch {
	case rows == 0:
		e.Title, e.Text = name+": nothing found", "Its SQL returned no rows."
	case rows == 1:
		e.Title = name + ": 1 row"
	default:
		e.Title = fmt.Sprintf("%s: %d rows", name, rows)
	}
	if rows > MaxRows {
		e.Text = fmt.Sprintf("These are the first %d.", MaxRows)
	}
	return e, nil
}

// firstRows returns at most the first rows of the result of SQL, with the hashes of these columns, and the number of
// all rows.
func firstRows(ctx context.Context, sql string, key []string, most int, ask func(ctx context.Context, sql string) ([]string, error)) (
	rows []keyed, all int64, err error) {
	// The line break ends a comment at the end of the SQL.
	texts, err := ask(ctx, fmt.Sprintf(`WITH found AS MATERIALIZED (
%s
) SELECT count(*)::VARCHAR AS row FROM found UNION ALL (SELECT to_json(found)::VARCHAR FROM found LIMIT %d)`,
		strings.TrimRight(sql, "; \n\t"), most))
	for _, text := range texts {
		if !strings.HasPrefix(text, "{") {
			if all, err = strconv.ParseInt(text, 10, 64); err != nil {
				return nil, 0, err
			}
			continue
		}
		row, err := readRow(text, key)
		if err != nil {
			return nil, 0, err
		}
		rows = append(rows, row)
	}
	return rows, all, err
}

// # Rows for a glance
//
// Messages show the numbers of a video as the page's cards do.

// videoID returns the id of a row's video, or "".
func (r *Row) videoID() string {
	if id, _ := r.Values["video_id"].(string); videoID.MatchString(id) {
		return id
	}
	return ""
}

// cardColumns has the columns of a card in its order, and how each is shown.
var cardColumns = []struct {
	column string
	show   func(n float64) string
}{
	{"average_views_ratio", figures.Times},
	{"view_count", func(n float64) string { return figures.Short(n) + " views" }},
	{"views_per_day", figures.Gained},
	{"z_score", func(n float64) string { return "score " + strconv.FormatFloat(n, 'f', 1, 64) }},
	{"channel_subscribers", func(n float64) string { return figures.Short(n) + " subscribers" }},
	{"subscriber_count", func(n float64) string { return figures.Short(n) + " subscribers" }},
	{"like_count", func(n float64) string { return figures.Short(n) + " likes" }},
	{"comment_count", func(n float64) string { return figures.Short(n) + " comments" }},
	{"duration", func(n float64) string { return figures.Clock(int64(n)) }},
}

// unshown are columns that are shown elsewhere, or that say how a video was found.
var unshown = []string{"title", "link", "video_id", "channel_id", "channel_title", "published_at",
	"first_seen_at", "last_seen_at", "days_until_seen", "jobs", "searched"}

// readTime reads a time as DuckDB writes it, in the time zone of the job file.
func readTime(value any) (at time.Time, is bool) {
	text, _ := value.(string)
	for _, offset := range []string{"-07", "-07:00"} {
		at, err := time.Parse("2006-01-02 15:04:05.999999"+offset, text)
		if err == nil {
			return at, true
		}
	}
	return at, false
}

// ageAt says how old videos are at a time: "9 d".
func ageAt(now time.Time) func(published time.Time) string {
	return func(published time.Time) string { return figures.Age(now, published) }
}

// glanceText returns a row's values as a card shows them: "41× · 184K views · 9 d". age says when a video was
// published. Columns that no card has follow with their names.
func (r *Row) glanceText(age func(published time.Time) string) string {
	var all []string
	known := slices.Clone(unshown)
	for _, c := range cardColumns {
		known = append(known, c.column)
		if n, is := r.Values[c.column].(json.Number); is {
			if f, err := n.Float64(); err == nil {
				all = append(all, c.show(f))
			}
		}
	}
	if at, is := readTime(r.Values["published_at"]); is {
		all = append(all, age(at))
	}
	for _, name := range slices.Sorted(maps.Keys(r.Values)) {
		value := r.Values[name]
		if value == nil || slices.Contains(known, strings.ToLower(name)) {
			continue
		}
		if at, is := readTime(value); is {
			value = at.Format("2006-01-02 15:04")
		}
		all = append(all, describeValue(strings.ToLower(name), value))
	}
	return strings.Join(all, " · ")
}

// describeValue returns a column and its value: "channel country: DE". Fractions have few digits.
func describeValue(name string, value any) string {
	if n, is := value.(json.Number); is && strings.ContainsAny(n.String(), ".eE") {
		switch f, err := n.Float64(); {
		case err != nil || math.Abs(f) >= 1e15:
		case math.Abs(f) < 1:
			value = strconv.FormatFloat(f, 'g', 2, 64)
		default:
			value = figures.Digits(f)
		}
	}
	return fmt.Sprintf("%s: %v", strings.TrimSpace(strings.ReplaceAll(name, "_", " ")), value)
}

// heading returns a row's title for people.
func (r *Row) heading() string {
	if r.Title != "" {
		return r.Title
	}
	for _, name := range []string{"channel_title", "video_id", "name", "job"} {
		if text, _ := r.Values[name].(string); text != "" {
			return text
		}
	}
	return "(no title)"
}

// channelName returns the name of the channel of a row with a video's title, or "".
func (r *Row) channelName() string {
	if name, _ := r.Values["channel_title"].(string); r.Title != "" {
		return name
	}
	return ""
}

// # Mail

// Picture is a picture of a video, from the cache of the page.
type Picture struct {
	Data []byte
	Type string // image/jpeg and the like
}

// File is the attachment of a mail.
type File struct {
	Name string
	Type string
	Data []byte
}

// enclosure is what a report's mail has besides its text. It is made when the mail is sent, so that the state
// has no copy that would have to be erased.
type enclosure struct {
	pictures map[string]Picture // by video
	file     *File
	note     string // why there is no file
}

// maxPicture is the size in bytes from which a picture is left out, so that 20 of them fit into a mail.
const maxPicture = 256 << 10

// encloseReport makes the enclosure of a report. It is nil for other events. What fails is left out: a picture
// silently, the file with a note.
func (s *Sender) encloseReport(ctx context.Context, e Event) *enclosure {
	if e.Kind != Report {
		return nil
	}
	s.enclosing.Lock() // each attachment takes memory
	defer s.enclosing.Unlock()
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	in := &enclosure{pictures: map[string]Picture{}}
	if s.Attach != nil && len(e.Rows) > 0 {
		var err error
		if in.file, err = s.Attach(ctx, e.Report, e.Time); err != nil {
			in.note = fmt.Sprintf("The attachment could not be made: %s", oneLine(s.Redact(err.Error())))
		}
	}
	for _, r := range e.Rows {
		video := r.videoID()
		if video == "" || s.Picture == nil {
			continue
		}
		if picture, err := s.Picture(ctx, video); err == nil && len(picture.Data) <= maxPicture {
			in.pictures[video] = *picture
		}
	}
	return in
}

//go:embed report.html
var reportText string

var reportHTML = template.Must(template.New("report").Parse(reportText))

// card is a row for the template.
type card struct {
	Title, Link, Channel, Figures string
	Picture                       template.URL // "" for none; "cid:" or "data:"
}

// writeHTML returns a report as HTML. source returns the address of a video's picture, or "".
func (e *Event) writeHTML(note string, source func(video string) template.URL) (string, error) {
	view := struct {
		Title, Text, Note string
		Cards             []card
	}{e.Title, e.Text, note, nil}
	for _, r := range e.Rows {
		c := card{Title: r.heading(), Link: r.Link, Channel: r.channelName(), Figures: r.glanceText(ageAt(e.Time))}
		if video := r.videoID(); video != "" {
			c.Picture = source(video)
		}
		view.Cards = append(view.Cards, c)
	}
	var out strings.Builder
	err := reportHTML.Execute(&out, view)
	return out.String(), err
}

// # Preview

// Preview returns what a target would get for a report, as files. Nothing is sent.
func (s *Sender) Preview(ctx context.Context, t *job.Target, e Event) ([]File, error) {
	e = e.cleanForSending(s.Redact)
	name := e.Report + "-" + t.Name
	switch t.Kind {
	case job.TargetMail:
		return s.previewMail(ctx, t, e, name)
	case job.TargetWebhook:
		m, err := writeBody(t, e)
		if err != nil {
			return nil, err
		}
		end := ".txt"
		if isJSON(m.contentType) {
			end = ".json"
		}
		return []File{{Name: name + end, Type: m.contentType, Data: m.body}}, nil
	}
	input, err := encodeEvent(e)
	return []File{{Name: name + ".json", Type: "application/json", Data: input}}, err
}

func (s *Sender) previewMail(ctx context.Context, t *job.Target, e Event, name string) ([]File, error) {
	in := s.encloseReport(ctx, e)
	msg, err := mailTo(&t.Mail, e, in)
	if err != nil {
		return nil, err
	}
	var mail bytes.Buffer
	if _, err := msg.WriteTo(&mail); err != nil {
		return nil, err
	}
	html, err := e.writeHTML(in.note, func(video string) template.URL {
		picture, is := in.pictures[video]
		if !is {
			return ""
		}
		return template.URL("data:" + picture.Type + ";base64," + base64.StdEncoding.EncodeToString(picture.Data))
	})
	files := []File{{Name: name + ".html", Data: []byte(html)}, {Name: name + ".eml", Data: mail.Bytes()}}
	if in.file != nil {
		files = append(files, *in.file)
	}
	return files, err
}
