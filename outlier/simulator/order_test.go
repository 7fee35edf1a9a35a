package simulator

import (
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/getkin/kin-openapi/openapi3filter"
	"github.com/google/go-cmp/cmp"

	"outlierd/outlier"
)

// post returns a request POST /scan with the key.
func post(t *testing.T, body string) *http.Request {
	t.Helper()
	r := request(t, "http://service.test/scan")
	r.Method, r.Body = http.MethodPost, io.NopCloser(strings.NewReader(body))
	r.Header.Set("Content-Type", "application/json")
	return r
}

func orderScan(t *testing.T, s *Service, body string) exchange {
	t.Helper()
	resp, err := s.Transport().RoundTrip(post(t, body))
	if err != nil {
		t.Fatalf("POST /scan: %v", err)
	}
	answer, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatalf("POST /scan: read the body: %v", err)
	}
	return exchange{resp.Request, resp, answer}
}

func TestEachStartChargesAnotherScan(t *testing.T) {
	s := unlimited(Options{Seed: 1})
	ids := map[string]bool{}
	for range 3 {
		ids[startScan(t, s, `{"query":["moka pot"]}`).ID] = true
	}
	ids[startScan(t, s, `{"query":["moka pot"],"mode":"standard","findBy":"query"}`).ID] = true
	want := Totals{Calls: 4, Served: 4, Charged: 250}
	if diff := cmp.Diff(want, s.Books().Operations[outlier.OpStartScan]); diff != "" || len(ids) != 4 {
		t.Errorf("%d scans, want 4; books (-want +got):\n%s", len(ids), diff)
	}
	for _, c := range s.Books().Calls {
		if !ids[c.Scan] {
			t.Errorf("the books have scan %q, want one of %v", c.Scan, ids)
		}
	}
}

// The log has each start of a scan with the identity that the client gives it.
func TestStartLogUsesClientIdentity(t *testing.T) {
	s := unlimited(Options{Seed: 1})
	startScan(t, s, `{"query":["b","a & ü"]}`)
	startScan(t, s, `{"findBy":"query","mode":"standard","query":["b"]}`)
	want := []string{
		"start_scan  findBy=query&mode=fast&query=b&query=a+%26+%C3%BC",
		"start_scan  findBy=query&mode=standard&query=b",
	}
	for i, c := range s.Books().Calls {
		if c.Identity != want[i] {
			t.Errorf("identity %q, want %q", c.Identity, want[i])
		}
	}
}

func TestFaultsOfScanStarts(t *testing.T) {
	for _, tt := range []struct {
		fault Fault
		want  Totals
		scan  bool // whether a scan was started
	}{
		{ServerError, Totals{Calls: 1, Failed: 1, Charged: 50, Refunded: 50}, false},
		{NoCredits, Totals{Calls: 1, Refused: 1}, false},
		{RateLimited, Totals{Calls: 1, Refused: 1}, false},
		{DropRequest, Totals{Calls: 1, Refused: 1}, false},
		{DropAnswer, Totals{Calls: 1, Lost: 1, Charged: 50}, true},
		{CutBody, Totals{Calls: 1, Lost: 1, Charged: 50}, true},
		{GatewayPage, Totals{Calls: 1, Lost: 1, Charged: 50}, true},
	} {
		s := unlimited(Options{Seed: 1})
		s.FailNext(outlier.OpStartScan, tt.fault)
		if resp, err := s.Transport().RoundTrip(post(t, `{"query":["x"]}`)); err == nil {
			io.Copy(io.Discard, resp.Body) // truncated bodies end in an error
		}
		b := s.Books()
		if diff := cmp.Diff(tt.want, b.Total); diff != "" || (b.Calls[0].Scan != "") != tt.scan {
			t.Errorf("%s: scan %q, want one: %t; books (-want +got):\n%s", tt.fault, b.Calls[0].Scan, tt.scan, diff)
			continue
		}
		if tt.scan { // a client that lost the answer can still read the scan
			readRecord(t, s, b.Calls[0].Scan)
		}
	}
	poor := unlimited(Options{Seed: 1, Credits: 49})
	checkAnswer(t, orderScan(t, poor, `{"query":["x"]}`), http.StatusPaymentRequired)
	if c := poor.Books().Calls[0]; c.Scan != "" || c.Charged != 0 {
		t.Errorf("booked %+v, want no scan and no charge", c)
	}
}

// orderCases are bodies of POST /scan and the fields that are wrong in them.
var orderCases = []struct {
	body  string
	wrong []string
}{
	{`{"query":["moka pot"]}`, nil},
	{`{"query":["a","b"],"findBy":"query","mode":"fast"}`, nil},
	{`{"query":["UCaaaaaaaaaaaaaaaaaaaaaa"],"findBy":"channels","mode":"standard"}`, nil},
	{`{}`, []string{"query"}},
	{`{"query":null}`, []string{"query"}},
	{`{"query":"moka pot"}`, []string{"query"}},
	{`{"query":[]}`, []string{"query"}},
	{`{"query":["a",1,null]}`, []string{"query"}},
	{`{"query":["a"],"mode":"slow"}`, []string{"mode"}},
	{`{"query":["a"],"mode":null,"findBy":1}`, []string{"findBy", "mode"}},
	{`{"query":["a"],"findby":"query","size":40}`, []string{"findby", "size"}},
	{`[]`, []string{""}},
	{`null`, []string{""}},
	{``, []string{""}},
	{`{"query":["a"]`, []string{""}},
}

func TestInvalidStartsAreRefused(t *testing.T) {
	s := unlimited(Options{Seed: 1})
	for _, tt := range orderCases {
		x := orderScan(t, s, tt.body)
		if tt.wrong == nil {
			x.record(t)
			continue
		}
		checkAnswer(t, x, http.StatusBadRequest)
		var got validation
		if err := json.Unmarshal(x.body, &got); err != nil {
			t.Fatal(err)
		}
		var fields []string
		for _, c := range got.Error.Errors {
			fields = append(fields, strings.Join(c.Path, "."))
		}
		if !cmp.Equal(fields, tt.wrong) {
			t.Errorf("%s: errors about %q, want %q", tt.body, fields, tt.wrong)
		}
	}
	byName := orderScan(t, s, `{"query":["@coffee"],"findBy":"channels"}`)
	checkAnswer(t, byName, http.StatusBadRequest)
	plain := post(t, `{"query":["a"]}`)
	plain.Header.Set("Content-Type", "text/plain")
	bare := post(t, "")
	bare.Body = nil
	tooLong := post(t, `{"query":["`+strings.Repeat("a", maxBody)+`"]}`)
	for _, r := range []*http.Request{plain, bare, post(t, `{"query":["a"]}}`), tooLong} {
		if resp, err := s.Transport().RoundTrip(r); err != nil || resp.StatusCode != http.StatusBadRequest {
			t.Errorf("answer %v, %v; want 400", resp, err)
		}
	}
	if got := s.Books().Total; got.Charged != 50+50+100 {
		t.Errorf("charged %d credits, want 200 for the starts that were not refused", got.Charged)
	}
}

// The contract and the service refuse the same starts of scans.
func TestContractRefusesSameStarts(t *testing.T) {
	for _, tt := range orderCases {
		in, err := openContract(t).request(post(t, tt.body))
		if err != nil {
			t.Fatal(err)
		}
		if err := openapi3filter.ValidateRequest(t.Context(), in); (err != nil) != (tt.wrong != nil) {
			t.Errorf("%s: the service refuses %q; validation: %v", tt.body, tt.wrong, err)
		}
	}
}

func TestErrorsOfStartsObeyTheContract(t *testing.T) {
	for status, f := range map[int]Fault{
		http.StatusUnauthorized: Unauthorized, http.StatusPaymentRequired: NoCredits,
		http.StatusTooManyRequests: RateLimited, http.StatusInternalServerError: ServerError,
	} {
		s := unlimited(Options{Seed: 1})
		s.FailNext(outlier.OpStartScan, f)
		checkAnswer(t, orderScan(t, s, `{"query":["x"]}`), status)
	}
	otherKey := New(Options{Seed: 1, Key: "another"})
	checkAnswer(t, orderScan(t, otherKey, `{"query":["x"]}`), http.StatusUnauthorized)
	busy := New(Options{Seed: 1, Freeze: true, Limit: 1})
	checkAnswer(t, orderScan(t, busy, `{"query":["x"]}`), http.StatusOK)
	checkAnswer(t, orderScan(t, busy, `{"query":["x"]}`), http.StatusTooManyRequests)
}

func FuzzReadOrder(f *testing.F) {
	for _, tt := range orderCases {
		f.Add(tt.body)
	}
	f.Fuzz(func(t *testing.T, body string) {
		o, wrong := readOrder(post(t, body))
		if len(wrong) == 0 && (len(o["query"]) == 0 || !json.Valid([]byte(body))) {
			t.Errorf("%q is accepted as %+v", body, o)
		}
		for _, c := range wrong {
			if c.Path == nil || c.Code == "" || c.Validation == "" || c.Message == "" {
				t.Errorf("%q: error %+v has empty fields", body, c)
			}
		}
	})
}

func TestScanStartsOverHTTP(t *testing.T) {
	server := httptest.NewServer(unlimited(Options{Seed: 1}))
	defer server.Close()
	r := post(t, `{"query":["moka pot"]}`)
	r.URL.Host = server.Listener.Addr().String()
	resp, err := http.DefaultTransport.RoundTrip(r)
	if err != nil || resp.StatusCode != http.StatusOK {
		t.Fatalf("POST /scan: answer %v, %v; want 200", resp, err)
	}
	resp.Body.Close()
}
