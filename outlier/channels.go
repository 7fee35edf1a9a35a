package outlier

import (
	"fmt"

	"github.com/go-faster/jx"
)

// readChannelPage reads the answer of a search for channels. Its hits have a ChannelID, and Facts with
// the names of the sort orders of a channel search. There is no fact for recency, because the interface
// does not say which field it sorts by.
func readChannelPage(body []byte) (Page, error) {
	p, err := readPage(body, (*Hit).readChannel)
	if err != nil {
		return Page{}, fmt.Errorf("read a page of channels: %w", err)
	}
	return p, nil
}

func (h *Hit) readChannel(d *jx.Decoder) error {
	return readObject(d, func(d *jx.Decoder, key string) error {
		switch key {
		case "id":
			return readID(d, &h.ChannelID)
		case "kind":
			return readText(d, &h.Kind)
		case "statistics":
			return h.readChannelStatistics(d)
		case "monetization":
			return h.readEstimates(d, channelEstimates)
		case "classification":
			return h.readClassification(d)
		case "language":
			return readObject(d, func(d *jx.Decoder, key string) error {
				if key == "code" {
					return h.readWord(d, "language")
				}
				return d.Skip()
			})
		case "foundAt":
			return h.readInstant(d, key)
		}
		return d.Skip()
	})
}

// channelEstimates is the equivalent of hitEstimates for channels.
var channelEstimates = map[string]string{"revenueMonthlyEstimation": "revenueMonthly", "rpmEstimation": "rpm"}

func (h *Hit) readChannelStatistics(d *jx.Decoder) error {
	return readObject(d, func(d *jx.Decoder, key string) error {
		switch key {
		case "subscribers", "averageViews", "avgViewsToSubscribersRatio", "viewVariationCoefficient":
			return h.readFact(d, key)
		}
		return d.Skip()
	})
}
