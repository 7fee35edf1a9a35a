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
	if got := Prices(nil).Of(OpSearch, ""); got != 2 {
		t.Errorf("the documented price of a search became %d", got)
	}
}

func TestTariffPrices(t *testing.T) {
	scan := func(mode string) url.Values { return url.Values{"mode": {mode}} }
	for _, tt := range []struct {
		op     Operation
		params url.Values
		tariff string
		price  Credits
	}{
		{OpSearch, nil, "search", 2},
		{OpRelated, nil, "related", 2},
		{OpFindChannels, nil, "find_channels", 5},
		{OpFindRelatedChannels, nil, "find_related_channels", 5},
		{OpTrendingFormats, nil, "trending_formats", 1},
		{OpStartScan, nil, "scan_fast", 50},
		{OpStartScan, scan("fast"), "scan_fast", 50},
		{OpStartScan, scan("standard"), "scan_standard", 100},
		{OpStartScan, scan("thorough"), "scan_standard", 100},
	} {
		name, price := priceKey(tt.op, tt.params.Get("mode")), Prices(nil).Of(tt.op, tt.params.Get("mode"))
		if name != tt.tariff || price != tt.price {
			t.Errorf("%s %v has the tariff %q and costs %d, want %q and %d",
				tt.op, tt.params, name, price, tt.tariff, tt.price)
		}
		if set := (Prices{tt.tariff: 77}); set.Of(tt.op, tt.params.Get("mode")) != 77 {
			t.Errorf("%s %v does not cost what is set for %s", tt.op, tt.params, tt.tariff)
		}
	}
	for _, op := range free {
		if name, price := priceKey(op, ""), Prices(nil).Of(op, ""); name != "" || price != 0 || anAsk(t, op).Paid() {
			t.Errorf("%s has the tariff %q and costs %d", op, name, price)
		}
	}
}

func TestUnsetPricesUseDocumentedDefaults(t *testing.T) {
	set := Prices{"search": 5, "scan_fast": 0, "details": 7}
	for _, tt := range []struct {
		op     Operation
		params url.Values
		want   Credits
	}{
		{OpSearch, nil, 5},
		{OpRelated, nil, 2},
		{OpStartScan, nil, 0},
		{OpStartScan, url.Values{"mode": {"standard"}}, 100},
		{OpDetails, nil, 0}, // data is free whatever a table says
	} {
		if got := set.Of(tt.op, tt.params.Get("mode")); got != tt.want {
			t.Errorf("%s costs %d, want %d", tt.op, got, tt.want)
		}
	}
	if r, err := NewRequest(OpSearch, nil, set); err != nil || r.price != 5 {
		t.Errorf("a search at the prices that are set: %+v, %v", r, err)
	}
}
