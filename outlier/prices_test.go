package outlier

import (
	"net/url"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// free is every operation without a price.
var free = []Operation{OpScan, OpChannelVideos, OpChannelShorts, OpDetails, OpComments, OpTranscript}

func TestPricesAreTheDocumentedOnes(t *testing.T) {
	want := Prices{
		"search": 2, "related": 2, "trending_formats": 1, "find_channels": 5, "find_related_channels": 5,
		"scan_fast": 50, "scan_standard": 100,
	}
	if diff := cmp.Diff(want, DocumentedPrices()); diff != "" {
		t.Errorf("(-want +documented):\n%s", diff)
	}
	DocumentedPrices()["search"] = 0
	if got := OpSearch.Price(); got != 2 {
		t.Errorf("the documented price of a search became %d", got)
	}
}

func TestTariffSaysWhatARequestCosts(t *testing.T) {
	scan := func(mode string) *Request {
		return StartScanRequest(url.Values{"query": {"a"}, "mode": {mode}})
	}
	for _, tt := range []struct {
		r      *Request
		tariff string
		price  Credits
	}{
		{PageRequest(OpSearch, nil), "search", 2},
		{PageRequest(OpRelated, nil), "related", 2},
		{PageRequest(OpFindChannels, nil), "find_channels", 5},
		{PageRequest(OpFindRelatedChannels, nil), "find_related_channels", 5},
		{PageRequest(OpTrendingFormats, nil), "trending_formats", 1},
		{StartScanRequest(nil), "scan_fast", 50},
		{scan("fast"), "scan_fast", 50},
		{scan("standard"), "scan_standard", 100},
		{scan("thorough"), "scan_standard", 100},
		{&Request{Op: OpStartScan}, "scan_fast", 0},
	} {
		if tt.r.Tariff() != tt.tariff || tt.r.Price != tt.price || tt.r.Paid() != (tt.price > 0) {
			t.Errorf("%s has the tariff %q and costs %d, want %q and %d", tt.r.Identity(), tt.r.Tariff(), tt.r.Price, tt.tariff, tt.price)
		}
	}
	for _, op := range free {
		if r := (&Request{Op: op}); r.Tariff() != "" || op.Price() != 0 || DocumentedPrices().Of(r) != 0 {
			t.Errorf("%s has the tariff %q and costs %d", op, r.Tariff(), op.Price())
		}
	}
	if got := OpStartScan.Price(); got != 100 {
		t.Errorf("a scan costs at most %d", got)
	}
}

func TestPricesThatAreNotSetAreTheDocumentedOnes(t *testing.T) {
	set := Prices{"search": 5, "scan_fast": 0, "details": 7}
	for _, tt := range []struct {
		r    *Request
		want Credits
	}{
		{PageRequest(OpSearch, nil), 5},
		{PageRequest(OpRelated, nil), 2},
		{StartScanRequest(nil), 0},
		{StartScanRequest(url.Values{"mode": {"standard"}}), 100},
		{&Request{Op: OpDetails}, 0}, // data is free whatever a table says
	} {
		if got := set.Of(tt.r); got != tt.want {
			t.Errorf("%s costs %d, want %d", tt.r.Identity(), got, tt.want)
		}
		if got, want := Prices(nil).Of(tt.r), documented.Of(tt.r); got != want {
			t.Errorf("without a table %s costs %d, want %d", tt.r.Identity(), got, want)
		}
	}
}
