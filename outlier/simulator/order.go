package simulator

import (
	"encoding/json"
	"io"
	"mime"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"outlierd/outlier/simulator/rules"
)

// orderRules are the fields of the body of POST /scan, which is checked like the parameters of a query.
var orderRules = rules.Set{
	"query":  rules.Texts.Required(),
	"findBy": rules.One(rules.OneOf("query", "channels")),
	"mode":   rules.One(rules.OneOf(fast.name, standard.name)),
}

// channelOrderRules are those of a scan from channels.
var channelOrderRules = rules.Join(orderRules, rules.Set{"query": rules.Many(rules.ChannelID).Required()})

// readOrder reads the body as parameters, with the defaults of those that it lacks, and returns everything that is
// wrong with it.
func readOrder(r *http.Request) (url.Values, []rules.Complaint) {
	fields, c := readObject(r)
	if c != nil {
		return nil, []rules.Complaint{*c}
	}
	order := url.Values{"findBy": {"query"}, "mode": {fast.name}}
	var wrong []rules.Complaint
	for name, value := range fields {
		values, isList := value.([]any)
		if !isList {
			values = []any{value}
		}
		order.Del(name)
		for _, v := range values {
			text, isText := v.(string)
			if !isText || isList != (name == "query") {
				c := rules.NewComplaint("invalid_type", "string", "Expected a value of another type")
				wrong = append(wrong, c.About(name))
				break
			}
			order.Add(name, text)
		}
	}
	of := orderRules
	if order.Get("findBy") == "channels" {
		of = channelOrderRules
	}
	violations, unknown := of.FindViolations(order)
	for _, name := range unknown {
		wrong = append(wrong, rules.NewComplaint("unrecognized_keys", "strict", "Unrecognized key").About(name))
	}
	wrong = append(wrong, violations...)
	byField := func(a, b rules.Complaint) int { return strings.Compare(a.Path[0], b.Path[0]) }
	slices.SortStableFunc(wrong, byField)
	return order, slices.CompactFunc(wrong, func(a, b rules.Complaint) bool { return byField(a, b) == 0 })
}

// maxBody is the longest body that the service reads.
const maxBody = 1 << 20

// readObject reads a body that must be one JSON object.
func readObject(r *http.Request) (map[string]any, *rules.Complaint) {
	if kind, _, err := mime.ParseMediaType(r.Header.Get("Content-Type")); err != nil || kind != "application/json" {
		return nil, rules.NewComplaint("invalid_type", "json", "Expected a body of type application/json")
	}
	if r.Body == nil {
		return nil, rules.NewComplaint("invalid_type", "json", "Expected a body")
	}
	body, err := io.ReadAll(io.LimitReader(r.Body, maxBody+1))
	if err != nil || len(body) > maxBody {
		return nil, rules.NewComplaint("too_big", "json", "Expected a body of at most %d bytes", maxBody)
	}
	var fields map[string]any
	if err := json.Unmarshal(body, &fields); err != nil || fields == nil {
		return nil, rules.NewComplaint("invalid_type", "json", "Expected a JSON object")
	}
	return fields, nil
}
