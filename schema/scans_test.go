package schema

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"outlierd/outlier"
)

// scanWith is a scan record with this threshold.
func scanWith(threshold string) string {
	return fmt.Sprintf(`{"id":"%s","status":"Running","input":{"query":["moka pot"],"threshold":%s}}`, someScan, threshold)
}

func TestThresholdsAreTakenInBothShapes(t *testing.T) {
	for _, c := range []struct {
		threshold, findBy         string
		channels, outliers, extra string
		drift                     string
	}{
		{`{"channels":100,"outlierVideos":1000}`, outlier.FindByQuery, "100", "1000", "NULL", ""},
		{`{"channels":9007199254740991,"outlierVideos":0}`, "", "9007199254740991", "0", "NULL", ""},
		{`{"outlierVideos":1000}`, outlier.FindByChannels, "NULL", "1000", "NULL", ""},
		{`1000`, outlier.FindByQuery, "NULL", "1000", "NULL", ""},
		{`9007199254740991`, outlier.FindByChannels, "9007199254740991", "NULL", "NULL", ""},
		{`1000`, "", "NULL", "NULL", `{"input.threshold":1000}`, ""},
		{`9007199254740991`, "", "NULL", "NULL", `{"input.threshold":9007199254740991}`, ""},
		{`"1000"`, "", "NULL", "NULL", `{"input.threshold":"1000"}`, "input.threshold of the wrong type"},
		{`"1000"`, outlier.FindByQuery, "NULL", "NULL", `{"input.threshold":"1000"}`, "input.threshold of the wrong type"},
		{`[1000]`, outlier.FindByQuery, "NULL", "NULL", `{"input.threshold":[1000]}`, "input.threshold of the wrong type"},
		{`100.5`, outlier.FindByChannels, "NULL", "NULL", `{"input.threshold.channels":100.5}`, "input.threshold.channels of the wrong type"},
		{`null`, outlier.FindByQuery, "NULL", "NULL", "NULL", ""},
		{`5,"threshold":{"channels":7}`, outlier.FindByQuery, "NULL", "5", `{"input.threshold":{"channels":7}}`, "input.threshold twice"},
		{`{"videos":3}`, outlier.FindByQuery, "NULL", "NULL", `{"input.threshold.videos":3}`, "input.threshold.videos unknown"},
	} {
		t.Run(c.threshold+" by "+c.findBy, func(t *testing.T) {
			d := newDecoder(t)
			s := source(outlier.OpScan)
			s.FindBy = c.findBy
			if err := d.Decode(s, []byte(scanWith(c.threshold))); err != nil {
				t.Fatal(err)
			}
			drift := strings.Trim(fmt.Sprint(d.Drift()), "[]")
			row := take(t, d)["scans"]
			got := []string{cells(t, row, "threshold_channels")[0], cells(t, row, "threshold_outlier_videos")[0], cells(t, row, "extra")[0], drift}
			if want := []string{c.channels, c.outliers, c.extra, c.drift}; !slices.Equal(got, want) {
				t.Errorf("got %q, want %q", got, want)
			}
		})
	}
}

func TestScansHaveTheirParametersIfKnown(t *testing.T) {
	d := newDecoder(t)
	for _, s := range []Source{
		{Op: outlier.OpStartScan, FindBy: outlier.FindByChannels, Mode: outlier.ModeStandard, Credits: 100},
		{Op: outlier.OpScan, Entity: someScan},
	} {
		if err := d.Decode(s, []byte(scanWith("null"))); err != nil {
			t.Fatal(err)
		}
	}
	rows := take(t, d)["scans"]
	for name, want := range map[string][]string{
		"scan_id": {someScan, someScan}, "find_by": {"channels", "NULL"}, "mode": {"standard", "NULL"}, "credits": {"100", "NULL"},
	} {
		if got := cells(t, rows, name); !slices.Equal(got, want) {
			t.Errorf("%s %v, want %v", name, got, want)
		}
	}
}

func TestScansAreTheirOwnRow(t *testing.T) {
	for _, c := range []struct {
		body  string
		rows  int
		extra string
		drift string
	}{
		{`{"id":"` + someScan + `","status":"ContinuedAsNew","new":{"a":1},"endedAt":"later"}`, 1, `{"new":{"a":1},"endedAt":"later"}`, "[endedAt of the wrong type new unknown]"},
		{`{"id":"` + strings.ToUpper(someScan) + `"}`, 1, "NULL", "[]"},
		{`{"status":"Running"}`, 0, "", "[id missing]"},
	} {
		d := newDecoder(t)
		if err := d.Decode(source(outlier.OpScan), []byte(c.body)); err != nil {
			t.Errorf("%s: %v", c.body, err)
		}
		if drift := fmt.Sprint(d.Drift()); d.Rows() != c.rows || drift != c.drift {
			t.Errorf("%s: %d rows and drift %s, want %d and %s", c.body, d.Rows(), drift, c.rows, c.drift)
		}
		if rows := take(t, d)["scans"]; c.rows > 0 && cells(t, rows, "extra")[0] != c.extra {
			t.Errorf("%s: extra is %s, want %s", c.body, cells(t, rows, "extra")[0], c.extra)
		}
	}
}
