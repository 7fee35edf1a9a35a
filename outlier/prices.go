package outlier

// Credits is an amount in the currency of the service.
type Credits int64

// Prices has the prices of answers by tariff: an operation, or the start of a scan in one mode. Users can
// set them, because the service has changed them before. A missing tariff has its documented price.
type Prices map[string]Credits

// The tariffs of a scan, one per mode. All other tariffs have the names of their operations.
const (
	tariffFast     = "scan_fast"
	tariffStandard = "scan_standard"
)

// scanPrices has the documented prices of a scan by mode.
var scanPrices = map[string]Credits{ModeFast: 50, ModeStandard: 100}

// DocumentedPrices returns the prices of the interface, Limits, Credits per request, without free
// operations.
func DocumentedPrices() Prices {
	all := Prices{tariffFast: scanPrices[ModeFast], tariffStandard: scanPrices[ModeStandard]}
	for op, e := range endpoints {
		if e.price > 0 && op != OpStartScan {
			all[string(op)] = e.price
		}
	}
	return all
}

// documented has the price of each tariff.
var documented = DocumentedPrices()

// Of returns the maximum price of an answer: a cached one is free, but no answer says that it was cached.
// It returns 0 for free operations. mode is the mode of a scan to start, and "" otherwise.
func (p Prices) Of(op Operation, mode string) Credits {
	tariff := priceKey(op, mode)
	if price, ok := p[tariff]; ok {
		return price
	}
	return documented[tariff]
}

// priceKey returns the key of an operation in [Prices]; "" if it is free. A scan of unknown mode has the higher price.
func priceKey(op Operation, mode string) string {
	switch {
	case endpoints[op].price == 0:
		return ""
	case op != OpStartScan:
		return string(op)
	case mode == "" || mode == ModeFast:
		return tariffFast
	}
	return tariffStandard
}
