package schema

import (
	"bytes"
	"encoding/json"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"

	"outlierd/outlier"
)

// FuzzDecode gives any bytes to a decoder that has rows, and then a valid page: all columns keep the
// same length, the rows of a readable body are valid, and an unreadable body does not change the other
// rows.
func FuzzDecode(f *testing.F) {
	for i, op := range operations {
		f.Add(uint8(i), []byte(example(f, op)))
	}
	as := func(op outlier.Operation, body string) { f.Add(uint8(slices.Index(operations, op)), []byte(body)) }
	for _, body := range []string{
		`{"hits":[{"id":"a","snippet":{"thumbnails":{"high":{"url":1,"x":[]}}},"kind":"a","kind":2,"z":{"\ud800":"\u0000"}},{"kind":"b"},7]}`,
		`{"hits":[{"id":"a","snippet":{"duration":"5.0","publishedAt":"x"},"statistics":5`,
	} {
		as(outlier.OpSearch, body)
	}
	as(outlier.OpChannelVideos, `{"item":{"videos":[{"id":"v","thumbnails":[{"url":"u"},null,3]}],"id":"c","statistics":{},"statistics":[]},"time":3}`)
	as(outlier.OpComments, `{"items":[{"comments":[{"text":"a","authorThumbnail":{"a":{}}},{"text":"a"},5]},{"id":"b","comments":"x"}]}`)
	as(outlier.OpFindChannels, `{"hits":[{"id":"c","snippet":{"contentKind":["a",1,null,{}]},"language":"de","statistics":{"averageViews":"1e2"}},{"id":1},{}]}`)
	as(outlier.OpScan, `{"id":"s","input":{"query":"q","threshold":1e3,"threshold":{}},"endedAt":"soon","new":[1]}`)
	as(outlier.OpStartScan, `{"input":{"threshold":{"channels":"7","x":1}},"id":"s","id":"t"}`)
	as(outlier.OpTrendingFormats, ` [null,{"a":"\ud800"},[[]],"\u0000",-0e1]`)
	as(outlier.OpTrendingFormats, `{"a":{},"a":[1],"b\u0000":null}`)
	as(outlier.OpTrendingFormats, `{"a":[],"b":[]} `)
	as(outlier.OpTrendingFormats, `"text"`)
	f.Fuzz(func(t *testing.T, which uint8, body []byte) {
		op := operations[int(which)%len(operations)]
		s := source(op)
		if which < 128 {
			s.Entity = "" // so that not all is refused for another id
		}
		d, undisturbed := NewDecoder(memory.DefaultAllocator), NewDecoder(memory.DefaultAllocator)
		good := []byte(example(t, op))
		must := func(d *Decoder) {
			if err := d.Decode(source(op), good); err != nil {
				t.Fatalf("a good page after %q: %v", body, err)
			}
			checkLengths(t, d)
		}
		must(d)
		must(undisturbed)
		err := d.Decode(s, body)
		checkLengths(t, d)
		if err == nil && !json.Valid(bytes.TrimPrefix(body, []byte("\ufeff"))) {
			t.Errorf("%q was read, and is not JSON", body)
		}
		must(d)
		must(undisturbed)
		got, want := take(t, d), take(t, undisturbed)
		if err != nil && !sameRows(got, want) {
			t.Errorf("%q left something behind", body)
		}
		for name, rows := range got {
			if err := array.ValidateRecordFull(rows); err != nil {
				t.Errorf("%s: %v", name, err)
			}
			for _, i := range rows.Schema().FieldIndices("extra") {
				checkExtra(t, rows.Column(i).(*array.String))
			}
			for _, i := range rows.Schema().FieldIndices("value") {
				checkJSON(t, rows.Column(i).(*array.String))
			}
		}
	})
}

// checkLengths compares the lengths of all columns.
func checkLengths(t *testing.T, d *Decoder) {
	t.Helper()
	for _, r := range d.rows {
		for i, c := range r.columns {
			if n := r.builder.Field(i).Len(); n != r.count() {
				t.Errorf("%s.%s has %d values for %d rows", r.table.Name, c.Name, n, r.count())
			}
		}
	}
}

// checkExtra wants objects, or the array that was emptied of trending formats.
func checkExtra(t *testing.T, extras *array.String) {
	t.Helper()
	checkJSON(t, extras)
	for i := range extras.Len() {
		if text := extras.Value(i); extras.IsValid(i) && text[0] != '{' && text != "[]" {
			t.Errorf("extra %q is not a JSON object", text)
		}
	}
}

// checkJSON wants what a strict reader, as a database's, takes.
func checkJSON(t *testing.T, values *array.String) {
	t.Helper()
	for i := range values.Len() {
		text := values.Value(i)
		if values.IsValid(i) && (!json.Valid([]byte(text)) || !utf8.ValidString(text) || strings.Contains(strings.ReplaceAll(text, `\\`, ""), `\ud`)) {
			t.Errorf("%q is not JSON", text)
		}
	}
}

func TestDecodedRecordsAreValidArrow(t *testing.T) {
	d := NewDecoder(memory.NewGoAllocator())
	for _, op := range operations {
		if err := d.Decode(source(op), []byte(example(t, op))); err != nil {
			t.Fatal(err)
		}
	}
	for _, p := range d.Take() {
		if err := array.ValidateRecordFull(p.Rows); err != nil {
			t.Errorf("%s: %v", p.Table.Name, err)
		}
		p.Release()
	}
}

// FuzzPagesAreReadAlike compares how a search and the tables read a page: a hit has an id for the
// search exactly when it has a row in the table.
func FuzzPagesAreReadAlike(f *testing.F) {
	f.Add([]byte(`{"hits":[{"id":"a"},{"id":null},7,{"id":true},{"id":"a"},{"id":"b","id":"c"}],"hits":[{"id":"d"}]}`))
	f.Add([]byte(`{"hits":[{"id":" "},{"id":1e3,"new":` + strings.Repeat("[", maxDepth+1) + strings.Repeat("]", maxDepth+1) + `}]}`))
	f.Add([]byte(`{"hits":[{"id":"","id":"0"}]}`))
	f.Add([]byte("{\"hits\":[{\"id\":\"a\xffb\"},{\"id\":\"a\u0085b\"}]}"))
	f.Fuzz(func(t *testing.T, body []byte) {
		d := NewDecoder(memory.NewGoAllocator())
		lost, err := d.Check(Source{Op: outlier.OpSearch}, body)
		page, failed := outlier.PageOf(outlier.OpSearch, body)
		if err != nil || failed != nil {
			return
		}
		for place, hit := range page.Hits {
			if named := hit.VideoID != ""; named == slices.Contains(lost, place) {
				t.Errorf("hit %d of %s: id %q, lost %v", place, body, hit.VideoID, lost)
			}
		}
		if len(lost) > 0 && lost[len(lost)-1] >= len(page.Hits) {
			t.Errorf("%v of %d hits of %s are lost", lost, len(page.Hits), body)
		}
	})
}
