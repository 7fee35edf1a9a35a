package outlier

// Credits is an amount of the service's money.
type Credits int64

// Prices says what an answer costs, by tariff: an operation,
// or the start of a scan in one mode. They have changed
// before, so a user may set them; a tariff that is missing has its documented price.
type Prices map[string]Credits

// The tariffs of a scan, which has a price for each mode. Every other tariff is
// named as its operation is.
const (
	tariffFast     = "scan_fast"
	tariffStandard = "scan_standard"
)

// scanPrices are the documented prices of a scan by its mode.
var scanPrices = map[string]Credits{ModeFast: 50, ModeStandard: 100}

// DocumentedPrices are the prices of the interface, Limits, Credits per request, less
// what is free.
func DocumentedPrices() Prices {
	all := Prices{tariffFast: scanPrices[ModeFast], tariffStandard: scanPrices[ModeStandard]}
	for op, e := range endpoints {
		if e.price > 0 && op != OpStartScan {
			all[string(op)] = e.price
		}
	}
	return all
}

// Of is what an answer costs at most: a cached one costs nothing, but nothing in an answer
// says that it was cached. It is 0 for what is free. The mode is that of a scan which is to
// be started, and "" for all else.
func (p Prices) Of(op Operation, mode string) Credits {
	tariff, documented := tariff(op, mode)
	if price, ok := p[tariff]; ok {
		return price
	}
	return documented
}

// tariff is the key of an operation's price in [Prices], and the documented price; ""
// if it is free. A scan whose mode is not known has the higher one.
func tariff(op Operation, mode string) (name string, documented Credits) {
	price := endpoints[op].price
	switch {
	case price == 0:
		return "", 0
	case op != OpStartScan:
		return string(op), price
	case mode == "" || mode == ModeFast:
		return tariffFast, scanPrices[ModeFast]
	}
	return tariffStandard, scanPrices[ModeStandard]
}

// Price is the documented price of an operation, 0 if it is free. Starting a scan
// has two; this is the higher one.
func (o Operation) Price() Credits { return endpoints[o].price }
