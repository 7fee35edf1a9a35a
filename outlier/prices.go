package outlier

import "maps"

// Credits is an amount of the service's money.
type Credits int64

// Prices says what an answer costs, by tariff ([Request.Tariff]). They have changed
// before, so a user may set them; a tariff that is missing has its documented price.
type Prices map[string]Credits

// The tariffs of a scan, which has a price for each mode. Every other tariff is
// named as its operation is.
const (
	tariffFast     = "scan_fast"
	tariffStandard = "scan_standard"
)

// documented is the table of the interface, Limits, Credits per request, less what
// is free.
var documented = Prices{
	string(OpSearch):              2,
	string(OpRelated):             2,
	string(OpTrendingFormats):     1,
	string(OpFindChannels):        5,
	string(OpFindRelatedChannels): 5,
	tariffFast:                    50,
	tariffStandard:                100,
}

// DocumentedPrices are the prices of the interface, Limits, Credits per request.
func DocumentedPrices() Prices { return maps.Clone(documented) }

// Of is what an answer to r costs at most: a cached one costs nothing, but nothing
// in an answer says that it was cached. It is 0 for what is free.
func (p Prices) Of(r *Request) Credits {
	tariff := r.Tariff()
	if price, ok := p[tariff]; ok {
		return price
	}
	return documented[tariff]
}

// Tariff is the key of r's price in [Prices]; "" if r is free. A scan whose mode is
// not known has the dearer one.
func (r *Request) Tariff() string {
	if r.Op == OpStartScan {
		switch r.Params.Get("mode") {
		case "", ModeFast:
			return tariffFast
		}
		return tariffStandard
	}
	if _, paid := documented[string(r.Op)]; paid {
		return string(r.Op)
	}
	return ""
}

// Price is the documented price of an operation, 0 if it is free. Starting a scan
// has two; this is the higher one.
func (o Operation) Price() Credits {
	if o == OpStartScan {
		return documented[tariffStandard]
	}
	return documented[string(o)]
}
