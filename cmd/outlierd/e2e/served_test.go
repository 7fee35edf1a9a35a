package e2e

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"outlierd/cmd/outlierd/programtest"
	"outlierd/outlier"
	"outlierd/outlier/simulator"
)

// object is a JSON object.
type object = map[string]any

// served computes the expected rows of every table from the service's answers, without the program's decoder:
// columns are named as the leaves of the JSON, in snake_case, and nothing of an answer may be lost.
type served struct {
	*testing.T
	wire http.RoundTripper
	rows map[string][]object // by table, in the order in which they were served
}

// servedBy repeats the calls at a service with the same seed. It must be frozen, so that it gives the same answers.
func servedBy(t *testing.T, o simulator.Options, calls []simulator.Call) map[string][]object {
	s := &served{T: t, wire: simulator.New(o).Transport(), rows: map[string][]object{}}
	ranks := map[string]int{}
	for _, call := range calls {
		switch {
		case call.Entity == "-----------": // a request for the service's time, which is not stored
		case call.Result == simulator.Missing:
			s.add("missing", object{"endpoint": string(call.Op), "id": call.Entity, "status": 404.0})
		case call.Result != simulator.Served:
		case call.Op == outlier.OpSearch:
			_, query, _ := strings.Cut(call.Identity, "  ")
			s.page(query, ranks)
		default:
			s.data(call.Op, call.Entity)
		}
	}
	return s.rows
}

func (s *served) add(table string, row object) { s.rows[table] = append(s.rows[table], row) }

func (s *served) ask(path, query string) object {
	s.Helper()
	req := &http.Request{
		Method: http.MethodGet, Header: http.Header{"Authorization": {"Api-Key demo"}},
		URL: &url.URL{Scheme: "http", Host: "localhost", Path: path, RawQuery: query}, Host: "localhost",
	}
	answer, err := s.wire.RoundTrip(req.WithContext(s.Context()))
	if err != nil {
		s.Fatal(err)
	}
	defer answer.Body.Close()
	body, err := io.ReadAll(answer.Body)
	if err != nil || answer.StatusCode != http.StatusOK {
		s.Fatalf("%s?%s: status %d, error %v", path, query, answer.StatusCode, err)
	}
	var o object
	if err := json.Unmarshal(body, &o); err != nil {
		s.Fatal(err)
	}
	return o
}

func (s *served) page(query string, ranks map[string]int) {
	params, err := url.ParseQuery(query)
	if err != nil {
		s.Fatal(err)
	}
	search := strings.Join(params["query"], "+")
	for _, hit := range list(s.ask("/search/outliers", query)["hits"]) {
		ranks[search]++
		row := flat(hit, map[string]string{"id": "video_id", "time": "service_time"})
		s.add("outliers", row)
		history := object{"queries": anys(params["query"]), "rank": float64(ranks[search]), "source": "search"}
		for name, value := range row {
			history[name] = value
		}
		s.add("outliers_history", history)
	}
}

// anys returns a list as encoding/json decodes it.
func anys(texts []string) []any {
	var all []any
	for _, t := range texts {
		all = append(all, t)
	}
	return all
}

func (s *served) data(op outlier.Operation, id string) {
	request, err := outlier.DataRequest(op, id)
	if err != nil {
		s.Fatal(err)
	}
	answer := s.ask(request.Path(), "")
	switch op {
	case outlier.OpChannelVideos:
		s.channel(answer, "video", "videos")
	case outlier.OpChannelShorts:
		s.channel(answer, "short", "shorts")
	case outlier.OpDetails:
		for _, item := range list(answer["items"]) {
			row := flat(item, map[string]string{"id": "video_id"})
			row["service_time"] = answer["time"]
			s.add("videos", row)
			s.add("videos_history", row)
		}
	case outlier.OpComments:
		for _, item := range list(answer["items"]) {
			comments := list(item["comments"])
			count := object{
				"video_id": item["id"], "count": item["statistics"].(object)["count"],
				"sampled": float64(len(comments)), "service_time": answer["time"],
			}
			s.add("comment_counts", count)
			s.add("comment_counts_history", count)
			for i, comment := range comments {
				row := flat(comment, map[string]string{"authorThumbnail": "author_thumbnails"})
				row["video_id"], row["position"] = item["id"], float64(i)
				row["likes_count_raw"], row["reply_count_raw"] = rawText(row["likes_count_raw"]), rawText(row["reply_count_raw"])
				s.add("comments", row)
			}
		}
	case outlier.OpTranscript:
		s.transcript(id, answer)
	}
}

func (s *served) channel(answer object, kind, uploads string) {
	item := answer["item"].(object)
	snippet := flat(
		object{"id": item["id"], "kind": item["kind"], "snippet": item["snippet"]}, map[string]string{"id": "channel_id"},
	)
	s.add("channels", snippet)
	statistics := flat(item["statistics"].(object), nil)
	statistics["channel_id"], statistics["kind"], statistics["service_time"] = item["id"], kind, answer["time"]
	statistics["videos_count_raw"] = rawText(statistics["videos_count_raw"])
	s.add("channel_statistics", statistics)
	s.add("channel_statistics_history", statistics)
	for i, upload := range list(item[uploads]) {
		row := flat(upload, map[string]string{"id": "video_id"})
		row["channel_id"], row["kind"], row["position"] = item["id"], kind, float64(i)
		row["thumbnails"] = named(row["thumbnails"])
		s.add("channel_uploads", row)
		s.add("channel_uploads_history", row)
	}
}

// transcript adds the rows of a transcript. Without one, the service answers with 404, without items, or without
// events.
func (s *served) transcript(id string, answer object) {
	items := list(answer["items"])
	if len(items) == 0 || len(list(items[0]["events"])) == 0 {
		s.add("missing", object{"endpoint": "transcript", "id": id, "status": 200.0})
		return
	}
	for _, item := range items {
		events := list(item["events"])
		s.add("transcripts", object{
			"video_id": item["id"], "transcript": item["transcript"], "event_count": float64(len(events)),
		})
		for i, event := range events {
			row := flat(event, nil)
			row["video_id"], row["position"] = item["id"], float64(i)
			s.add("transcript_events", row)
		}
	}
}

// named converts the thumbnails of a video, which are an object with names, and of a short, which are a list, to the
// list in table channel_uploads.
func named(thumbnails any) any {
	var all []any
	switch thumbnails := thumbnails.(type) {
	case object:
		for _, name := range []string{"default", "medium", "high"} {
			if image, ok := thumbnails[name].(object); ok {
				all = append(all, object{
					"name": name, "url": image["url"], "width": image["width"], "height": image["height"],
				})
			}
		}
	case []any:
		for _, image := range thumbnails {
			image := image.(object)
			all = append(all, object{"name": nil, "url": image["url"], "width": image["width"], "height": image["height"]})
		}
	default:
		return nil
	}
	return all
}

func list(v any) (objects []object) {
	all, _ := v.([]any)
	for _, o := range all {
		objects = append(objects, o.(object))
	}
	return objects
}

// rawText returns a value of a `Raw` field, which is a text even if the JSON has a number.
func rawText(v any) any {
	if n, ok := v.(float64); ok {
		return fmt.Sprintf("%.0f", n)
	}
	return v
}

// flat converts an object to a row: a column per leaf, with its name in snake_case. Thumbnails stay nested, and so
// does the live broadcast, whose shape is unknown.
func flat(o object, renamed map[string]string) object {
	row := object{}
	for name, value := range o {
		inner, nested := value.(object)
		column, ok := renamed[name]
		if !ok {
			column = snake(name)
		}
		switch {
		case name == "channelMonetization" && nested:
			for leaf, v := range flat(inner, nil) {
				row["channel_"+leaf] = v
			}
		case nested && name != "thumbnails" && name != "isLiveBroadcast":
			for leaf, v := range flat(inner, nil) {
				row[leaf] = v
			}
		case value != nil:
			row[column] = value
		}
	}
	return row
}

var humps = regexp.MustCompile(`[A-Z]`)

func snake(name string) string {
	return humps.ReplaceAllStringFunc(name, func(c string) string { return "_" + strings.ToLower(c) })
}

// addedColumns are the columns that are not in the answers: where a row comes from, when it was seen, and what is
// derived from other columns.
var addedColumns = []string{"_run_id", "_job", "_response_id", "observed_at", "first_seen_at", "last_seen_at", "times_seen",
	"previous_seen_at", "previous_view_count", "previous_subscriber_count", "fields_missing",
	"thumbnail_url", "comment_key", "checked_at", "retry_at", "reason", "page", "item", "seeds", "scan_id",
	"published_at_estimate_at", "last_published_at_estimate_at", "oldest_parsed_published_at_estimate_at"}

// comparable returns a text per row, sorted, with uniform times, without nulls and added columns.
func comparable(t *testing.T, rows []object) []string {
	t.Helper()
	var all []string
	for _, row := range rows {
		kept := object{}
		for name, value := range row {
			if value != nil && !slices.Contains(addedColumns, name) && !strings.HasPrefix(name, "_") {
				kept[name] = uniform(value)
			}
		}
		text, err := json.Marshal(kept)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, string(text))
	}
	slices.Sort(all)
	return all
}

// texts returns a text per row, sorted, with all columns.
func texts(rows []object) []string {
	var all []string
	for _, row := range rows {
		text, _ := json.Marshal(uniform(row)) // decoded JSON can be encoded
		all = append(all, string(text))
	}
	slices.Sort(all)
	return all
}

// difference returns the first rows that only one of two sorted lists has.
func difference(want, got []string) string {
	var lines []string
	for len(lines) < 10 && (len(want) > 0 || len(got) > 0) {
		switch {
		case len(got) == 0 || len(want) > 0 && want[0] < got[0]:
			lines, want = append(lines, "- "+want[0]), want[1:]
		case len(want) == 0 || got[0] < want[0]:
			lines, got = append(lines, "+ "+got[0]), got[1:]
		default:
			want, got = want[1:], got[1:]
		}
	}
	for i, line := range lines {
		lines[i] = line[:min(len(line), 400)]
	}
	return strings.Join(lines, "\n")
}

// uniform removes nulls in nested values and formats times uniformly.
func uniform(v any) any {
	switch v := v.(type) {
	case string:
		for _, layout := range []string{time.RFC3339Nano, "2006-01-02 15:04:05.999999999-07"} {
			if at, err := time.Parse(layout, v); err == nil {
				return at.UTC().Format(time.RFC3339Nano)
			}
		}
	case object:
		kept := object{}
		for name, inner := range v {
			if inner != nil {
				kept[name] = uniform(inner)
			}
		}
		return kept
	case []any:
		var all []any
		for _, inner := range v {
			all = append(all, uniform(inner))
		}
		return all
	}
	return v
}

// current returns the last row of each key: a current table has the last observation.
func current(rows []object, key ...string) []object {
	last := map[string]int{}
	for i, row := range rows {
		last[keyOf(row, key)] = i
	}
	var kept []object
	for i, row := range rows {
		if last[keyOf(row, key)] == i {
			kept = append(kept, row)
		}
	}
	return kept
}

func keyOf(row object, key []string) string {
	var parts []string
	for _, name := range key {
		parts = append(parts, fmt.Sprint(row[name]))
	}
	return strings.Join(parts, "\x00")
}

// TestTablesHoldWhatTheServiceServed runs three searches over HTTP, with all five enrichments of the top hits; with
// -long of five pages and of all hits. Then every table, in DuckDB and in Parquet, has exactly the rows that follow from
// the service's answers, and the ledger has what the service charged.
func TestTablesHoldWhatTheServiceServed(t *testing.T) {
	t.Parallel() // it runs processes of its own
	if testing.Short() {
		t.Skip("fetches thousands of answers, which takes minutes under the race detector")
	}
	o := simulator.Options{Seed: 1, Freeze: true, Limit: 1_000_000}
	w := newWorld(t, o)
	pages, top := 1, 20 // the rows of all hits have no other combinations of null columns
	if *long {
		pages, top = 5, 0
	}
	w.write(withParquet(programtest.Searches(pages, top)))
	w.mustRun("run", "--all")

	want := servedBy(t, o, w.service.Books().Calls)
	for table, key := range map[string][]string{
		"outliers": {"video_id"}, "channels": {"channel_id"}, "channel_statistics": {"channel_id", "kind"},
		"channel_uploads": {"channel_id", "video_id"}, "videos": {"video_id"}, "comment_counts": {"video_id"},
		"comments": {"video_id", "position"}, "transcripts": {"video_id"}, "transcript_events": {"video_id", "position"},
		"missing": {"endpoint", "id"},
	} {
		want[table] = current(want[table], key...)
	}
	for _, table := range []string{
		"outliers", "outliers_history", "channels", "channel_statistics", "channel_statistics_history",
		"channel_uploads", "channel_uploads_history", "videos", "videos_history", "comments", "comment_counts",
		"comment_counts_history", "transcripts", "transcript_events", "missing",
	} {
		expected := comparable(t, want[table])
		if len(expected) == 0 {
			t.Errorf("the service served nothing for table %s", table)
		}
		got := comparable(t, w.rows(table))
		if diff := difference(expected, got); diff != "" {
			t.Errorf("%s differs from what was served (%d rows, want %d):\n%s", table, len(got), len(expected), diff)
		}
	}
	w.sameInBothSinks() // so that Parquet has these rows too
	w.booksAgree()
}
