package query

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"outlierd/sinks/duckdb/database"
)

// Outliers are filters, an order and a page of outliers. Filters with the zero value are not applied.
type Outliers struct {
	Words  string              // each is a part of the title or of the channel's name, in any case, or a #tag
	Week   bool                // found for the first time in the seven days up to the newest answer
	Chosen map[string][]string // values of the [Facets] and of the [Texts], by name

	ChannelID string

	Where   []string            // conditions over the table outliers AS t
	Only    []string            // ids; nil for all
	Without []string            // ids that are not wanted
	Tags    map[string][]string // the ids with each tag, which is in lower case

	Now    time.Time
	Order  string // one of the keys of [Orders]; "" for the strongest first
	Offset int
	Limit  int
}

// Orders are the columns by which outliers can be sorted, descending.
var Orders = map[string]string{
	"ratio": "average_views_ratio", "found": "first_seen_at", "score": "z_score", "views": "view_count",
	"gain": gain, "published": "published_at", "median": medianRatio, "subscribers": "channel_subscribers",
}

const (
	// gain is how many views a video gained per day since it was seen on an earlier day.
	gain = "(t.view_count - t.previous_view_count) * 8.64e10 / nullif(epoch_us(t.last_seen_at) - epoch_us(t.previous_seen_at), 0)"
	// medianRatio is how many times the views are of the channel's median.
	medianRatio = "t.view_count / nullif((SELECT any_value(s.median_views_estimate) FROM channel_statistics AS s WHERE " + sampled + "), 0)"
	// sampled relates a video to the statistics of its channel: those of videos, or of shorts.
	sampled = "s.channel_id = t.channel_id AND s.kind = CASE WHEN t.kind = 'short' THEN 'short' ELSE 'video' END"
	// topic is what a hit was searched for.
	topic = "coalesce(item, array_to_string(queries, ', '))"
	// steady selects the videos of channels whose views do not come from a few videos.
	steady = "t.channel_id NOT IN (SELECT s.channel_id FROM channel_statistics AS s " +
		"WHERE s.view_variation_coefficient > 1.5 AND s.channel_id IS NOT NULL)"
	// several selects the videos that several searches found.
	several = "t.video_id IN (SELECT video_id FROM outliers_history GROUP BY video_id HAVING count(DISTINCT " + topic + ") > 1)"
)

// Setup prepares a publication for [Outliers]: what only the histories and the channels have is put into small
// temporary tables. place is the rowid of an outlier.
const Setup = "CREATE TEMP TABLE brought AS SELECT o.rowid::INTEGER AS place, h.topic FROM outliers AS o JOIN (" +
	"SELECT DISTINCT video_id, " + topic + " AS topic FROM outliers_history) AS h ON h.video_id = o.video_id WHERE h.topic <> '';" +
	"CREATE TEMP TABLE several AS SELECT place FROM brought GROUP BY place HAVING count(*) > 1;" +
	"CREATE TEMP TABLE steady AS SELECT t.rowid::INTEGER AS place FROM outliers AS t WHERE " + steady

// Facet is a property by which outliers are filtered.
type Facet struct {
	Name, Title string
	Several     bool // several choices mean any of them
	Every       bool // several choices mean all of them; with neither, the last one counts
	Choices     []Choice
}

// Choice is a value of a facet.
type Choice struct {
	Value, Label string

	where string // selects it in the table outliers AS t
}

// Facets are the facets in the order of the page. Those without choices here have the values of the data, the most
// frequent first.
var Facets = []Facet{
	{Name: "topic", Title: "Topic", Several: true},
	{Name: "ratio", Title: "Times average", Choices: []Choice{
		{"30", "30 and more", "t.average_views_ratio >= 30"}, {"10", "10 and more", "t.average_views_ratio >= 10"},
		{"5", "5 and more", "t.average_views_ratio >= 5"}, {"3", "3 and more", "t.average_views_ratio >= 3"},
		{"below", "below average", "t.average_views_ratio < 1"}}},
	{Name: "days", Title: "Published", Choices: []Choice{
		{Value: "7", Label: "last 7 days"}, {Value: "30", Label: "last 30 days"}, {Value: "90", Label: "last 90 days"}}},
	{Name: "size", Title: "Channel size", Several: true, Choices: []Choice{
		{"10K", "below 10K", "t.channel_subscribers < 10000"},
		{"50K", "10K to 50K", "t.channel_subscribers >= 10000 AND t.channel_subscribers < 50000"},
		{"250K", "50K to 250K", "t.channel_subscribers >= 50000 AND t.channel_subscribers < 250000"},
		{"1M", "250K to 1M", "t.channel_subscribers >= 250000 AND t.channel_subscribers < 1000000"},
		{"more", "above 1M", "t.channel_subscribers >= 1000000"}}},
	{Name: "kind", Title: "Type", Choices: []Choice{
		{"video", "video", "t.kind = 'video'"}, {"short", "short", "t.kind = 'short'"}}},
	{Name: "language", Title: "Language", Several: true},
	{Name: "more", Title: "More", Every: true, Choices: []Choice{
		{"rising", "still rising, 5 % a day and more", gain + " >= 0.05e0 * t.previous_view_count"},
		{"several", "found by several searches", several},
		{"steady", "steady channels only", steady}, {"faceless", "faceless", "t.is_faceless"}}},
}

// Label names a value for people; "" if it has no other name.
func (f *Facet) Label(value string) string {
	for _, c := range f.Choices {
		if c.Value == value {
			return c.Label
		}
	}
	return ""
}

// conditionOf returns the condition of a choice. DuckDB would calculate the time for each row.
func (o *Outliers) conditionOf(f *Facet, c Choice) string {
	if f.Name != "days" {
		return c.where
	}
	days, _ := strconv.ParseFloat(c.Value, 64)
	at := o.Now.Add(-time.Duration(min(days, 100_000) * 24 * float64(time.Hour)))
	return "t.published_at >= " + database.Text(at.UTC().Format(time.RFC3339)) + "::TIMESTAMPTZ"
}

// chosenValues returns the condition for the chosen values of a facet; "" without one.
func (o *Outliers) chosenValues(f *Facet) string {
	var wanted []string
	values := o.Chosen[f.Name]
	if !f.Several && !f.Every && len(values) > 1 {
		values = values[len(values)-1:]
	}
	for _, v := range values {
		n, err := strconv.ParseFloat(v, 64)
		i := slices.IndexFunc(f.Choices, func(c Choice) bool { return c.Value == v })
		switch {
		case f.Name == "topic":
			wanted = append(wanted, "t.video_id IN (SELECT video_id FROM outliers_history WHERE "+topic+" = "+database.Text(v)+")")
		case f.Name == "language":
			wanted = append(wanted, "t.language = lower("+database.Text(v)+")")
		case i >= 0:
			wanted = append(wanted, o.conditionOf(f, f.Choices[i]))
		case err == nil && f.Name == "ratio":
			wanted = append(wanted, fmt.Sprintf("t.average_views_ratio >= %g::DOUBLE", n))
		case err == nil && f.Name == "days":
			wanted = append(wanted, o.conditionOf(f, Choice{Value: v}))
		default:
			wanted = append(wanted, "false") // no outlier has such a value
		}
	}
	if f.Every {
		return strings.Join(wanted, " AND ")
	}
	if len(wanted) > 1 {
		return "(" + strings.Join(wanted, " OR ") + ")"
	}
	return strings.Join(wanted, "")
}

// A Text is a filter by a text, which has no list of values.
type Text struct{ Name, where string }

// Texts are such filters: a part of the query that found an outlier, the job that did, the channel by its id, its
// handle or a part of its name, and the id of a video that a related search compared it with.
var Texts = []Text{
	{"query", "t.video_id IN (SELECT video_id FROM outliers_history WHERE contains(lower(array_to_string(queries, chr(10))), lower(?)))"},
	{"job", "t.video_id IN (SELECT video_id FROM outliers_history WHERE _job = ?)"},
	{"channel", "(t.channel_id = ? OR ltrim(t.channel_handle, '@') = ltrim(?, '@') OR contains(lower(t.channel_title), lower(?)))"},
	{"seed", "t.video_id IN (SELECT video_id FROM outliers_history WHERE list_contains(seeds, ?))"},
}

// FilterNames returns the names of the facets and of the filters by a text.
func FilterNames() (names []string) {
	for i := range Facets {
		names = append(names, Facets[i].Name)
	}
	for _, t := range Texts {
		names = append(names, t.Name)
	}
	return names
}

// textConditions returns the conditions that read texts of all outliers or searches.
func (o *Outliers) textConditions() (where []string) {
	want := func(condition, value string) {
		if value != "" {
			where = append(where, strings.ReplaceAll(condition, "?", database.Text(value)))
		}
	}
	for _, word := range strings.Fields(o.Words) {
		if tag, is := strings.CutPrefix(word, "#"); is {
			where = append(where, "t.video_id IN "+listTexts(o.Tags[strings.ToLower(tag)]))
			continue
		}
		want("(contains(lower(t.title), lower(?)) OR contains(lower(t.channel_title), lower(?)))", word)
	}
	for _, t := range Texts {
		for _, value := range o.Chosen[t.Name] {
			want(t.where, value)
		}
	}
	return where
}

// setConditions returns the conditions that name a set of videos.
func (o *Outliers) setConditions() (where []string) {
	if o.Week {
		where = append(where, "t.video_id IN (SELECT video_id FROM new_this_week)")
	}
	if o.ChannelID != "" {
		where = append(where, "t.channel_id = "+database.Text(o.ChannelID))
	}
	if o.Only != nil {
		where = append(where, "t.video_id IN "+listTexts(o.Only))
	}
	if len(o.Without) > 0 {
		where = append(where, "t.video_id NOT IN "+listTexts(o.Without))
	}
	return append(where, o.Where...)
}

// listTexts returns texts as a list of SQL, which is never empty.
func listTexts(texts []string) string {
	quoted := []string{"''"}
	for _, t := range texts {
		quoted = append(quoted, database.Text(t))
	}
	return "(" + strings.Join(quoted, ", ") + ")"
}

// Question returns a question about these outliers. What finds those with the words reads all texts, so it runs once
// before all questions about them.
func (o Outliers) Question(sql string, row func([]any) error) Question {
	return Question{SQL: sql, Before: o.search(), Row: row}
}

// search returns SQL that must run before the queries of these outliers; "" for none.
func (o Outliers) search() string {
	where := o.textConditions()
	if len(where) == 0 {
		return ""
	}
	return "CREATE OR REPLACE TEMP TABLE matched AS SELECT t.rowid::INTEGER AS place FROM outliers AS t WHERE " +
		strings.Join(where, " AND ")
}

// useTemporaryTables replaces conditions by those over the temporary tables.
func useTemporaryTables(condition string) string {
	condition = strings.ReplaceAll(condition, several, "t.rowid IN (FROM several)")
	condition = strings.ReplaceAll(condition, steady, "t.rowid IN (FROM steady)")
	condition = strings.ReplaceAll(condition, "t.video_id IN (SELECT video_id FROM outliers_history WHERE "+topic+" = ",
		"t.rowid IN (SELECT place FROM brought WHERE topic = ")
	return strings.ReplaceAll(condition, "t.video_id IN (SELECT video_id FROM new_this_week)",
		"(epoch_us(t.first_seen_at) > "+newest+" - "+week+" AND t.first_seen_at IS DISTINCT FROM t.imported_seen_at)")
}

// allConditions returns the condition of all filters but the facets.
func (o *Outliers) allConditions() string {
	where := append([]string{"true"}, o.setConditions()...)
	if len(o.textConditions()) > 0 {
		where = append(where, "t.rowid IN (FROM matched)")
	}
	return useTemporaryTables(strings.Join(where, " AND "))
}

func (o *Outliers) order() string {
	if order := Orders[o.Order]; order != "" {
		return order
	}
	return Orders["ratio"]
}

// Plain returns the query for all matching outliers as a person would write it. It needs only the published tables.
func (o Outliers) Plain() string {
	where := append(o.setConditions(), o.textConditions()...)
	for i := range Facets {
		if c := o.chosenValues(&Facets[i]); c != "" {
			where = append(where, c)
		}
	}
	filter := ""
	if len(where) > 0 {
		filter = "\nWHERE " + strings.Join(where, "\n\tAND ")
	}
	return "SELECT t.video_id, t.title, t.channel_title, t.average_views_ratio, t.z_score, t.view_count,\n\tround(" + gain +
		") AS views_per_day, t.channel_subscribers,\n\tt.published_at, t.first_seen_at, t.kind, t.language, t.duration, " +
		"'https://youtu.be/' || t.video_id AS link\nFROM outliers AS t" + filter + "\nORDER BY " + o.order() + " DESC NULLS LAST, t.video_id"
}

// Cards returns a query for a page of outliers. Its columns are video_id, title, link, channel_id, channel,
// subscribers, kind, language, seconds, views, times the average, score, published_at, first_seen_at, views gained a
// day, times the median, whether few videos have most of the channel's views, and its topics. Equal rows are sorted by
// id, so that pages do not overlap.
func (o Outliers) Cards() string {
	return o.top() + fmt.Sprintf(`SELECT t.video_id, t.title, %s, t.channel_id, coalesce(t.channel_title, t.channel_handle), t.channel_subscribers,
			t.kind, t.language, t.duration, t.view_count, t.average_views_ratio, t.z_score, t.published_at, t.first_seen_at,
			%s AS gain, t.view_count / nullif(s.median_views_estimate, 0) AS median_ratio,
			coalesce(s.view_variation_coefficient > 1.5, false) AS one_hit, b.topics
		FROM top JOIN outliers AS t ON t.rowid = top.place LEFT JOIN channel_statistics AS s ON %s
			LEFT JOIN (SELECT place, list(topic ORDER BY topic) AS topics FROM brought WHERE place IN (SELECT place FROM top)
				GROUP BY place) AS b ON b.place = top.place
		ORDER BY top.nth`, VideoLink, gain, sampled)
}

// Rows returns a query for the same page of outliers with the columns of their table.
func (o Outliers) Rows() string {
	return o.top() + "SELECT t.* FROM top JOIN outliers AS t ON t.rowid = top.place ORDER BY top.nth"
}

// filter returns the condition of all filters.
func (o *Outliers) filter() string {
	where := o.allConditions()
	for i := range Facets {
		if c := o.chosenValues(&Facets[i]); c != "" {
			where += " AND " + useTemporaryTables(c)
		}
	}
	return where
}

// top returns the beginning of a query for a page of outliers: the table top has their places.
func (o Outliers) top() string {
	return fmt.Sprintf(`WITH top AS MATERIALIZED (SELECT place, row_number() OVER () AS nth FROM (
			SELECT t.rowid AS place FROM outliers AS t WHERE %s ORDER BY %s DESC NULLS LAST, t.video_id LIMIT %d OFFSET %d)) `,
		o.filter(), o.order(), o.Limit, o.Offset)
}

// Total returns a query for the number of outliers in total, as a row of [Outliers.Counts].
func (o Outliers) Total() string {
	return "SELECT '', '', count(*) FROM outliers AS t WHERE " + o.filter()
}

// Counts returns a query for the number of outliers in total, and of each choice of each facet: the name of the facet,
// the value, and how many outliers have it that all other filters select. The name of the total is "". It counts in a
// cube of bits: one for each choice, and one for each facet with chosen values.
func (o Outliers) Counts() string {
	var bits []string
	bit := func(condition string) string {
		bits = append(bits, fmt.Sprintf("CASE WHEN %s THEN %d ELSE 0 END", useTemporaryTables(condition), 1<<len(bits)))
		return fmt.Sprintf("bits & %d > 0", 1<<(len(bits)-1))
	}
	chosen := map[string]string{}
	ofTopics := o.allConditions()
	for i := range Facets {
		if c := o.chosenValues(&Facets[i]); c != "" {
			chosen[Facets[i].Name] = bit(c)
			if Facets[i].Name != "topic" {
				ofTopics += " AND " + useTemporaryTables(c)
			}
		}
	}
	others := func(facet string) string {
		where := "true"
		for i := range Facets {
			if name := Facets[i].Name; name != facet && chosen[name] != "" {
				where += " AND " + chosen[name]
			}
		}
		return where
	}
	names, values, sums := []string{"''"}, []string{"''"}, []string{"sum(n) FILTER (" + others("") + ")"}
	for i := range Facets {
		f := &Facets[i]
		where := others(f.Name)
		for _, c := range f.Choices {
			names, values = append(names, database.Text(f.Name)), append(values, database.Text(c.Value))
			if f.Every { // its choices narrow one another
				where = others("")
			}
			sums = append(sums, fmt.Sprintf("sum(n) FILTER (%s AND %s)", bit(o.conditionOf(f, c)), where))
		}
	}
	from := fmt.Sprintf("SELECT t.language, (%s)::BIGINT AS bits FROM outliers AS t WHERE %s", strings.Join(bits, " + "), o.allConditions())
	topics := "brought"
	if ofTopics != "true" {
		topics = "brought SEMI JOIN (SELECT t.rowid AS place FROM outliers AS t WHERE " + ofTopics + ") AS p ON p.place = brought.place"
	}
	return fmt.Sprintf(`WITH cube AS MATERIALIZED (SELECT bits, language, count(*) AS n FROM (%s) GROUP BY ALL)
		SELECT unnest([%s]) AS facet, unnest([%s]) AS value, unnest([%s])::BIGINT AS n FROM cube
		UNION ALL (SELECT 'topic', topic, count(*) AS n FROM %s GROUP BY topic ORDER BY n DESC, topic LIMIT %d)
		UNION ALL (SELECT 'language', language, sum(n)::BIGINT AS n FROM cube WHERE language IS NOT NULL AND %s
			GROUP BY language ORDER BY n DESC, language LIMIT %[6]d)`,
		from, strings.Join(names, ", "), strings.Join(values, ", "), strings.Join(sums, ", "), topics, maxChoices, others("language"))
}

// maxChoices is the maximum number of topics and of languages to choose from.
const maxChoices = 100
