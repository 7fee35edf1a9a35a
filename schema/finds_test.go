package schema

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"outlierd/outlier"
)

func TestUnexpectedChannelValuesAreKept(t *testing.T) {
	for _, c := range []struct{ members, column, want, extra, drift string }{
		{`"language":null`, "language", "NULL", "NULL", ""},
		{`"language":{"code":null}`, "language", "NULL", "NULL", ""},
		{`"language":"de"`, "language", "NULL", `{"language":"de"}`, "hits[].language of the wrong type"},
		{`"language":{"code":"de","name":"Deutsch"}`, "language", "de", `{"language.name":"Deutsch"}`, "hits[].language.name unknown"},
		{`"snippet":{"contentKind":[]}`, "content_kind", "[]", "NULL", ""},
		{`"snippet":{"contentKind":"video"}`, "content_kind", "NULL", `{"snippet.contentKind":"video"}`, "hits[].snippet.contentKind of the wrong type"},
		{`"snippet":{"contentKind":["video",null,7]}`, "content_kind", `["video",null,"7"]`, "NULL", ""},
		{`"statistics":{"subscribers":"48200"}`, "subscribers", "48200", "NULL", ""},
		{`"statistics":{"subscribers":"48.2K"}`, "subscribers", "NULL", `{"statistics.subscribers":"48.2K"}`, "hits[].statistics.subscribers of the wrong type"},
		{`"statistics":{"averageViews":0,"medianViews":3}`, "average_views", "0", `{"statistics.medianViews":3}`, "hits[].statistics.medianViews unknown"},
		{`"monetization":{"adsense":false}`, "adsense", "false", "NULL", ""},
		{`"classification":{"isFaceless":"true"}`, "is_faceless", "true", "NULL", ""},
	} {
		for _, op := range []outlier.Operation{outlier.OpFindChannels, outlier.OpFindRelatedChannels} {
			t.Run(string(op)+" "+c.members, func(t *testing.T) {
				parts, drift := decode(t, op, `{"hits":[{"id":"`+someChannel+`",`+c.members+`}]}`)
				got := []string{cells(t, parts["found_channels"], c.column)[0], cells(t, parts["found_channels"], "extra")[0], strings.Trim(fmt.Sprint(drift), "[]")}
				if want := []string{c.want, c.extra, strings.Trim(c.drift, "[]")}; !slices.Equal(got, want) {
					t.Errorf("got %q, want %q", got, want)
				}
			})
		}
	}
}

// The history says which search, queries and seeds found a hit or a channel, and the current table does not.
func TestHistoryNamesSearchAndSeeds(t *testing.T) {
	for op, want := range map[outlier.Operation]map[string]string{
		outlier.OpSearch:              {"source": "search", "queries": `["moka pot","latte art"]`, "seeds": "NULL", "item": "moka pot", "page": "1", "rank": "41"},
		outlier.OpRelated:             {"source": "related", "queries": "NULL", "seeds": `["` + someVideo + `","` + someChannel + `"]`, "page": "0", "rank": "1"},
		outlier.OpFindChannels:        {"source": "search", "queries": `["espresso"]`, "seeds": "NULL", "page": "2", "rank": "81"},
		outlier.OpFindRelatedChannels: {"source": "related", "queries": "NULL", "seeds": `["` + someChannel + `"]`, "page": "0", "rank": "1"},
	} {
		parts, _ := decode(t, op, example(t, op))
		history, current := parts["outliers_history"], parts["outliers"]
		if history == nil {
			history, current = parts["found_channels_history"], parts["found_channels"]
		}
		for name, value := range want {
			if got := cells(t, history, name)[0]; got != value {
				t.Errorf("%s: %s is %s, want %s", op, name, got, value)
			}
			if current.Schema().HasField(name) {
				t.Errorf("%s: %s belongs in the history alone", op, name)
			}
		}
	}
}
