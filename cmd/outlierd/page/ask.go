package page

import (
	"cmp"
	"context"
	"errors"
	"io"
	"math"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Question is a named SQL query.
type Question struct{ Name, SQL string }

// Table is a table or view that can be queried, with its columns.
type Table struct {
	Name    string
	Columns []string
}

// Result has the first rows of a query. A cell is nil if it has no value.
type Result struct {
	Columns []Column
	Rows    [][]*string
	More    bool // there are further rows
}

// Column is a column of a [Result].
type Column struct {
	Name   string
	Number bool // its cells are numbers
	Time   bool // its cells are dates, or times in the format of time.RFC3339
}

// MostRows is the maximum number of rows shown.
const MostRows = 1000

// RefusedError explains to the user why a request was refused.
type RefusedError struct{ Why string }

func (e *RefusedError) Error() string { return e.Why }

// formats are the download formats with their content types.
var formats = map[string]string{
	"csv": "text/csv; charset=utf-8", "parquet": "application/vnd.apache.parquet",
	"xlsx": "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet",
}

const (
	longestSQL  = 8000             // bytes, because it is part of an address
	downloading = 60 * time.Second // time limit of a download
)

// askSQL runs a query and shows its result.
func (s *Site) askSQL(w http.ResponseWriter, r *http.Request) {
	form := r.URL.Query()
	view := askView{SQL: strings.TrimSpace(form.Get("sql")), Chart: form.Get("as") == "chart",
		Tables: s.from.Tables, Questions: s.from.Questions()}
	if len(view.SQL) > longestSQL {
		s.say(w, http.StatusBadRequest, "The SQL is longer than 8000 bytes; use 'outlierd sql'.")
		return
	}
	var err error
	switch {
	case view.SQL == "":
	case foreign(r):
		view.Refused = "This query came from another site, so it was not run. Read it, then press Ask."
	default:
		err = ask(r.Context(), s.asking, func(ctx context.Context) (err error) {
			view.Result, err = s.from.Ask(ctx, view.SQL)
			return err
		})
	}
	if refused, ok := errors.AsType[*RefusedError](err); ok {
		view.Refused, err = refused.Why, nil
	}
	if err != nil {
		s.refuse(w, r, "ask", err)
		return
	}
	s.show(w, "ask.html", view)
}

// foreign reports whether the request came from a page of another site, according to the browser. Such
// a page could not read the answer, but it could keep the daemon busy.
func foreign(r *http.Request) bool {
	from := r.Header.Get("Sec-Fetch-Site")
	return from != "" && from != "same-origin" && from != "none"
}

// download sends the result of a query as a file. Unlike pages, it does not wait for its turn: a second
// download at the same time is refused.
func (s *Site) download(w http.ResponseWriter, r *http.Request) {
	sql, format := r.URL.Query().Get("sql"), r.PathValue("format")
	kind, known := formats[format]
	if !known || sql == "" || len(sql) > longestSQL {
		s.say(w, http.StatusBadRequest, "A download needs SQL of at most 8000 bytes, and a format: csv, "+
			"parquet or xlsx.")
		return
	}
	if foreign(r) {
		s.say(w, http.StatusForbidden, "This download was requested by another site.")
		return
	}
	ctx, cancel := context.WithTimeout(r.Context(), downloading)
	defer cancel()
	select {
	case s.downloads <- struct{}{}:
		defer func() { <-s.downloads }()
	default:
		w.Header().Set("Retry-After", "10")
		s.say(w, http.StatusServiceUnavailable, "Another download is under way; try again when it has ended.")
		return
	}
	file, err := s.from.Download(ctx, sql, format)
	if refused, ok := errors.AsType[*RefusedError](err); ok {
		s.say(w, http.StatusBadRequest, refused.Why)
		return
	}
	if err != nil {
		s.refuse(w, r, "download", err)
		return
	}
	defer file.Close()
	err = http.NewResponseController(w).SetWriteDeadline(time.Now().Add(downloading))
	if err != nil && !errors.Is(err, http.ErrNotSupported) {
		s.refuse(w, r, "download", err)
		return
	}
	w.Header().Set("Content-Type", kind)
	w.Header().Set("Content-Disposition", `attachment; filename="outlierd.`+format+`"`)
	_, _ = io.Copy(w, file) // fails only if the client has closed the connection
}

// askView is the data of the page Ask.
type askView struct {
	SQL       string
	Chart     bool
	Tables    []Table
	Questions []Question
	Refused   string // why the SQL has no result
	*Result
}

// As returns the address of the same query with another output, "table" or "chart".
func (v askView) As(form string) string {
	return "/ask?" + url.Values{"sql": {v.SQL}, "as": {form}}.Encode()
}

// File returns the address for downloading the whole result.
func (v askView) File(format string) string {
	return "/ask/result/" + format + "?" + url.Values{"sql": {v.SQL}}.Encode()
}

// Address returns the address that runs a question.
func (q Question) Address() string { return "/ask?" + url.Values{"sql": {q.SQL}}.Encode() }

// Count returns the number of rows shown.
func (v askView) Count() int64 { return int64(len(v.Rows)) }

// Drawn returns the chart of a result: a line if it has a time and a number in order of time, otherwise bars
// for its first numeric column; nil if there is nothing to draw.
func (v askView) Drawn() *drawing {
	number := slices.IndexFunc(v.Columns, func(c Column) bool { return c.Number })
	if number < 0 || len(v.Rows) == 0 {
		return nil
	}
	d := &drawing{Name: v.Columns[number].Name}
	if at := slices.IndexFunc(v.Columns, func(c Column) bool { return c.Time }); at >= 0 {
		d.Line = v.line(at, number)
	}
	if d.Line == nil {
		d.Bars = v.bars(number)
	}
	return d
}

// drawing is a line or a set of bars.
type drawing struct {
	Name string // of the column that is drawn
	Line *chart
	Bars []column
}

// column is a bar, with its length in thousandths of the longest.
type column struct {
	Label, Value string
	Length       int64
}

// line returns a line if the rows are in order of time, else nil.
func (v askView) line(at, number int) *chart {
	var points []Point
	for _, row := range v.Rows {
		when, known := timeOf(row[at])
		n, is := numberOf(row[number])
		if !known || !is {
			continue
		}
		points = append(points, Point{when, int64(math.Round(n))})
	}
	if !slices.IsSortedFunc(points, func(a, b Point) int { return a.At.Compare(b.At) }) {
		slices.Reverse(points)
		if !slices.IsSortedFunc(points, func(a, b Point) int { return a.At.Compare(b.At) }) {
			return nil
		}
	}
	return newChart(points)
}

// bars returns the bars of the first rows.
func (v askView) bars(number int) (bars []column) {
	const most = 50
	greatest := 0.0
	rows := v.Rows[:min(most, len(v.Rows))]
	for _, row := range rows {
		if n, is := numberOf(row[number]); is {
			greatest = max(greatest, math.Abs(n))
		}
	}
	label := slices.IndexFunc(v.Columns, func(c Column) bool { return !c.Number })
	for i, row := range rows {
		b := column{Label: strconv.Itoa(i + 1), Value: *cmp.Or(row[number], new(string))}
		if label >= 0 {
			b.Label = *cmp.Or(row[label], new(string))
		}
		if n, is := numberOf(row[number]); is && greatest > 0 {
			b.Length = int64(1000 * math.Abs(n) / greatest)
		}
		bars = append(bars, b)
	}
	return bars
}

func numberOf(cell *string) (float64, bool) {
	if cell == nil {
		return 0, false
	}
	n, err := strconv.ParseFloat(*cell, 64)
	return n, err == nil && !math.IsInf(n, 0) && !math.IsNaN(n)
}

func timeOf(cell *string) (time.Time, bool) {
	if cell == nil {
		return time.Time{}, false
	}
	for _, layout := range []string{time.RFC3339, "2006-01-02 15:04:05", time.DateOnly} {
		if t, err := time.Parse(layout, *cell); err == nil {
			return t, true
		}
	}
	return time.Time{}, false
}
