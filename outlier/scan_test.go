package outlier

import (
	"net/url"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

const aScan = "3f2b8c1e-9d4a-4c6b-8e7f-0a1b2c3d4e5f"

func values(t testing.TB, query string) url.Values {
	t.Helper()
	v, err := url.ParseQuery(query)
	if err != nil {
		t.Fatal(err)
	}
	return v
}

func TestScanIsRequestedWithExplicitDefaults(t *testing.T) {
	for name, tt := range map[string]struct {
		scan  string
		want  string
		price Credits
	}{
		"query alone":   {"query=b&query=a", "findBy=query&query=b&query=a&mode=fast", 50},
		"all defaults":  {"findBy=query&query=b&query=a&mode=fast", "findBy=query&query=b&query=a&mode=fast", 50},
		"channels":      {"findBy=channels&query=" + aChannel, "findBy=channels&query=" + aChannel + "&mode=fast", 50},
		"standard mode": {"query=a&mode=standard", "findBy=query&query=a&mode=standard", 100},
	} {
		r := ask(t, OpStartScan, values(t, tt.scan))
		want := &Request{op: OpStartScan, path: "/scan", params: values(t, tt.want), price: tt.price}
		if diff := cmp.Diff(want, r, cmp.AllowUnexported(Request{})); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}

func TestInvalidScanIsRefused(t *testing.T) {
	for name, tt := range map[string]struct {
		scan string
		want []string
	}{
		"nothing":                   {"", []string{"query required"}},
		"no query":                  {"findBy=channels", []string{"query required"}},
		"blank query":               {"query=a&query=+", []string{"query pattern"}},
		"channel by name":           {"findBy=channels&query=" + aChannel + "&query=@name&query=Coffee", []string{"query pattern", "query pattern"}},
		"unknown mode":              {"query=a&mode=slow", []string{"mode enum"}},
		"found by something else":   {"query=a&findBy=videos", []string{"findBy enum"}},
		"a name is a query as well": {"query=@name", nil},
		"a page of a scan":          {"query=a&from=0", []string{"from unknown"}},
	} {
		r, err := NewRequest(OpStartScan, values(t, tt.scan), nil)
		if diff := cmp.Diff(tt.want, codes(err)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
		if (tt.want != nil) != (kindOf(err) == Invalid) || (err == nil) == (r == nil) {
			t.Errorf("%s gives %v, %v", name, r, err)
		}
	}
}

func TestReadScanReadsRelevantFields(t *testing.T) {
	got, err := ReadScan([]byte(`{"id":"` + aScan + `","name":"n","status":"Running","input":{"query":["a","b"],"threshold":{"channels":100,"outlierVideos":9007199254740991}},
		"createdAt":"2026-11-21T10:00:00.123Z","updatedAt":"2026-11-21T10:00:01Z","endedAt":null,"new":[{}]}`))
	if err != nil {
		t.Fatal(err)
	}
	want := Scan{
		ID: aScan, Status: "Running", Query: []string{"a", "b"},
		Channels: new(int64(100)), OutlierVideos: new(int64(maxInteger)),
		CreatedAt: time.Date(2026, 11, 21, 10, 0, 0, 123e6, time.UTC),
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestReadScanToleratesUnexpectedFields(t *testing.T) {
	for name, tt := range map[string]struct {
		members string
		want    Scan
	}{
		"id alone":            {``, Scan{}},
		"all null":            {`,"name":null,"status":null,"input":null,"createdAt":null,"updatedAt":null,"endedAt":null`, Scan{}},
		"other types":         {`,"name":7,"status":["x"],"input":[],"createdAt":{},"endedAt":false`, Scan{}},
		"plain threshold":     {`,"input":{"threshold":1000}`, Scan{OutlierVideos: new(int64(1000))}},
		"quoted threshold":    {`,"input":{"threshold":{"channels":"250","outlierVideos":2.5e3}}`, Scan{Channels: new(int64(250)), OutlierVideos: new(int64(2500))}},
		"half a threshold":    {`,"input":{"threshold":{"channels":100,"outlierVideos":null}}`, Scan{Channels: new(int64(100))}},
		"odd threshold":       {`,"input":{"query":"a","threshold":[1]}`, Scan{}},
		"impossible counts":   {`,"input":{"threshold":{"channels":-1,"outlierVideos":1.5}}`, Scan{}},
		"odd queries":         {`,"input":{"query":["a",null,7]}`, Scan{Query: []string{"a", "", "7"}}},
		"ended, unix seconds": {`,"endedAt":1793527200`, Scan{EndedAt: time.Unix(1793527200, 0).UTC()}},
		"ended, no time":      {`,"endedAt":""`, Scan{}},
	} {
		t.Run(name, func(t *testing.T) {
			tt.want.ID = aScan
			got, err := ReadScan([]byte(`{"id":"` + aScan + `"` + tt.members + `}`))
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

// ReadScan refuses an answer without a valid scan ID.
func TestReadScanRefusesOtherAnswers(t *testing.T) {
	for _, body := range []string{``, `[]`, `null`, `{}`, `{"id":7}`, `{"id":null,"status":"Running"}`, `{"id":"` + aScan + `0"}`, `<html>`} {
		if s, err := ReadScan([]byte(body)); err == nil || s.ID != "" {
			t.Errorf("%s passes as %+v", body, s)
		}
	}
}

// ReadScan finds the ID in a truncated answer, because a paid scan must not be lost.
func TestReadScanReadsTruncatedAnswers(t *testing.T) {
	whole := `{"id":"` + aScan + `","status":"Running"}`
	for n := range len(whole) {
		s, err := ReadScan([]byte(whole[:n]))
		if known := n > len(`{"id":"`+aScan); err == nil || (s.ID == aScan) != known || s.ID != aScan && s.ID != "" {
			t.Errorf("%s gives the id %q, %v", whole[:n], s.ID, err)
		}
	}
}

// A scan has ended if its status is a known final one or if it has an end time.
func TestScanEndsByStatusOrTime(t *testing.T) {
	then := time.Unix(1793527200, 0)
	for _, tt := range []struct {
		status           string
		endedAt          time.Time
		ended, succeeded bool
	}{
		{"", time.Time{}, false, false},
		{"Queued", time.Time{}, false, false},
		{"Running", time.Time{}, false, false},
		{"Suspended", time.Time{}, false, false},
		{"ContinuedAsNew", time.Time{}, false, false},
		{"Paused for lunch", time.Time{}, false, false},
		{"Completed", time.Time{}, true, true},
		{"COMPLETED ", then, true, true},
		{"Failed", time.Time{}, true, false},
		{"failed", then, true, false},
		{"Terminated", time.Time{}, true, false},
		{"", then, true, true},
		{"Paused for lunch", then, true, true},
	} {
		s := Scan{Status: tt.status, EndedAt: tt.endedAt}
		if s.Ended() != tt.ended || s.Succeeded() != tt.succeeded {
			t.Errorf("%q, ended at %v: ended %v, succeeded %v", tt.status, tt.endedAt, s.Ended(), s.Succeeded())
		}
	}
}

func FuzzReadScan(f *testing.F) {
	f.Add([]byte(`{"id":"` + aScan + `","status":"Running","input":{"query":["a",7],"threshold":{"channels":1}},"endedAt":1e9}`))
	f.Add([]byte(`{"input":{"threshold":1.5},"id":"` + aScan))
	f.Fuzz(func(t *testing.T, body []byte) {
		s, err := ReadScan(body)
		if s.ID != "" && !scanID.MatchString(s.ID) || err == nil && s.ID == "" {
			t.Errorf("id %q, %v", s.ID, err)
		}
		for _, n := range []*int64{s.Channels, s.OutlierVideos} {
			if n != nil && (*n < 0 || *n > maxInteger) {
				t.Errorf("a threshold of %d", *n)
			}
		}
		if s.Succeeded() && !s.Ended() {
			t.Errorf("%+v succeeded without an end", s)
		}
		if _, err := PageOf(OpFindChannels, body); err == nil {
			if _, err := PageOf(OpTrendingFormats, body); err != nil {
				t.Errorf("a page of channels is no JSON: %v", err)
			}
		}
	})
}
