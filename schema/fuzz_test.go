package schema

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"
)

// FuzzDecode gives any bytes to a decoder that holds rows already, and then a page
// that is in order: the columns stay of one length, what a readable body amounts to is
// valid, and an unreadable one leaves the other rows as they would be without it.
func FuzzDecode(f *testing.F) {
	for i, op := range operations {
		f.Add(uint8(i), []byte(example(f, op)))
	}
	for _, body := range []string{
		`{"hits":[{"id":"a","snippet":{"thumbnails":{"high":{"url":1,"x":[]}}},"kind":"a","kind":2,"z":{"\ud800":"\u0000"}},{"kind":"b"},7]}`,
		`{"hits":[{"id":"a","snippet":{"duration":"5.0","publishedAt":"x"},"statistics":5`,
	} {
		f.Add(uint8(0), []byte(body))
	}
	f.Add(uint8(1), []byte(`{"item":{"videos":[{"id":"v","thumbnails":[{"url":"u"},null,3]}],"id":"c","statistics":{},"statistics":[]},"time":3}`))
	f.Add(uint8(4), []byte(`{"items":[{"comments":[{"text":"a","authorThumbnail":{"a":{}}},{"text":"a"},5]},{"id":"b","comments":"x"}]}`))
	f.Fuzz(func(t *testing.T, which uint8, body []byte) {
		op := operations[int(which)%len(operations)]
		s := source(op)
		s.Entity = "" // so that not all is refused for another id
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
		}
	})
}

// checkLengths compares the lengths of all columns, those of inner ones included.
func checkLengths(t *testing.T, d *Decoder) {
	t.Helper()
	for _, r := range d.rows {
		for i, v := range r.vectors {
			if v.rows != r.n || !v.sound() {
				t.Errorf("%s.%s has %d values for %d rows", r.table.Name, r.columns[i].Name, v.rows, r.n)
			}
		}
	}
}

// sound tells whether the slices of a vector have as many values as it has rows.
func (v *vector) sound() bool {
	for _, kid := range v.kids {
		if v.form == object && kid.rows != v.rows || !kid.sound() {
			return false
		}
	}
	end := 0
	if len(v.ends) > 0 {
		end = int(v.ends[len(v.ends)-1])
	}
	switch v.form {
	case number:
		return len(v.words) == v.rows
	case truth:
		return len(v.bytes) == v.rows
	case text:
		return len(v.ends) == v.rows && len(v.bytes) == end
	case listing:
		return len(v.ends) == v.rows && v.kids[0].rows == end
	}
	return true
}

// checkExtra wants what a strict reader, as a database's, takes.
func checkExtra(t *testing.T, extras *array.String) {
	t.Helper()
	for i := range extras.Len() {
		text := extras.Value(i)
		var object map[string]json.RawMessage
		if extras.IsValid(i) && (json.Unmarshal([]byte(text), &object) != nil || !utf8.ValidString(text) || strings.Contains(text, `\ud`)) {
			t.Errorf("extra %q is not a JSON object", text)
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
		p.Rows.Release()
	}
}
