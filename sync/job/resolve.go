package job

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/url"
	"slices"
	"strings"
	"time"

	"outlierd/outlier"
	"outlierd/sync/yamltree"
)

// Inputs is what [Spec.Resolve] needs in addition to the file.
type Inputs struct {
	Now time.Time

	// Since returns when the last complete search with this watermark requested its first page,
	// by the service's clock; zero if there was none.
	Since func(watermark string) (time.Time, error)

	// IDs runs SQL over the user's tables and returns the values of the named column, or of the
	// first one if column is "".
	IDs func(sql, column string) ([]string, error)

	// Assume replaces an empty SQL result by one made-up row, [Assumed], so that a job can be priced
	// before its tables have any rows.
	Assume bool
}

// Resolved is what a job requests at a given time: either searches and scans, or the ids of a job that
// fetches only free data.
type Resolved struct {
	Asks []Ask
	IDs  []string // of channels or videos, in order and without duplicates

	// Wanted has the parameters of the [outlier.HitFilter] that selects the hits to enrich.
	Wanted url.Values

	Assumed bool // some value is [Assumed]
}

// An Ask is one search of a job, each page of which is one paid request, or the start of one scan.
type Ask struct {
	Query          outlier.Query
	Read           outlier.Query // the search that reads the results of a scan, without the scan's id
	Item           string        // the values of for_each, joined by " / "
	Queries, Seeds []string      // the search texts, and the videos or channels that hits should be similar to

	// Watermark identifies the search across runs. It has the operation and its subjects but not its
	// filters, as short JSON.
	Watermark string
}

// Assumed is the value used if SQL finds no rows; see [Inputs].
const Assumed = "(what its SQL finds)"

// Resolve returns what the job requests now. It reads files and may run SQL; it changes nothing. Its errors
// name the job and the place in the file.
func (s *Spec) Resolve(in Inputs) (Resolved, error) {
	r := resolver{in: in, job: s, answers: map[string][]string{}, handles: map[string]string{}}
	if err := r.resolve(); err != nil {
		return Resolved{}, fmt.Errorf("job %s: %w", s.Name, err)
	}
	return r.done, nil
}

type resolver struct {
	in      Inputs
	job     *Spec
	answers map[string][]string // results of files and SQL, each of which is read once
	handles map[string]string   // ids of channels
	done    Resolved
}

func (r *resolver) resolve() error {
	var lists [][]string
	for _, loop := range r.job.Loops {
		values, err := r.read(loop.Source, "")
		if err != nil {
			return fmt.Errorf("for_each %s: %w", loop.Name, err)
		}
		lists = append(lists, values)
	}
	if n := product(lists); n > MaxAsks {
		return fmt.Errorf("for_each makes more than %d combinations", MaxAsks)
	}
	for chosen := range combinations(lists) {
		if err := r.combination(chosen); err != nil {
			return err
		}
	}
	r.done.IDs = uniq(r.done.IDs)
	return r.wanted()
}

// combination resolves the job for one combination of the values of its for_each.
func (r *resolver) combination(chosen []string) error {
	params, err := r.params(&r.job.ask, chosen)
	if err != nil {
		return err
	}
	if r.job.Verb == VerbChannels || r.job.Verb == VerbVideos {
		r.done.IDs = append(r.done.IDs, params[ids]...)
		return nil
	}
	if !r.job.ask.asks(params) {
		return nil
	}
	ask := Ask{Item: strings.Join(chosen, " / ")}
	ask.Queries, ask.Seeds = subjectsOf(r.job.ask.Op, params)
	ask.Watermark = watermark(r.job.ask.Op, params, chosen)
	if ask.Query, err = r.query(&r.job.ask, params, ask.Watermark); err != nil {
		return err
	}
	if read := r.job.ask.Read; read != nil {
		if params, err = r.params(read, chosen); err != nil {
			return err
		}
		if ask.Read, err = r.query(read, params, ask.Watermark); err != nil {
			return err
		}
	}
	r.done.Asks = append(r.done.Asks, ask)
	return nil
}

// params returns the parameters of a template, filled in and checked against the interface.
func (r *resolver) params(t *template, chosen []string) (url.Values, error) {
	var values []string
	for i, loop := range r.job.Loops {
		values = append(values, loop.Name, chosen[i])
	}
	params := url.Values{}
	for _, name := range slices.Sorted(maps.Keys(t.Params)) {
		for _, pattern := range t.Params[name] {
			text, err := r.accept(t, name, yamltree.Fill(pattern, values))
			if err != nil {
				return nil, fmt.Errorf("%s: %w", snake(name), err)
			}
			params.Add(name, text)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(t.From)) {
		source := t.From[name]
		texts, err := r.read(source, t.column(name))
		if err != nil {
			return nil, fmt.Errorf("%s: %w", snake(name), err)
		}
		for _, text := range texts {
			if text, err = r.accept(t, name, text); err != nil {
				return nil, fmt.Errorf("%s: %s: %w", snake(name), source.place(), err)
			}
			params.Add(name, text)
		}
	}
	for name, texts := range params {
		if !slices.ContainsFunc(texts, isHandle) || t.parser(name) == nil {
			continue
		}
		var err error
		if params[name], err = r.channels(texts); err != nil {
			return nil, fmt.Errorf("%s: %w", snake(name), err)
		}
	}
	for _, name := range t.Op.Subjects() { // repeated ids go later, over all combinations
		if params.Has(name) {
			params[name] = uniq(params[name])
		}
	}
	return params, nil
}

// accept checks a value against the interface, unless it is [Assumed].
func (r *resolver) accept(t *template, name, text string) (string, error) {
	if r.done.Assumed && strings.Contains(text, Assumed) {
		return text, nil
	}
	return t.accept(name, text)
}

// read returns the current values of a source, without blank ones.
func (r *resolver) read(s Source, column string) ([]string, error) {
	if s.File == "" && s.SQL == "" {
		return s.Values, nil
	}
	key := s.File + "\x00" + s.Field + "\x00" + s.SQL + "\x00" + column
	if known, ok := r.answers[key]; ok {
		return known, nil
	}
	values, err := r.fetch(s, column)
	if err != nil {
		return nil, err
	}
	values = slices.DeleteFunc(slices.Clone(values), func(v string) bool { return strings.TrimSpace(v) == "" })
	if len(values) == 0 && s.SQL != "" && r.in.Assume {
		values, r.done.Assumed = []string{Assumed}, true
	}
	r.answers[key] = uniq(values)
	return r.answers[key], nil
}

// fetch reads the source's file or runs its SQL.
func (r *resolver) fetch(s Source, column string) ([]string, error) {
	if s.SQL != "" {
		values, err := r.in.IDs(s.SQL, column)
		if err != nil {
			err = fmt.Errorf("%s: %w", s.place(), err)
		}
		return values, err
	}
	values, err := s.values(s.File)
	var texts []string
	for _, v := range values {
		texts = append(texts, v.text)
	}
	return texts, err
}

// place names the file or the SQL that a value came from, for messages.
func (s Source) place() string {
	if s.File != "" {
		return "the file " + s.File
	}
	return fmt.Sprintf("the SQL in line %d", s.Line)
}

// subjectsOf returns the search texts and the seeds among the parameters.
func subjectsOf(op outlier.Operation, params url.Values) (queries, seeds []string) {
	for _, name := range op.Subjects() {
		if name == "query" && params.Get("findBy") != outlier.FindByChannels {
			queries = append(queries, params[name]...)
		} else {
			seeds = append(seeds, params[name]...)
		}
	}
	return queries, seeds
}

// watermark returns a text that identifies a search: its operation, its queries or seeds regardless of their
// order, and the values of for_each. Filters are not part of it, so editing one does not restart the search
// from its first window.
func watermark(op outlier.Operation, params url.Values, chosen []string) string {
	identity := struct {
		Operation outlier.Operation   `json:"operation"`
		Of        map[string][]string `json:"of,omitempty"`
		ForEach   []string            `json:"for_each,omitempty"`
	}{op, map[string][]string{}, chosen}
	for _, name := range op.Subjects() {
		values, key := params[name], snake(name)
		if params.Get("findBy") == outlier.FindByChannels {
			key = "channel_id"
		}
		if len(values) > 0 {
			identity.Of[key] = slices.Sorted(slices.Values(values))
		}
	}
	text, err := json.Marshal(identity)
	if err != nil {
		panic("job: a watermark is not plain data: " + err.Error())
	}
	return string(text)
}

// query returns the query for filled-in parameters, with the dates of the template's window. Assumed values
// cannot be checked.
func (r *resolver) query(t *template, params url.Values, watermark string) (outlier.Query, error) {
	if err := r.window(params, t.Window, watermark); err != nil {
		return outlier.Query{}, err
	}
	if r.done.Assumed {
		return outlier.UncheckedQuery(t.Op, params.Encode()), nil
	}
	query, err := outlier.NewQuery(t.Op, params)
	if err != nil {
		err = fmt.Errorf("%s in line %d: %w", r.job.Verb, r.job.Line, err)
	}
	return query, err
}

// window sets the publication dates if published_at is relative, such as "last 30d".
func (r *resolver) window(params url.Values, w window, watermark string) error {
	if w == (window{}) {
		return nil
	}
	var last time.Time
	if w.Since {
		var err error
		if last, err = r.in.Since(watermark); err != nil {
			return fmt.Errorf("published_at: find the last success: %w", err)
		}
	}
	outlier.SetRange(params, "publishedAt", w.begin(r.in.Now, last).UTC(), time.Time{})
	return nil
}

// wanted resolves the filter that selects the hits to enrich.
func (r *resolver) wanted() error {
	if r.job.wanted == nil {
		return nil
	}
	params, err := r.params(r.job.wanted, make([]string, len(r.job.Loops)))
	if err != nil {
		return fmt.Errorf("enrich: %w", err)
	}
	r.done.Wanted = params
	return r.window(params, r.job.wanted.Window, "")
}

// uniq removes duplicates.
func uniq(list []string) []string {
	seen := make(map[string]struct{}, len(list))
	return slices.DeleteFunc(list, func(s string) bool {
		known := len(seen)
		seen[s] = struct{}{}
		return len(seen) == known
	})
}

// channels replaces handles by channel ids. If the tables have a handle for several channels, it means the
// one that had it last.
func (r *resolver) channels(texts []string) ([]string, error) {
	var handles []string
	for _, text := range texts {
		if isHandle(text) && r.handles[text] == "" {
			handles = append(handles, text)
		}
	}
	if len(handles) > 0 {
		if err := r.lookUp(handles); err != nil {
			return nil, err
		}
	}
	texts = slices.Clone(texts)
	for i, text := range texts {
		if isHandle(text) {
			texts[i] = r.handles[text]
		}
	}
	return texts, nil
}

// isHandle reports whether the text for a channel is its handle, and not its id.
func isHandle(text string) bool { return strings.HasPrefix(text, "@") }

// lookUp adds the channel ids of handles, which it reads from the user's tables, to r.handles.
func (r *resolver) lookUp(handles []string) error {
	var quoted []string
	for _, handle := range handles {
		quoted = append(quoted, "'"+strings.ReplaceAll(handle, "'", "''")+"'")
	}
	pairs, err := r.in.IDs(fmt.Sprintf(handleSQL, strings.Join(quoted, ", ")), "channel_id")
	if err != nil {
		return fmt.Errorf("look for %s in the tables: %w", strings.Join(handles, ", "), err)
	}
	for _, pair := range pairs {
		handle, id, _ := strings.Cut(pair, " ")
		r.handles[handle] = id
	}
	unknown := slices.DeleteFunc(handles, func(handle string) bool { return r.handles[handle] != "" })
	if len(unknown) > 0 {
		return &UnknownHandlesError{uniq(unknown)}
	}
	return nil
}

// handleSQL returns "@name UC…" for each handle, from all tables that have handles and channel ids.
const handleSQL = `select handle || ' ' || channel_id as channel_id from (
	select '@' || ltrim(lower(channel_handle), '@') as handle, channel_id, last_seen_at from outliers
	union all select '@' || ltrim(lower(handle), '@'), channel_id, last_seen_at from channels
	union all select '@' || ltrim(lower(handle), '@'), channel_id, last_seen_at from found_channels)
where handle in (%s) and channel_id is not null
qualify row_number() over (partition by handle order by last_seen_at desc, channel_id) = 1`

// UnknownHandlesError lists handles in a job for which the tables have no channel id.
type UnknownHandlesError struct{ Handles []string }

func (e *UnknownHandlesError) Error() string {
	first := e.Handles[0]
	what := first + " is"
	if len(e.Handles) > 1 {
		what = strings.Join(e.Handles, ", ") + " are"
	}
	return fmt.Sprintf("%s not in the published tables, so the channel id is unknown; "+
		"find it with `outlierd find-channels %s`, or write the id of 24 characters",
		what, strings.TrimPrefix(first, "@"))
}
