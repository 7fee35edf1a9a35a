package job

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/url"
	"slices"
	"strings"
	"time"
	"unicode"

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

	// Unknown has the handles, and videos that stand for their channel, whose channel id the tables do not
	// have. The job asks for the others. A video is an id, a handle begins with @; a word of 11 letters may
	// be either.
	Unknown []string
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
// name the job and the place in the file: a [ListError] has everything that is wrong in the job's lists.
func (s *Spec) Resolve(in Inputs) (Resolved, error) {
	r := newResolver(s, in)
	err := r.resolveAll()
	if err == nil && len(r.wrong) > 0 {
		err = r.wrong
	}
	if err == nil && len(r.done.Unknown) > 0 && (s.once != nil || len(r.done.Asks)+len(r.done.IDs) == 0) {
		err = &UnknownChannelsError{r.done.Unknown}
	}
	if err != nil {
		return Resolved{}, fmt.Errorf("job %s: %w", s.Name, err)
	}
	return r.done, nil
}

type resolver struct {
	in      Inputs
	job     *Spec
	answers map[string][]value // results of files and SQL, each of which is read once
	known   map[string]string  // ids of channels by handle, and by the id of a video
	wrong   ListError
	empty   []Source // files without values
	done    Resolved

	reading bool // the job file, so that no other file is read: its values are [Assumed]
}

func newResolver(s *Spec, in Inputs) *resolver {
	return &resolver{in: in, job: s, answers: map[string][]value{}, known: map[string]string{}}
}

// CheckLists reads the lists of all jobs as their runs would, and returns everything that is wrong in them
// with its place in the job file. in.IDs runs SQL; a job whose SQL fails is not checked. Empty lists and
// unknown channels are added to the warnings.
func (c *Config) CheckLists(in Inputs) error {
	var wrong yamltree.Mistakes
	in.Since = func(string) (time.Time, error) { return time.Time{}, nil }
	topics := map[string]int{}
	for i := range c.Jobs {
		spec := &c.Jobs[i]
		path := fmt.Sprintf("jobs.%s: ", spec.Name)
		r := newResolver(spec, in)
		if err := r.resolveAll(); err != nil && len(r.wrong) == 0 {
			continue
		}
		topics[spec.Name] = len(r.done.Asks)
		for _, m := range r.wrong {
			wrong = append(wrong, c.Mistake(m.Place, path+m.Message, m.Hint))
		}
		for _, s := range r.empty {
			c.Warnings = append(c.Warnings,
				c.Mistake(s.At, path+fmt.Sprintf("the file %s has no values", s.Name), ""))
		}
		if len(r.done.Unknown) > 0 {
			unknown := &UnknownChannelsError{r.done.Unknown}
			c.Warnings = append(c.Warnings, c.Mistake(spec.At, path+unknown.Error(), ""))
		}
	}
	if spec, text, hint := c.shortAuto(func(s *Spec) int { return topics[s.Name] }); spec != nil {
		wrong = append(wrong, c.Mistake(spec.At, "jobs."+spec.Name+": "+text, hint))
	}
	if len(wrong) > 0 {
		return wrong
	}
	return nil
}

// checkFilled checks the requests of a job for all values of its for_each that are in the file.
func (b *builder) checkFilled(spec *Spec) {
	r := newResolver(spec, Inputs{Now: time.Now(), Assume: true,
		Since: func(string) (time.Time, error) { return time.Time{}, nil },
		IDs:   func(string, string) ([]string, error) { return nil, nil },
	})
	r.reading = true
	_ = r.resolveAll() // what else is wrong was reported where it stands
	for _, m := range r.wrong[:min(maxListed, len(r.wrong))] {
		b.file.Add(b.cfg.Mistake(m.Place, "jobs."+spec.Name+": "+m.Message, m.Hint))
	}
}

// maxListed limits how many mistakes of a job's lists are listed.
const maxListed = 20

// A ListError has everything that is wrong in the lists of a job, once each.
type ListError []yamltree.Mistake

func (e ListError) Error() string {
	var lines []string
	for _, m := range e[:min(maxListed, len(e))] {
		lines = append(lines, strings.TrimSuffix(m.Message+"; "+m.Hint, "; "))
	}
	if more := len(e) - maxListed; more > 0 {
		lines = append(lines, fmt.Sprintf("and %d more; `outlierd lint` lists all of them", more))
	}
	return strings.Join(lines, "\n")
}

// refuseValue notes what is wrong in a list. A value is used in several combinations and refused once.
func (r *resolver) refuseValue(s Source, text string) {
	hint := ""
	if s.Field == "" && tabular(s.File) {
		hint = "name the column that has the values: {file: rivals.csv, column: channel}"
	}
	if m := (yamltree.Mistake{Place: s.At, Message: text, Hint: hint}); !slices.Contains(r.wrong, m) {
		r.wrong = append(r.wrong, m)
	}
}

func (r *resolver) resolveAll() error {
	var lists [][]value
	for _, loop := range r.job.Loops {
		values, err := r.readValues("for_each "+loop.Name, loop.Source, "")
		if err != nil {
			return err
		}
		lists = append(lists, values)
	}
	if countCombinations(lists) > MaxAsks {
		return fmt.Errorf("for_each makes more than %d combinations", MaxAsks)
	}
	for chosen := range combinations(lists) {
		if err := r.resolveSearch(chosen); err != nil {
			return err
		}
	}
	r.done.IDs, r.done.Unknown = withoutRepeats(r.done.IDs), withoutRepeats(r.done.Unknown)
	return r.resolveWanted()
}

// resolveSearch resolves the job for one combination of the values of its for_each. A search that only an
// unknown channel would restrict is left out: without it, it would search for everything.
func (r *resolver) resolveSearch(chosen []value) error {
	params, err := r.fillParams(&r.job.ask, chosen)
	if err != nil || params == nil {
		return err
	}
	if r.job.Verb == VerbChannels || r.job.Verb == VerbVideos {
		r.done.IDs = append(r.done.IDs, params[ids]...)
		return nil
	}
	var reading url.Values
	if r.job.ask.Read != nil {
		if reading, err = r.fillParams(r.job.ask.Read, chosen); err != nil || reading == nil {
			return err
		}
	}
	if r.reading || len(r.wrong) > 0 || !r.job.ask.asksAnything(params) {
		return nil
	}
	items := textsOf(chosen)
	ask := Ask{Item: strings.Join(items, " / ")}
	ask.Queries, ask.Seeds = subjectsOf(r.job.ask.Op, params)
	ask.Watermark = watermarkOf(r.job.ask.Op, params, items)
	if ask.Query, err = r.newQuery(&r.job.ask, params, ask.Watermark); err != nil {
		return err
	}
	if r.job.ask.Read != nil {
		if ask.Read, err = r.newQuery(r.job.ask.Read, reading, ask.Watermark); err != nil {
			return err
		}
	}
	r.done.Asks = append(r.done.Asks, ask)
	return nil
}

// fillParams returns the parameters of a template, filled in and checked against the interface. Wrong values
// are noted and left out. It returns nil if the channels that restrict a search are unknown.
func (r *resolver) fillParams(t *template, chosen []value) (url.Values, error) {
	var values []string
	for i, loop := range r.job.Loops {
		values = append(values, loop.Name, chosen[i].text)
	}
	params := url.Values{}
	for _, name := range slices.Sorted(maps.Keys(t.Params)) {
		for _, pattern := range t.Params[name] {
			text, err := r.acceptValue(t, name, yamltree.Fill(pattern, values))
			if err != nil {
				if slices.Contains(t.hidden, pattern) {
					err = errNotShown
				}
				r.refuseFilled(name, pattern, chosen, err)
				continue
			}
			params.Add(name, text)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(t.From)) {
		source := t.From[name]
		found, err := r.readValues(snakeCase(name), source, t.sqlColumn(name))
		if err != nil {
			return nil, err
		}
		for _, v := range found {
			text, err := r.acceptValue(t, name, v.text)
			if err != nil {
				r.refuseValue(source, fmt.Sprintf("%s: %s: %v", snakeCase(name), source.placeOf(v.line), err))
				continue
			}
			params.Add(name, text)
		}
	}
	if isRestricted, err := r.identifyChannels(t, params); err != nil || !isRestricted {
		return nil, err
	}
	for _, name := range t.Op.Subjects() { // repeated ids go later, over all combinations
		if params.Has(name) {
			params[name] = withoutRepeats(params[name])
		}
	}
	return params, nil
}

// refuseFilled notes that a text is invalid with the chosen values of for_each.
func (r *resolver) refuseFilled(name, pattern string, chosen []value, err error) {
	at := Source{At: r.job.At}
	var with []string
	for i, loop := range r.job.Loops {
		if !strings.Contains(pattern, "${"+loop.Name+"}") {
			continue
		}
		at = loop.Source
		words := fmt.Sprintf("%s = %q", loop.Name, chosen[i].text)
		if n := chosen[i].node; n != nil {
			at.At, words = n.At(), loop.Name+" = "+n.Shown()
			if n.FromOutside() {
				err = errNotShown
			}
		} else if at.File != "" || at.SQL != "" {
			words += " from " + at.placeOf(chosen[i].line)
		}
		with = append(with, words)
	}
	r.refuseValue(at, fmt.Sprintf("%s: with %s: %v", snakeCase(name), strings.Join(with, " and "), err))
}

// errNotShown is what is wrong with a text that has a value from outside the file.
var errNotShown = errors.New("the text is not valid here")

// identifyChannels replaces handles, and videos that stand for their channels, by the ids of channels. Unknown ones
// are left out of a list of what is searched for. It returns false if one is elsewhere, because the search would not be
// restricted without it.
func (r *resolver) identifyChannels(t *template, params url.Values) (isRestricted bool, err error) {
	isRestricted = true
	for name, given := range params {
		if t.idColumn(name) != "channel_id" {
			continue
		}
		if err := r.lookUp(given); err != nil {
			return false, fmt.Errorf("%s: %w", snakeCase(name), err)
		}
		var found, unknown []string
		for _, text := range given {
			if id := r.known[text]; id != "" {
				found = append(found, id)
			} else {
				unknown = append(unknown, text)
			}
		}
		r.done.Unknown = append(r.done.Unknown, unknown...)
		switch {
		case len(unknown) > 0 && name != ids && !slices.Contains(t.Op.Subjects(), name):
			isRestricted = false
		case len(found) == 0:
			delete(params, name)
		default:
			params[name] = found
		}
	}
	return isRestricted, nil
}

// acceptValue checks a value against the interface, unless it is [Assumed].
func (r *resolver) acceptValue(t *template, name, text string) (string, error) {
	if r.done.Assumed && strings.Contains(text, Assumed) {
		return text, nil
	}
	return t.acceptText(name, text)
}

// readValues returns the current values of a source, without blank and repeated ones. what names the list in
// messages. A file that cannot be read is noted.
func (r *resolver) readValues(what string, s Source, column string) ([]value, error) {
	if s.File == "" && s.SQL == "" {
		values := valuesOf(s.Values)
		for i, n := range s.nodes {
			values[i].node = n
		}
		return values, nil
	}
	key := s.File + "\x00" + s.Field + "\x00" + s.SQL + "\x00" + column
	if known, ok := r.answers[key]; ok {
		return known, nil
	}
	values, err := r.fetchValues(what, s, column)
	if err != nil {
		return nil, err
	}
	seen := map[string]bool{"": true}
	values = slices.DeleteFunc(values, func(v value) bool {
		again := seen[strings.TrimSpace(v.text)] || seen[v.text]
		seen[v.text] = true
		return again
	})
	if len(values) == 0 && (s.SQL != "" || r.reading) && r.in.Assume {
		values, r.done.Assumed = []value{{text: Assumed}}, true
	}
	r.answers[key] = values
	return values, nil
}

// fetchValues reads the source's file or runs its SQL.
func (r *resolver) fetchValues(what string, s Source, column string) ([]value, error) {
	if s.SQL != "" {
		found, err := r.in.IDs(s.SQL, column)
		if err != nil {
			return nil, fmt.Errorf("%s: %s: %w", what, s.placeOf(0), err)
		}
		for i, text := range found { // titles of other people may contain anything
			found[i] = strings.Map(blankControl, text)
		}
		return valuesOf(found), nil
	}
	if r.reading {
		return nil, nil
	}
	values, wrong, err := s.readFile()
	if err != nil {
		wrong = []string{err.Error()}
	}
	for _, text := range wrong {
		r.refuseValue(s, what+": "+text)
	}
	if len(values)+len(wrong) == 0 {
		r.empty = append(r.empty, s)
	}
	return values, nil
}

// blankControl replaces control characters by blanks.
func blankControl(r rune) rune {
	if unicode.IsControl(r) {
		return ' '
	}
	return r
}

// valuesOf returns texts as values.
func valuesOf(texts []string) (values []value) {
	for _, text := range texts {
		values = append(values, value{text: text})
	}
	return values
}

// textsOf returns the texts of values.
func textsOf(values []value) (texts []string) {
	for _, v := range values {
		texts = append(texts, v.text)
	}
	return texts
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

// watermarkOf returns a text that identifies a search: its operation, its queries or seeds regardless of their
// order, and the values of for_each. Filters are not part of it, so editing one does not restart the search
// from its first window.
func watermarkOf(op outlier.Operation, params url.Values, chosen []string) string {
	identity := struct {
		Operation outlier.Operation   `json:"operation"`
		Of        map[string][]string `json:"of,omitempty"`
		ForEach   []string            `json:"for_each,omitempty"`
	}{op, map[string][]string{}, chosen}
	for _, name := range op.Subjects() {
		values, key := params[name], snakeCase(name)
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

// newQuery returns the query for filled-in parameters, with the dates of the template's window. Assumed values
// cannot be checked.
func (r *resolver) newQuery(t *template, params url.Values, watermark string) (outlier.Query, error) {
	if err := r.setWindow(params, t.Window, watermark); err != nil {
		return outlier.Query{}, err
	}
	if r.done.Assumed {
		return outlier.UncheckedQuery(t.Op, params.Encode()), nil
	}
	query, err := outlier.NewQuery(t.Op, params)
	if err != nil {
		err = fmt.Errorf("%s in line %d of %s: %w", r.job.Verb, r.job.At.Line, r.job.At.File, err)
	}
	return query, err
}

// setWindow sets the publication dates if published_at is relative, such as "last 30d".
func (r *resolver) setWindow(params url.Values, w window, watermark string) error {
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
	outlier.SetRange(params, "publishedAt", w.beginAt(r.in.Now, last, r.job.zone).UTC(), time.Time{})
	return nil
}

// resolveWanted resolves the filter that selects the hits to enrich.
func (r *resolver) resolveWanted() error {
	if r.job.wanted == nil {
		return nil
	}
	params, err := r.fillParams(r.job.wanted, make([]value, len(r.job.Loops)))
	if err == nil && params == nil {
		err = &UnknownChannelsError{r.done.Unknown}
	}
	if err != nil {
		return fmt.Errorf("enrich: %w", err)
	}
	r.done.Wanted = params
	return r.setWindow(params, r.job.wanted.Window, "")
}

// withoutRepeats removes duplicates.
func withoutRepeats(list []string) []string {
	seen := make(map[string]struct{}, len(list))
	return slices.DeleteFunc(list, func(s string) bool {
		known := len(seen)
		seen[s] = struct{}{}
		return len(seen) == known
	})
}

// IdentifyChannels returns the ids of channels that [outlier.ParseChannel] has returned, by what it returned;
// "" for those that the tables do not have. find runs SQL as in [Inputs].
func IdentifyChannels(names []string, find func(sql, column string) ([]string, error)) (map[string]string, error) {
	r := newResolver(nil, Inputs{IDs: find})
	return r.known, r.lookUp(names)
}

// lookUp adds the channel ids of ids, handles and videos to r.known, from the user's tables; "" for what they do
// not have. A word that may be both is a video if they have one, as its id is too long to be a handle by
// chance.
func (r *resolver) lookUp(given []string) error {
	var wanted, names []string
	for _, text := range given {
		if _, known := r.known[text]; outlier.IsChannelID(text) || text == Assumed {
			r.known[text] = text
		} else if !known {
			wanted = append(wanted, text)
			names = append(names, sqlText(text), sqlText("@"+strings.ToLower(text)))
		}
	}
	if len(wanted) == 0 {
		return nil
	}
	pairs, err := r.in.IDs(fmt.Sprintf(channelSQL, strings.Join(names, ", ")), "channel_id")
	if err != nil {
		return fmt.Errorf("look for %s in the tables: %w", strings.Join(wanted, ", "), err)
	}
	found := map[string]string{}
	for _, pair := range pairs {
		name, id, _ := strings.Cut(pair, " ")
		found[name] = id
	}
	for _, text := range wanted {
		r.known[text] = cmp.Or(found[text], found["@"+strings.ToLower(text)])
	}
	return nil
}

func sqlText(text string) string { return "'" + strings.ReplaceAll(text, "'", "''") + "'" }

// channelSQL returns "name UC…" for the given handles and videos, from all tables that have channel ids
// beside them. If several channels had a handle, it means the last one.
const channelSQL = `select name || ' ' || channel_id as channel_id from (
	select '@' || ltrim(lower(channel_handle), '@') as name, channel_id, last_seen_at from outliers
	union all select '@' || ltrim(lower(handle), '@'), channel_id, last_seen_at from channels
	union all select '@' || ltrim(lower(handle), '@'), channel_id, last_seen_at from found_channels
	union all select video_id, channel_id, last_seen_at from outliers
	union all select video_id, channel_id, last_seen_at from videos
	union all select video_id, channel_id, last_seen_at from channel_uploads)
where name in (%s) and channel_id is not null
qualify row_number() over (partition by name order by last_seen_at desc, channel_id) = 1`

// UnknownChannelsError lists handles and videos in a job for which the tables have no channel id; see
// [Resolved.Unknown].
type UnknownChannelsError struct{ Channels []string }

func (e *UnknownChannelsError) Error() string {
	what, whose := e.Channels[0]+" is", "its channel id is"
	if len(e.Channels) > 1 {
		what, whose = strings.Join(e.Channels, ", ")+" are", "their channel ids are"
	}
	return fmt.Sprintf("%s not in the published tables, so %s unknown; name one of the channel's videos instead, "+
		"whose channel a run finds for free, or its id of 24 characters, or search with "+
		"`outlierd find-channels %s` or `outlierd channels resolve FILE`", what, whose,
		Quoted(strings.TrimPrefix(e.Channels[0], "@")))
}

// Videos returns those that may be videos, whose channels a run finds for free.
func (e *UnknownChannelsError) Videos() (videos []string) {
	for _, name := range e.Channels {
		if !strings.HasPrefix(name, "@") {
			videos = append(videos, name)
		}
	}
	return videos
}
