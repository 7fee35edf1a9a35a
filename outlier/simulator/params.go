package simulator

import (
	"outlierd/outlier/simulator/library"
	"outlierd/outlier/simulator/rules"
)

// The parameters of the searches. The library has the filters, and the interface documents no bounds of
// those of channels.
var (
	searchRules = rules.Join(outlierRules, queryRules, rules.Set{"sortBy": library.HitOrders})

	relatedRules = rules.Join(outlierRules, rules.Set{
		"title":            rules.Texts,
		"videoId":          rules.Many(rules.VideoID),
		"thumbnailVideoId": rules.One(rules.VideoID),
		"relatedChannelId": rules.Many(rules.ChannelID),
	})

	findRules = rules.Join(channelRules, queryRules, rules.Set{"sortBy": library.ChannelOrders})

	findRelatedRules = rules.Join(channelRules, rules.Set{"relatedChannelId": rules.Many(rules.ChannelID).Required()})
)

// What several searches have in common.
var (
	outlierRules = rules.Join(library.HitFilters, pageRules, rules.Set{
		"referenceId": rules.One(rules.Matches(`^(?s).+$`)),
		"by":          rules.One(rules.OneOf("semantic", "lexical")),
	})
	channelRules = rules.Join(library.ChannelFilters, pageRules, rules.Set{"filterBy": rules.Kind})
	queryRules   = rules.Set{
		"query":     rules.Texts,
		"seed":      rules.Text,
		"sortOrder": rules.One(rules.OneOf("asc", "desc")),
	}
	pageRules = rules.Set{
		"from": rules.One(rules.Integer(0, rules.MaxInteger)),
		"size": rules.One(rules.Integer(1, 40)),
	}
)
