package schema

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"outlierd/outlier"
)

// Trending formats have one row for each element, whatever their form.
func TestTrendingFormatsHaveElementRows(t *testing.T) {
	type row = [2]string // value and extra
	for body, want := range map[string][]row{
		`[{"a":1},2,null,"x"]`:              {{`{"a":1}`, "[]"}, {`2`, "NULL"}, {`null`, "NULL"}, {`"x"`, "NULL"}},
		`[]`:                                {{"NULL", "[]"}},
		`[[1],[2]]`:                         {{`[1]`, "[]"}, {`[2]`, "NULL"}},
		` { "formats" : [ 1 , 2 ], "t": 5}`: {{`1`, `{"formats":[],"t":5}`}, {`2`, "NULL"}},
		`{"t":{"u":[3]},"formats":[1]}`:     {{`1`, `{"t":{"u":[3]},"formats":[]}`}},
		`{"formats":[],"next":null}`:        {{"NULL", `{"formats":[],"next":null}`}},
		`{"a":[1],"b":[2]}`:                 {{`{"a":[1],"b":[2]}`, "NULL"}},
		`{"a":[1],"a":[2]}`:                 {{`{"a":[1],"a":[2]}`, "NULL"}},
		`{"data":{"formats":[1]}}`:          {{`{"data":{"formats":[1]}}`, "NULL"}},
		`{}`:                                {{`{}`, "NULL"}},
		`"text"`:                            {{`"text"`, "NULL"}},
		`null`:                              {{`null`, "NULL"}},
		`12345678901234567890.10`:           {{`12345678901234567890.10`, "NULL"}},
		`["a\ud800b","\u0000"]`:             {{"\"a\ufffdb\"", "[]"}, {`"\u0000"`, "NULL"}},
	} {
		t.Run(body, func(t *testing.T) {
			parts, drift := decode(t, outlier.OpTrendingFormats, body)
			rows := parts["trending_formats"]
			var got []row
			for i, value := range cells(t, rows, "value") {
				got = append(got, row{value, cells(t, rows, "extra")[i]})
				if position := cells(t, rows, "position")[i]; position != fmt.Sprint(i) {
					t.Errorf("row %d is at %s", i, position)
				}
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("rows (-want +got):\n%s", diff)
			}
			if len(drift) > 0 {
				t.Errorf("drift %v of an undocumented answer, want none", drift)
			}
		})
	}
}

// Trending formats that are not JSON are refused.
func TestInvalidTrendingFormatsAreRefused(t *testing.T) {
	for _, body := range []string{
		"", " ", "<html>", "[1", `{"a":[1]`, "[1]]", "[1] 2", `{"a":[1],}`, "tru", "'x'", "[\xff]",
	} {
		d := newDecoder(t)
		if err := d.Decode(source(outlier.OpTrendingFormats), []byte(body)); err == nil || d.Rows() > 0 {
			t.Errorf("%.20q: error %v, %d rows", body, err, d.Rows())
		}
	}
}

// Trending formats do not grow in the table, because the fields around the elements are stored once.
func TestTrendingFormatsStaySmall(t *testing.T) {
	d := newDecoder(t)
	body := fmt.Sprintf(`{"t":"%s","formats":[%s1]}`, strings.Repeat("x", 1<<20), strings.Repeat("1,", 99))
	err := d.Decode(source(outlier.OpTrendingFormats), []byte(body))
	if err != nil || d.Rows() != 100 || d.Bytes() > 2<<20 {
		t.Errorf("error %v, %d rows of %d bytes", err, d.Rows(), d.Bytes())
	}
	take(t, d)
}

func TestOtherAnswersMustBeObjects(t *testing.T) {
	for _, op := range operations {
		d := newDecoder(t)
		err := d.Decode(source(op), []byte("[]"))
		if op == outlier.OpTrendingFormats {
			take(t, d)
		} else if err == nil || !strings.Contains(err.Error(), "not a JSON object") {
			t.Errorf("%s: error %v", op, err)
		}
	}
}
