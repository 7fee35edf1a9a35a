package schema

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"outlierd/outlier"
)

// TestTooLargeValuesAreCut: the tables take a value of a megabyte, and the beginning of a larger one with a
// mark.
func TestTooLargeValuesAreCut(t *testing.T) {
	long := strings.Repeat("é", 5*MaxValue/4)
	list := `"` + strings.Repeat(strings.Repeat("k", 99)+`","`, 2*MaxValue/100) + `"`
	channel := func(members string) string { return `{"item":{"id":"` + someChannel + `",` + members + `}}` }
	mark := "… [cut from 2621440 bytes]"
	for name, tt := range map[string]struct {
		op                         outlier.Operation
		body, table, column, drift string
		ends                       string
	}{
		"a text":         {outlier.OpSearch, hitWith(`"snippet":{"title":"` + long + `"}`), "outliers", "title", "hits[].snippet.title too large", mark},
		"a long text":    {outlier.OpTranscript, `{"items":[{"id":"` + someVideo + `","transcript":"` + long + `"}]}`, "transcripts", "transcript", "items[].transcript too large", mark},
		"a number":       {outlier.OpSearch, hitWith(`"snippet":{"title":` + strings.Repeat("1", 5*MaxValue/2) + `}`), "outliers", "title", "hits[].snippet.title too large", mark},
		"a list":         {outlier.OpChannelVideos, channel(`"snippet":{"keywords":[` + list + `]}`), "channels", "keywords", "item.snippet.keywords too large", "kkk"},
		"an address":     {outlier.OpSearch, hitWith(`"snippet":{"thumbnails":{"high":{"url":"` + long + `"}}}`), "outliers", "thumbnail_url", "hits[].snippet.thumbnails.high.url too large", mark},
		"unknown":        {outlier.OpSearch, hitWith(`"new":"` + long + `"`), "outliers", "extra", "hits[].new unknown", `… [cut from 2621442 bytes]"}`},
		"much unknown":   {outlier.OpSearch, hitWith(`"new":{` + strings.Repeat(`"x":{"y":1},`, MaxValue/4) + `"x":2}`), "outliers", "extra", "hits[].new unknown", ` bytes]"}`},
		"many unknown":   {outlier.OpSearch, hitWith(strings.Repeat(`"new":1,`, MaxValue/4) + `"new":2`), "outliers", "extra", "hits[].new unknown", `"…":"[cut]"}`},
		"some JSON":      {outlier.OpChannelVideos, channel(`"videos":[{"id":"x","isLiveBroadcast":["` + long + `"]}]`), "channel_uploads", "is_live_broadcast", "item.videos[].isLiveBroadcast too large", `bytes]"`},
		"a whole answer": {outlier.OpTrendingFormats, `["` + long + `"]`, "trending_formats", "value", "", `bytes]"`},
	} {
		t.Run(name, func(t *testing.T) {
			parts, drift := decode(t, tt.op, tt.body)
			got := strings.Trim(cells(t, parts[tt.table], tt.column)[0], "[]")
			if len(got) > MaxValue+MaxValue/20 { // quotes and commas of a list are not counted
				t.Errorf("%d bytes, want at most %d", len(got), MaxValue)
			}
			if !utf8.ValidString(got) {
				t.Error("it is not UTF-8")
			}
			if !strings.HasSuffix(strings.TrimRight(got, `"]`), strings.TrimRight(tt.ends, `"]`)) {
				t.Errorf("it ends in %q, want %q", got[max(0, len(got)-60):], tt.ends)
			}
			if column := tt.column; (column == "extra" || column == "value" || column == "is_live_broadcast") && !json.Valid([]byte(cells(t, parts[tt.table], column)[0])) {
				t.Errorf("no JSON: %.100s", got)
			}
			if told := strings.Join(driftOf(drift), ", "); !strings.Contains(told, tt.drift) {
				t.Errorf("drift %q, want %q", told, tt.drift)
			}
		})
	}
	parts, drift := decode(t, outlier.OpSearch, hitWith(`"snippet":{"title":"`+strings.Repeat("x", MaxValue)+`"}`))
	if got := cells(t, parts["outliers"], "title"); len(got[0]) != MaxValue || len(drift) > 0 {
		t.Errorf("a title of %d bytes has %d, drift %v", MaxValue, len(got[0]), drift)
	}
}

// TestInvalidBytesAreReplaced and their field is reported, so that bytes that are not UTF-8 do not lose an
// answer.
func TestInvalidBytesAreReplaced(t *testing.T) {
	body := "{\"hits\":[{\"id\":\"aaaaaaaaaaa\",\"snippet\":{\"title\":\"caf\xe9\"},\"new\":\"\xff\"},{\"id\":\"bbbbbbbbbbb\",\"kind\":\"short\"}]}"
	parts, drift := decode(t, outlier.OpSearch, body)
	for column, want := range map[string][]string{
		"video_id": {"aaaaaaaaaaa", "bbbbbbbbbbb"}, "title": {"caf\ufffd", "NULL"}, "kind": {"NULL", "short"}, "extra": {"{\"new\":\"\ufffd\"}", "NULL"},
	} {
		if got := cells(t, parts["outliers"], column); !slices.Equal(got, want) {
			t.Errorf("%s %q, want %q", column, got, want)
		}
	}
	want := []string{"hits[].new not UTF-8", "hits[].new unknown", "hits[].snippet.title not UTF-8"}
	if got := driftOf(drift); !slices.Equal(got, want) {
		t.Errorf("drift %q, want %q", got, want)
	}
}

func driftOf(drift []Drift) (told []string) {
	for _, d := range drift {
		told = append(told, d.String())
	}
	slices.Sort(told)
	return told
}
