package schema

import (
	"encoding/json"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"
	"github.com/google/go-cmp/cmp"

	"outlierd/outlier"
)

const (
	someVideo   = "dQw4w9WgXcQ"
	someChannel = "UC1234567890abcdefghijkl"
	someScan    = "3f2b8c1e-9d4a-4c6b-8e7f-0a1b2c3d4e5f"
)

// source returns what the journal has about an answer to op.
func source(op outlier.Operation) Source {
	s := Source{
		Response: 17, Run: "019a9f3e-7b1c-7cc0-8000-1234567890ab", Job: "coffee", Op: op,
		ObservedAt: time.Date(2025, 11, 20, 8, 0, 0, 0, time.UTC),
	}
	switch op {
	case outlier.OpSearch:
		s.Kind, s.Queries, s.Item, s.Page, s.RankBase = "search", []string{"moka pot", "latte art"}, "moka pot", 1, 40
	case outlier.OpRelated:
		s.Kind, s.Seeds = "related", []string{someVideo, someChannel}
	case outlier.OpFindChannels:
		s.Kind, s.Queries, s.Page, s.RankBase = "search", []string{"espresso"}, 2, 80
	case outlier.OpFindRelatedChannels:
		s.Kind, s.Seeds = "related", []string{someChannel}
	case outlier.OpTrendingFormats:
	case outlier.OpStartScan:
		s.FindBy, s.Mode, s.Credits = outlier.FindByQuery, outlier.ModeFast, 50
	case outlier.OpScan:
		s.Entity, s.FindBy, s.Mode, s.Credits = someScan, outlier.FindByQuery, outlier.ModeFast, 50
	case outlier.OpChannelVideos, outlier.OpChannelShorts:
		s.Entity = someChannel
	default:
		s.Entity = someVideo
	}
	return s
}

// newDecoder makes a decoder whose memory must all be given back by the end of the test.
func newDecoder(t testing.TB) *Decoder {
	mem := memory.NewCheckedAllocator(memory.NewGoAllocator())
	t.Cleanup(func() { mem.AssertSize(t, 0) })
	return NewDecoder(mem)
}

// take takes what d collected, by table name.
func take(t testing.TB, d *Decoder) map[string]arrow.RecordBatch {
	parts := map[string]arrow.RecordBatch{}
	for _, p := range d.Take() {
		if parts[p.Table.Name] != nil {
			t.Errorf("two parts of %s", p.Table.Name)
		}
		t.Cleanup(p.Release)
		if p.Rows.NumRows() > 0 {
			rows := columnsOf(p)
			t.Cleanup(rows.Release)
			parts[p.Table.Name] = rows
		}
	}
	return parts
}

// columnsOf returns the columns of a part that its table has.
func columnsOf(p Part) arrow.RecordBatch {
	var columns []arrow.Array
	for _, f := range p.Table.Schema().Fields() {
		columns = append(columns, p.Rows.Column(p.Rows.Schema().FieldIndices(f.Name)[0]))
	}
	return array.NewRecordBatch(p.Table.Schema(), columns, p.Rows.NumRows())
}

// decode decodes one body that must be readable.
func decode(t testing.TB, op outlier.Operation, body string) (map[string]arrow.RecordBatch, []Drift) {
	t.Helper()
	d := newDecoder(t)
	if err := d.Decode(source(op), []byte(body)); err != nil {
		t.Fatal(err)
	}
	return take(t, d), d.Drift()
}

// objects are the rows of a record as JSON would give them.
func objects(t testing.TB, rows arrow.RecordBatch) []map[string]any {
	t.Helper()
	if rows == nil {
		return nil
	}
	text, err := rows.MarshalJSON()
	if err != nil {
		t.Fatal(err)
	}
	d := json.NewDecoder(strings.NewReader(string(text)))
	d.UseNumber()
	var list []map[string]any
	if err := d.Decode(&list); err != nil {
		t.Fatal(err)
	}
	return list
}

// column is one column of a record, as JSON would give it.
func column(t testing.TB, rows arrow.RecordBatch, name string) []any {
	t.Helper()
	var list []any
	for _, row := range objects(t, rows) {
		value, ok := row[name]
		if !ok {
			t.Fatalf("there is no column %s", name)
		}
		list = append(list, value)
	}
	return list
}

// cells is one column as texts, with NULL for null.
func cells(t testing.TB, rows arrow.RecordBatch, name string) []string {
	t.Helper()
	var list []string
	for _, value := range column(t, rows, name) {
		switch value := value.(type) {
		case nil:
			list = append(list, "NULL")
		case string:
			list = append(list, value)
		default:
			text, err := json.Marshal(value)
			if err != nil {
				t.Fatal(err)
			}
			list = append(list, string(text))
		}
	}
	return list
}

func example(t testing.TB, op outlier.Operation) string {
	t.Helper()
	body, err := os.ReadFile(filepath.Join("testdata", "examples", string(op)+".json"))
	if err != nil {
		t.Fatal(err)
	}
	return string(body)
}

var operations = []outlier.Operation{
	outlier.OpSearch, outlier.OpChannelVideos, outlier.OpChannelShorts,
	outlier.OpDetails, outlier.OpComments, outlier.OpTranscript,
	outlier.OpRelated, outlier.OpFindChannels, outlier.OpFindRelatedChannels, outlier.OpTrendingFormats,
	outlier.OpStartScan, outlier.OpScan,
}

func TestExamplesBecomeRows(t *testing.T) {
	for _, op := range operations {
		t.Run(string(op), func(t *testing.T) {
			parts, drift := decode(t, op, example(t, op))
			if len(drift) > 0 {
				t.Errorf("an example as documented drifts: %v", drift)
			}
			var b strings.Builder
			for _, table := range Tables() {
				if table.History != nil { // told by its history
					continue
				}
				for _, row := range objects(t, parts[table.Name]) {
					maps.DeleteFunc(row, func(name string, value any) bool { // what the example lacks
						return name == "fields_missing" || value == nil
					})
					text, err := json.MarshalIndent(row, "", "  ")
					if err != nil {
						t.Fatal(err)
					}
					b.WriteString(table.Name + " " + string(text) + "\n")
				}
			}
			golden(t, filepath.Join("testdata", "examples", string(op)+".golden"), b.String())
		})
	}
}

// TestMissingFieldsAreDistinguishedFromNull: what is null, or of no use, is in the answer all the same.
func TestMissingFieldsAreDistinguishedFromNull(t *testing.T) {
	whole := `{"id":"` + someVideo + `","comments":[],"statistics":{"count":1}}`
	for item, want := range map[string]string{
		whole:                                            "[]",
		strings.Replace(whole, "1", "null", 1):           "[]",
		strings.Replace(whole, "1", "[]", 1):             "[]", // in extra
		strings.Replace(whole, `"count":1`, "", 1):       `["count"]`,
		strings.Replace(whole, `{"count":1}`, "null", 1): `["count"]`,
		`{"id":"` + someVideo + `"}`:                     `["count"]`,
	} {
		parts, _ := decode(t, outlier.OpComments, `{"items":[`+item+`]}`)
		rows := parts[CommentCounts.Name]
		if got := rows.Column(rows.Schema().FieldIndices("fields_missing")[0]).ValueStr(0); got != want {
			t.Errorf("%s: %s are missing, want %s", item, got, want)
		}
	}
}

func TestCurrentTablesShareHistoryArrays(t *testing.T) {
	for _, op := range operations {
		parts, _ := decode(t, op, example(t, op))
		for _, table := range Tables() {
			if table.History == nil || parts[table.Name] == nil {
				continue
			}
			history := parts[table.History.Name]
			for i, f := range table.Schema().Fields() {
				of := history.Schema().FieldIndices(f.Name)[0]
				if parts[table.Name].Column(i) != history.Column(of) {
					t.Errorf("%s.%s was copied", table.Name, f.Name)
				}
			}
		}
	}
}

// Rows of several answers are collected, and each is taken once.
func TestCollectedRowsAreTakenOnce(t *testing.T) {
	d := newDecoder(t)
	for i, op := range append(operations, operations...) {
		s := source(op)
		s.Response = int64(100 + i)
		if err := d.Decode(s, []byte(example(t, op))); err != nil {
			t.Fatal(err)
		}
	}
	// Hits, channels, statistics, uploads, and so on; related hits, found channels, formats, two records of a scan.
	const want = 2 * (2 + 2*1 + 2*1 + 2 + 1 + 1 + 3 + 1 + 1 + 3 + 1 + 2 + 1 + 4 + 2)
	if d.Rows() != want {
		t.Errorf("collected %d rows, want %d", d.Rows(), want)
	}
	if d.Bytes() < 1000 {
		t.Errorf("%d rows in %d bytes", want, d.Bytes())
	}
	parts := take(t, d)
	if got, want := cells(t, parts["outliers_history"], "_response_id"), []string{"100", "100", "106", "112", "112", "118"}; !slices.Equal(got, want) {
		t.Errorf("hits are of the answers %v, want %v", got, want)
	}
	if got, want := cells(t, parts["transcript_events"], "_response_id"), []string{"105", "105", "105", "117", "117", "117"}; !slices.Equal(got, want) {
		t.Errorf("events are of the answers %v, want %v", got, want)
	}
	if d.Rows() != 0 || d.Bytes() != 0 || len(d.Take()) != 0 {
		t.Errorf("%d rows remain", d.Rows())
	}
}

// TestBytesCountCollectedRows: rows that are gone do not count, even if as many came in their place.
func TestBytesCountCollectedRows(t *testing.T) {
	answer := func(title string) []byte {
		return []byte(`{"hits":[{"id":"` + someVideo + `","snippet":{"title":"` + title + `","duration":5}}]}`)
	}
	short, long := answer("tea"), answer(strings.Repeat("tea and milk ", 500))
	bytesOf := func(d *Decoder, body []byte) int {
		if err := d.Decode(source(outlier.OpSearch), body); err != nil {
			t.Fatal(err)
		}
		return d.Bytes()
	}
	fresh := newDecoder(t)
	want := bytesOf(fresh, long)
	take(t, fresh)
	d := newDecoder(t)
	first := bytesOf(d, short)
	take(t, d)
	got := bytesOf(d, long)
	if first >= want || got != want {
		t.Errorf("after a short answer of %d bytes was taken, a long one has %d, want %d", first, got, want)
	}
	take(t, d)
}

func TestPartsFollowTableOrder(t *testing.T) {
	d := newDecoder(t)
	for _, op := range slices.Backward(operations) {
		if err := d.Decode(source(op), []byte(example(t, op))); err != nil {
			t.Fatal(err)
		}
	}
	var got, want []string
	for _, p := range d.Take() {
		if p.Rows.NumRows() > 0 {
			got = append(got, p.Table.Name)
		}
		p.Release()
	}
	for _, table := range Tables() {
		if table != Missing {
			want = append(want, table.Name)
		}
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

// The records are not copied, so the next batch must have memory of its own.
func TestLaterAnswersKeepTakenRows(t *testing.T) {
	d := newDecoder(t)
	decode := func(title string) arrow.RecordBatch {
		body := `{"hits":[{"id":"` + someVideo + `","snippet":{"title":"` + title + `","duration":5}}]}`
		if err := d.Decode(source(outlier.OpSearch), []byte(body)); err != nil {
			t.Fatal(err)
		}
		return take(t, d)["outliers"]
	}
	first, second := decode("first"), decode("other")
	if got := cells(t, first, "title"); got[0] != "first" {
		t.Errorf("the first batch has changed to %q", got)
	}
	if got := cells(t, second, "title"); got[0] != "other" {
		t.Errorf("the second batch has %q", got)
	}
}

func TestRankCountsOverTheWholeResult(t *testing.T) {
	body := `{"hits":[{"id":"aaaaaaaaaaa"},{"id":null},null,{"id":"bbbbbbbbbbb"}]}`
	parts, _ := decode(t, outlier.OpSearch, body)
	if got, want := cells(t, parts["outliers_history"], "rank"), []string{"41", "44"}; !slices.Equal(got, want) {
		t.Errorf("ranks %v, want %v", got, want)
	}
}

// Only the history table has the columns that say which search found a hit.
func TestOnlyHistoryNamesHitsSearch(t *testing.T) {
	parts, _ := decode(t, outlier.OpSearch, example(t, outlier.OpSearch))
	for _, c := range found {
		if parts["outliers"].Schema().HasField(c.Name) || !parts["outliers_history"].Schema().HasField(c.Name) {
			t.Errorf("%s belongs in the history alone", c.Name)
		}
	}
}

func TestInnerRowsHaveTheirParentsID(t *testing.T) {
	for _, body := range []string{
		`{"items":[{"id":"dQw4w9WgXcQ","events":[{"startMs":1},{"startMs":2}]}]}`,
		`{"items":[{"events":[{"startMs":1},{"startMs":2}],"id":"dQw4w9WgXcQ"}]}`,
	} {
		parts, _ := decode(t, outlier.OpTranscript, body)
		if got, want := cells(t, parts["transcript_events"], "video_id"), []string{someVideo, someVideo}; !slices.Equal(got, want) {
			t.Errorf("%s: events are of %v, want %v", body, got, want)
		}
	}
}

// Each parent has its own inner rows, numbered from 0.
func TestParentsKeepTheirInnerRows(t *testing.T) {
	d := newDecoder(t)
	s := source(outlier.OpTranscript)
	s.Entity = ""
	body := `{"items":[{"events":[{},{}],"id":"a"},{"events":[{}]},{"id":"b","events":[{}]},{"id":"c"},{"id":"d","events":[]}]}`
	if err := d.Decode(s, []byte(body)); err != nil {
		t.Fatal(err)
	}
	parts := take(t, d)
	if got, want := cells(t, parts["transcript_events"], "video_id"), []string{"a", "a", "b"}; !slices.Equal(got, want) {
		t.Errorf("events are of %v, want %v", got, want)
	}
	if got, want := cells(t, parts["transcript_events"], "position"), []string{"0", "1", "0"}; !slices.Equal(got, want) {
		t.Errorf("events stand at %v, want %v", got, want)
	}
	if got, want := cells(t, parts["transcripts"], "event_count"), []string{"2", "1", "NULL", "0"}; !slices.Equal(got, want) {
		t.Errorf("event counts %v, want %v", got, want)
	}
}

func TestCommentKeysAreUniqueAndStable(t *testing.T) {
	const hi, ho = `{"authorChannelId":"A","text":"hi"}`, `{"authorChannelId":"A","text":"ho"}`
	keys := func(list string) []string {
		parts, _ := decode(t, outlier.OpComments, `{"items":[{"id":"dQw4w9WgXcQ","comments":[`+list+`]}]}`)
		return cells(t, parts["comments"], "comment_key")
	}
	again := func(likes string) string { return `{"authorChannelId":"A","text":"hi","likesCount":` + likes + `}` }
	once := keys(hi + "," + ho)
	thrice := keys(strings.Join([]string{hi, again("1"), ho, again("2")}, ","))
	if thrice[0] != once[0] || thrice[2] != once[1] {
		t.Errorf("keys depend on other comments: %v, %v", once, thrice)
	}
	slices.Sort(thrice)
	if len(slices.Compact(thrice)) != 4 {
		t.Errorf("keys are not unique: %v", thrice)
	}
	if a, b := keys(`{"authorChannelId":"AB","text":"C"}`), keys(`{"authorChannelId":"A","authorText":"B","text":"C"}`); a[0] == b[0] {
		t.Error("key does not tell where the author ends")
	}
	each := keys(strings.Join([]string{hi, again("1"), ho, again("2")}, ","))
	if listed := keys(strings.Join([]string{hi, again("1"), hi, ho, again("1"), again("2")}, ",")); !slices.Equal(listed, each) {
		t.Errorf("comments that are equal in everything have the keys %v, want %v", listed, each)
	}
	if len(once[0]) != 32 {
		t.Errorf("key %q, want 128 bits in hex", once[0])
	}
}

// TestDroppedVideosLeaveNoComments: a video without a row, because it lacks an id or is repeated, has
// no comments either, and adds no repetitions to those of other videos.
func TestDroppedVideosLeaveNoComments(t *testing.T) {
	const same = `{"authorChannelId":"a","text":"hi"}`
	const some = `{"text":"x"},{"text":"y"},` + same
	s := source(outlier.OpComments)
	s.Entity = ""
	for _, dropped := range []string{`{"comments":[` + some + `]}`, `{"id":"a"},{"id":"a","comments":[` + some + `]}`} {
		d := newDecoder(t)
		body := `{"items":[` + dropped + `,{"id":"b","comments":[` + same + `]}]}`
		if err := d.Decode(s, []byte(body)); err != nil {
			t.Fatal(err)
		}
		rows := take(t, d)["comments"]
		if got := cells(t, rows, "video_id"); !slices.Equal(got, []string{"b"}) {
			t.Errorf("%s: comments of %v, want one of b", body, got)
		}
	}
}

// A missing entity is one row, and the body of its answer is not read.
func TestMissingEntityIsOneRow(t *testing.T) {
	d := newDecoder(t)
	s := source(outlier.OpTranscript)
	s.Missing, s.Status, s.RetryAt = true, 404, time.Date(2025, 12, 20, 8, 0, 0, 0, time.UTC)
	if err := d.Decode(s, []byte("<html>")); err != nil {
		t.Fatal(err)
	}
	s.Status, s.RetryAt, s.Reason = 200, time.Time{}, "no events"
	if err := d.Decode(s, nil); err != nil {
		t.Fatal(err)
	}
	parts := take(t, d)
	if len(parts) != 1 {
		t.Fatalf("rows in %d tables, want missing alone", len(parts))
	}
	for name, want := range map[string][]string{
		"endpoint": {"transcript", "transcript"}, "id": {someVideo, someVideo}, "status": {"404", "200"},
		"reason": {"no such thing", "no events"}, "retry_at": {"2025-12-20T08:00:00Z", "NULL"},
		"checked_at": {"2025-11-20T08:00:00Z", "2025-11-20T08:00:00Z"}, "_job": {"coffee", "coffee"},
	} {
		if got := cells(t, parts["missing"], name); !slices.Equal(got, want) {
			t.Errorf("%s %v, want %v", name, got, want)
		}
	}
}

// sameRows compares records of one table value by value.
func sameRows(a, b map[string]arrow.RecordBatch) bool {
	if len(a) != len(b) {
		return false
	}
	for name := range a {
		if b[name] == nil || !array.RecordEqual(a[name], b[name]) {
			return false
		}
	}
	return true
}
