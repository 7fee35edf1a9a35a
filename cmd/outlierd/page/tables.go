package page

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"net/http"
	"os"
	"reflect"
	"slices"
	"strings"
	"time"

	"outlierd/sinks/duckdb/query"
	"outlierd/sync/job"
	"outlierd/sync/marks"
	"outlierd/sync/serve"
	"outlierd/sync/store"
)

// Tables are the tables of a published DuckDB file. A reading is of the newest publication, which stays open while
// somebody looks at pages.
type Tables struct {
	Path   string // of the DuckDB file; "" if the job file has no such sink
	Zone   *time.Location
	reader *query.Reader
	lists  lists

	Marks func() (*Marked, error) // nil without marks
}

// keepOpen is how long the published file stays open after the last page.
const keepOpen = 10 * time.Minute

// NewTables returns the tables of a file; path is "" if the job file has none.
func NewTables(path string, zone *time.Location) *Tables {
	return &Tables{Path: path, Zone: zone, reader: query.NewReader(path, query.Setup, keepOpen)}
}

// Close closes the file.
func (t *Tables) Close() { t.reader.Close() }

// Limits of the page of one video or channel, and of a niche.
const (
	maxSightings = 500 // in a chart
	maxSearches  = 20
	maxAlike     = 5
)

// read runs queries on one publication.
func (t *Tables) read(ctx context.Context, questions ...query.Question) error {
	if t.Path == "" {
		return ErrNothingPublished
	}
	err := t.reader.All(ctx, questions...)
	if errors.Is(err, query.ErrNotPublished) {
		return ErrNothingPublished
	}
	return err
}

// each returns a query that calls row for each row.
func (t *Tables) each(sql string, row func(cells)) query.Question {
	return query.Question{SQL: sql, Row: t.cellsTo(row)}
}

func (t *Tables) cellsTo(row func(cells)) func([]any) error {
	return func(values []any) error {
		row(cells{values, t.Zone})
		return nil
	}
}

// rows returns a query whose rows are appended to a list: their columns are the first fields of its elements.
func rows[T any](t *Tables, sql string, to *[]T, and ...func(*T)) query.Question {
	return query.Question{SQL: sql, Row: appendTo(t, to, and...)}
}

func appendTo[T any](t *Tables, to *[]T, and ...func(*T)) func([]any) error {
	return t.cellsTo(func(row cells) {
		var one T
		fields := reflect.ValueOf(&one).Elem()
		for i := range min(len(row.values), fields.NumField()) {
			row.store(fields.Field(i), row.values[i])
		}
		for _, f := range and {
			f(&one)
		}
		*to = append(*to, one)
	})
}

// Found returns the outliers that match a filter. With a limit of 0 it only counts them.
func (t *Tables) Found(ctx context.Context, f Filter) (*Found, error) {
	marked, err := t.Marked()
	if err != nil {
		return nil, err
	}
	o := wantedOutliers(f, marked)
	found := &Found{SQL: o.Plain(), Values: map[string][]Option{}}
	for _, m := range marked.ByID {
		if m.Hidden {
			found.Hidden++
		}
	}
	questions := []query.Question{t.count(o, o.Total(), &found.Total, nil)}
	if f.Limit > 0 {
		questions = []query.Question{t.count(o, o.Counts(), &found.Total, found.Values), t.readCards(o, marked, &found.Cards),
			t.each("SELECT max(first_seen_at) FROM outliers", func(row cells) { row.into(&found.Newest) })}
		found.Views = t.listViews(marked)
		for i := range found.Views {
			view := &found.Views[i]
			if f, err := FilterOf(view.Address); err == nil { // else it is from before a change of the page
				o := wantedOutliers(f, marked)
				questions = append(questions, t.count(o, o.Total(), view.Count, nil))
			}
		}
	}
	return found, t.read(ctx, questions...)
}

// Rows returns the same outliers as Found with the columns of their table, by name, and the number of all that match.
func (t *Tables) Rows(ctx context.Context, f Filter) (found []map[string]any, total int64, err error) {
	marked, err := t.Marked()
	if err != nil {
		return nil, 0, err
	}
	o := wantedOutliers(f, marked)
	var columns []string
	found = []map[string]any{}
	list := o.Question(o.Rows(), func(values []any) error {
		row := map[string]any{}
		for i, v := range values {
			row[columns[i]] = v
		}
		found = append(found, row)
		return nil
	})
	list.Columns = func(names []string) error { columns = names; return nil }
	return found, total, t.read(ctx, list, t.count(o, o.Total(), &total, nil))
}

// readCards returns the query for a page of outliers.
func (t *Tables) readCards(o query.Outliers, marked *Marked, into *[]Card) query.Question {
	add := t.lists.begin()
	return o.Question(o.Cards(), appendTo(t, into, func(c *Card) {
		add(c.ID)
		c.Title, c.Link = cmp.Or(strings.TrimSpace(c.Title), c.ID), watched(c.Link)
		c.Mark = marked.ByID[c.ID]
	}))
}

// count returns a query that [query.Outliers.Total] or [query.Outliers.Counts] made: for the number of outliers in
// total, and of the values of each facet. What it counts is kept, so that tabs cost nothing.
func (t *Tables) count(o query.Outliers, sql string, total *int64, values map[string][]Option) query.Question {
	q := o.Question(sql, t.cellsTo(func(row cells) {
		var name string
		var o Option
		if row.into(&name, &o.Value, &o.Count); name == "" {
			*total = o.Count
		} else {
			values[name] = append(values[name], o)
		}
	}))
	q.Keep = true
	return q
}

// listViews returns the tabs: what is new, everything, what is starred, and the saved views.
func (t *Tables) listViews(marked *Marked) (all []Link) {
	views := []marks.View{{Name: "New this week", Address: "/"}, {Name: "Everything", Address: "/found"}}
	if t.Marks != nil {
		views = append(views, marks.View{Name: "★ Starred", Address: "/found?show=starred"})
	}
	for _, view := range append(views, marked.Views...) {
		all = append(all, Link{Text: view.Name, Address: view.Address, Count: new(int64)})
	}
	return all
}

// Views returns the saved views.
func (t *Tables) Views() ([]marks.View, error) {
	marked, err := t.Marked()
	if err != nil {
		return nil, err
	}
	return marked.Views, nil
}

// Marked is what people have marked, as it is now: the published table follows later.
type Marked struct {
	ByID  map[string]marks.Mark
	Views []marks.View
}

// MarksIn returns a function that reads the marks of a state.
func MarksIn(db *store.Store) func() (*Marked, error) {
	return func() (*Marked, error) {
		m := &Marked{ByID: map[string]marks.Mark{}}
		return m, db.View(func(tx *store.Tx) error {
			all, err := marks.List(tx)
			if err != nil {
				return err
			}
			for _, mark := range all {
				m.ByID[mark.Video] = mark
			}
			m.Views, err = marks.Views(tx)
			return err
		})
	}
}

// Marked returns the marks.
func (t *Tables) Marked() (*Marked, error) {
	if t.Marks == nil {
		return &Marked{}, nil
	}
	return t.Marks()
}

// wantedOutliers returns the outliers of a filter. The time is that of the hour, so that counts can be kept.
func wantedOutliers(f Filter, marked *Marked) query.Outliers {
	o := f.Outliers
	o.Week, o.Now, o.Tags = f.Show == ShowNew, time.Now().Truncate(time.Hour), map[string][]string{}
	var starred, hidden []string
	for id, m := range marked.ByID {
		if m.Starred {
			starred = append(starred, id)
		}
		if m.Hidden {
			hidden = append(hidden, id)
		}
		for _, tag := range m.Tags {
			tag = strings.ToLower(tag)
			o.Tags[tag] = append(o.Tags[tag], id)
		}
	}
	for _, ids := range o.Tags {
		slices.Sort(ids)
	}
	slices.Sort(starred)
	slices.Sort(hidden)
	switch f.Show {
	case ShowStarred:
		o.Only = append([]string{}, starred...)
	case ShowHidden:
		o.Only = append([]string{}, hidden...)
	default:
		o.Without = hidden
	}
	return o
}

// SQL returns a query for the outliers that match a filter.
func (t *Tables) SQL(f Filter) (string, error) {
	marked, err := t.Marked()
	return wantedOutliers(f, marked).Plain(), err
}

// Picked returns videos in the order of their ids.
func (t *Tables) Picked(ctx context.Context, ids []string) (cards []Card, err error) {
	marked, err := t.Marked()
	if err != nil {
		return nil, err
	}
	o := query.Outliers{Only: append([]string{}, ids...), Limit: len(ids)}
	if err = t.read(ctx, t.readCards(o, marked, &cards)); err != nil {
		return nil, err
	}
	slices.SortFunc(cards, func(a, b Card) int { return slices.Index(ids, a.ID) - slices.Index(ids, b.ID) })
	return cards, nil
}

// Video returns the data of a video.
func (t *Tables) Video(ctx context.Context, f VideoFilter) (*Video, error) {
	marked, err := t.Marked()
	if err != nil {
		return nil, err
	}
	v := &Video{Card: Card{ID: f.ID}}
	known := false
	most, until := LinesPerPage, int64(math.MaxInt64)
	if !f.All {
		until = Opening.Milliseconds()
	}
	var cards []Card
	err = t.read(ctx, t.readCards(query.Outliers{Only: []string{f.ID}, Limit: 1}, marked, &cards),
		t.each(query.Video(f.ID), func(row cells) {
			known = true
			if len(cards) > 0 {
				v.Card = cards[0]
			}
			row.into(&v.Title, &v.Link, &v.ChannelID, &v.Channel, &v.Kind, &v.Language, &v.Seconds, &v.Published, &v.Views, &v.Likes,
				&v.Remarks, &v.Ratio, &v.Score, &v.First, &v.Last, &v.Description)
		}),
		rows(t, query.Curve(f.ID, maxSightings), &v.Curve),
		rows(t, query.Sightings(f.ID, maxSearches), &v.Sightings, func(s *Sighting) { s.Job = job.Shown(s.Job) }),
		rows(t, query.Changes(f.ID), &v.Changes),
		rows(t, query.Comments(f.ID), &v.Comments),
		t.each(query.Lines(f.ID, f.Words, (f.Page-1)*LinesPerPage, most), func(row cells) {
			var l Line
			if row.into(&v.LineCount, &l.Start, &l.Text); row.values[2] != nil && l.Start < until {
				v.Lines = append(v.Lines, l)
			}
		}),
	)
	if err != nil {
		return nil, err
	}
	if !known {
		return nil, fmt.Errorf("video %.40q: %w", f.ID, ErrUnknown)
	}
	v.Title, v.Link = cmp.Or(strings.TrimSpace(v.Title), v.ID), watched(v.Link)
	v.Mark = marked.ByID[v.ID]
	if v.ChannelID == "" {
		return v, nil
	}
	alike := query.Outliers{Chosen: map[string][]string{"topic": v.Topics}, Without: []string{v.ID}, Limit: maxAlike}
	questions := []query.Question{
		t.each(query.Sampled(v.ChannelID, v.Kind), func(row cells) {
			var median, subscribers *int64
			row.into(&v.Average, &median, &subscribers)
			v.Subscribers = cmp.Or(v.Subscribers, subscribers)
		}),
		t.readUploads(query.Uploads(v.ChannelID, 0, maxUploads), new(int64), &v.Uploads),
	}
	if len(v.Topics) > 0 {
		questions = append(questions, t.readCards(alike, marked, &v.Alike))
	}
	return v, t.read(ctx, questions...)
}

// Channel returns the data of a channel.
func (t *Tables) Channel(ctx context.Context, f ChannelFilter) (*Channel, error) {
	marked, err := t.Marked()
	if err != nil {
		return nil, err
	}
	c := &Channel{ID: f.ID}
	known := false
	err = t.read(ctx,
		t.each(query.Channel(f.ID), func(row cells) {
			known = true
			row.into(&c.Title, &c.Handle, &c.Description, &c.Subscribers, &c.Videos, &c.Median, &c.Outliers, &c.Last, &c.Average, &c.OneHit)
			c.Handle = strings.TrimPrefix(c.Handle, "@") // the service writes it with or without
		}),
		rows(t, query.Subscribers(f.ID, maxSightings), &c.Curve),
		t.readUploads(query.Uploads(f.ID, (f.Page-1)*PerPage, PerPage), &c.UploadCount, &c.Uploads),
		t.readCards(query.Outliers{ChannelID: f.ID, Limit: 2 * maxAlike}, marked, &c.Found))
	if err != nil {
		return nil, err
	}
	if !known {
		return nil, fmt.Errorf("channel %.40q: %w", f.ID, ErrUnknown)
	}
	c.Title = cmp.Or(strings.TrimSpace(c.Title), c.ID)
	return c, nil
}

// readUploads returns a query that [query.Uploads] made, whose rows begin with the number of all.
func (t *Tables) readUploads(sql string, count *int64, to *[]Card) query.Question {
	return t.each(sql, func(row cells) {
		var u Card
		row.into(count, &u.ID, &u.Title, &u.Kind, &u.Published, &u.Views, &u.Ratio, &u.Score)
		if u.Title = strings.TrimSpace(u.Title); u.ID != "" {
			*to = append(*to, u)
		}
	})
}

// watched returns the address of a video, or "" if its id has an unknown form.
func watched(link string) string {
	if !strings.HasPrefix(link, "https://") {
		return ""
	}
	return link
}

// cells is a row of a result.
type cells struct {
	values []any
	Zone   *time.Location
}

// into stores the first columns.
func (c cells) into(targets ...any) {
	for i, target := range targets {
		c.store(reflect.ValueOf(target).Elem(), c.values[i])
	}
}

// store stores a value: a time in the zone of the page, a whole number rounded, and NULL as nil, zero or "".
func (c cells) store(to reflect.Value, value any) {
	switch v := value.(type) {
	case nil:
		to.SetZero()
		return
	case time.Time:
		value = v.In(c.Zone)
	case []any:
		list := reflect.MakeSlice(reflect.SliceOf(to.Type().Elem()), len(v), len(v))
		for i := range v {
			c.store(list.Index(i), v[i])
		}
		to.Set(list.Convert(to.Type()))
		return
	}
	if to.Kind() == reflect.Pointer {
		to.Set(reflect.New(to.Type().Elem()))
		to = to.Elem()
	}
	if number, is := value.(float64); is && to.Kind() == reflect.Int64 {
		value = math.Round(number)
	}
	if from := reflect.ValueOf(value); from.CanConvert(to.Type()) { // else the file is of another version
		to.Set(from.Convert(to.Type()))
	}
}

// First returns the first rows of a query, which runs in a process that can be killed.
func (t *Tables) First(ctx context.Context, process query.Process, sql string) (*query.Rows, error) {
	if _, err := t.PublishedAt(); err != nil {
		return nil, err
	}
	got, err := process.First(ctx, t.Path, sql, MaxRows)
	switch {
	case ctx.Err() != nil:
		return nil, ctx.Err()
	case err != nil:
		return nil, serve.Refuse(http.StatusConflict, "%w", err)
	}
	for i, f := range got.Columns {
		if f.Kind == "TIMESTAMP WITH TIME ZONE" {
			t.localize(got.Rows, i)
		}
	}
	return got, nil
}

// localize converts the times of a column to the time zone of the job file.
func (t *Tables) localize(rows [][]*string, column int) {
	for _, row := range rows {
		if row[column] == nil {
			continue
		}
		if at, err := time.Parse(time.RFC3339Nano, *row[column]); err == nil {
			row[column] = new(at.In(t.Zone).Format("2006-01-02 15:04:05"))
		}
	}
}

// PublishedAt returns when the file was published, or an error if it does not exist: the error of the SQL would be less
// clear.
func (t *Tables) PublishedAt() (time.Time, error) {
	info, err := os.Stat(t.Path)
	if t.Path == "" || errors.Is(err, os.ErrNotExist) {
		return time.Time{}, ErrNothingPublished
	}
	if err != nil {
		return time.Time{}, err
	}
	return info.ModTime(), nil
}
