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

// Inputs is what resolving a job needs from outside the file.
type Inputs struct {
	Now time.Time

	// Since is the service's time at which page one of the last complete search with
	// this watermark was asked for, or zero if there was none.
	Since func(watermark string) (time.Time, error)

	// IDs runs SQL over the user's tables and returns the texts of one column: of the
	// named one, or of the first if column is "".
	IDs func(sql, column string) ([]string, error)

	// Assume takes one row for granted where SQL finds none, so that what the job will
	// ask for can be priced before there is anything to find.
	Assume bool
}

// Assumed stands for what SQL does not find yet; see [Inputs].
const Assumed = "(what its SQL finds)"

// Resolved is what a job asks for now: either asks or ids of free data.
type Resolved struct {
	Asks []Ask
	IDs  []string // of channels and videos: without repetitions, in order

	// Wanted are the parameters of the [outlier.HitFilter] for hits to fetch something for.
	Wanted url.Values

	Assumed bool // [Assumed] stands in it somewhere
}

// Ask is one search of a job, each page of which is one paid request, or the start of
// one scan.
type Ask struct {
	Op             outlier.Operation
	Params         url.Values // as they are sent, without from and size
	Item           string     // the values of for_each, joined by " / "
	Queries, Seeds []string   // what is searched for, and what it is to resemble

	// Watermark identifies the search through time: what is asked for and where, but
	// not its filters. It is short JSON.
	Watermark string

	Read   *Ask // of a scan: the search that reads its results, which yet lacks referenceId
	Afresh bool // its window begins with `first`, since nothing is known
}

// Resolve is what the job asks for, given what is known now. It reads files and may
// run SQL, and changes nothing. Its errors name the job and the place in the file.
func (s *Spec) Resolve(in Inputs) (Resolved, error) {
	r := resolver{in: in, job: s, answers: map[string][]string{}, handles: map[string]string{}}
	if err := r.all(); err != nil {
		return Resolved{}, fmt.Errorf("job %s: %w", s.Name, err)
	}
	return r.done, nil
}

// MaxAsks bounds what one run may ask: a cross product is soon larger than anybody
// meant it to be.
const MaxAsks = 10_000

type resolver struct {
	in      Inputs
	job     *Spec
	answers map[string][]string // of files and SQL, each of which is asked once
	handles map[string]string   // ids of channels
	done    Resolved
}

func (r *resolver) all() error {
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
		if err := r.one(chosen); err != nil {
			return err
		}
	}
	r.done.IDs = uniq(r.done.IDs)
	return r.wanted()
}

// wanted resolves for which hits to fetch something.
func (r *resolver) wanted() error {
	if r.job.wanted == nil {
		return nil
	}
	params, err := r.params(r.job.wanted, make([]string, len(r.job.Loops)))
	if err != nil {
		return fmt.Errorf("enrich: %w", err)
	}
	hits := Ask{Params: params}
	err = r.window(&hits, r.job.wanted.Window)
	r.done.Wanted = hits.Params
	return err
}

// product is how many combinations lists have, or a number above MaxAsks.
func product(lists [][]string) int {
	n := 1
	for _, l := range lists {
		if n = n * len(l); n > MaxAsks {
			return n
		}
	}
	return n
}

// uniq leaves repetitions out.
func uniq(list []string) []string {
	seen := make(map[string]struct{}, len(list))
	return slices.DeleteFunc(list, func(s string) bool {
		known := len(seen)
		seen[s] = struct{}{}
		return len(seen) == known
	})
}

// one resolves the job for one combination of the values of its for_each.
func (r *resolver) one(chosen []string) error {
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
	ask := Ask{Op: r.job.ask.Op, Params: params, Item: strings.Join(chosen, " / ")}
	ask.subject()
	ask.Watermark = watermark(&ask, chosen)
	if read := r.job.ask.Read; read != nil {
		params, err := r.params(read, chosen)
		if err != nil {
			return err
		}
		results := ask
		results.Op, results.Params = read.Op, params
		if err := r.window(&results, read.Window); err != nil {
			return err
		}
		ask.Read = &results
	}
	if err := r.window(&ask, r.job.ask.Window); err != nil {
		return err
	}
	r.done.Asks = append(r.done.Asks, ask)
	return nil
}

// asks reports whether params ask for something. A search whose SQL found nothing to
// search for would otherwise be one for everything, and be paid for.
func (t *template) asks(params url.Values) bool {
	has := false // the job has a subject, though it may be empty now
	for _, name := range subjects {
		_, given := t.From[name]
		has = has || given || t.Params.Has(name)
		if params.Has(name) {
			return true
		}
	}
	return !has
}

// params are the parameters of a template, filled in and held to the interface.
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
	for _, name := range subjects { // ids are held against those of all combinations
		if params.Has(name) {
			params[name] = uniq(params[name])
		}
	}
	return params, nil
}

// accept holds a value to the interface, unless it stands for what SQL will find.
func (r *resolver) accept(t *template, name, text string) (string, error) {
	if r.done.Assumed && strings.Contains(text, Assumed) {
		return text, nil
	}
	return t.accept(name, text)
}

// place says where a value came from that stands in no literal list.
func (s Source) place() string {
	if s.File != "" {
		return "the file " + s.File
	}
	return fmt.Sprintf("the SQL in line %d", s.Line)
}

// read is the list that a source gives now. Blank values are left out.
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

// fetch reads a file, or runs SQL.
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

// subject says what the ask looks for, or what its hits are to resemble.
func (a *Ask) subject() {
	for _, name := range subjects {
		if name == "query" && a.Params.Get("findBy") != outlier.FindByChannels {
			a.Queries = append(a.Queries, a.Params[name]...)
		} else {
			a.Seeds = append(a.Seeds, a.Params[name]...)
		}
	}
}

// watermark identifies what is asked: the operation, the queries or seeds in any
// order, and the values of for_each. A filter may be changed without beginning anew.
func watermark(a *Ask, chosen []string) string {
	identity := struct {
		Operation outlier.Operation   `json:"operation"`
		Of        map[string][]string `json:"of,omitempty"`
		ForEach   []string            `json:"for_each,omitempty"`
	}{a.Op, map[string][]string{}, chosen}
	for _, name := range subjects {
		values, key := a.Params[name], snake(name)
		if a.Params.Get("findBy") == outlier.FindByChannels {
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

// window sets the dates of an ask whose published_at is given in words.
func (r *resolver) window(a *Ask, w window) error {
	if w == (window{}) {
		return nil
	}
	var last time.Time
	if w.Since {
		var err error
		if last, err = r.in.Since(a.Watermark); err != nil {
			return fmt.Errorf("published_at: find the last success: %w", err)
		}
		a.Afresh = last.IsZero()
	}
	from := w.begin(r.in.Now, last).UTC()
	outlier.SetRange(a.Params, "publishedAt", from, time.Time{})
	return nil
}

// isHandle reports whether the text for a channel is its handle, and not its id.
func isHandle(text string) bool { return strings.HasPrefix(text, "@") }

// UnknownHandlesError says of which channels a job names by handle the tables do not have
// the id.
type UnknownHandlesError struct{ Handles []string }

func (e *UnknownHandlesError) Error() string {
	first := e.Handles[0]
	what := first + " is"
	if len(e.Handles) > 1 {
		what = strings.Join(e.Handles, ", ") + " are"
	}
	return fmt.Sprintf("%s in none of the published tables, so the channel id is not known; "+
		"find it with `outlierd find-channels %s`, or write the id of 24 characters",
		what, strings.TrimPrefix(first, "@"))
}

// channels puts the ids of channels in the place of their handles. A handle that the tables
// show for several channels means the one that had it last.
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

// lookUp finds the ids of channels in the user's tables.
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

// handleSQL gives handles with ids, as "@name UC…", from every table that shows both.
const handleSQL = `select handle || ' ' || channel_id as channel_id from (
	select '@' || ltrim(lower(channel_handle), '@') as handle, channel_id, last_seen_at from outliers
	union all select '@' || ltrim(lower(handle), '@'), channel_id, last_seen_at from channels
	union all select '@' || ltrim(lower(handle), '@'), channel_id, last_seen_at from found_channels)
where handle in (%s) and channel_id is not null
qualify row_number() over (partition by handle order by last_seen_at desc, channel_id) = 1`
