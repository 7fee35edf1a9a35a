package simulator

import (
	"encoding/json"
	"io"
	"mime"
	"net/http"
	"net/url"
	"slices"
	"strings"
)

// orderRules are the fields of the body of POST /scan, which is checked like the parameters of a query.
var orderRules = map[string]rule{
	"query":  listOf(anyText),
	"findBy": oneValue(oneOf("query", "channels")),
	"mode":   oneValue(oneOf(fast.name, standard.name)),
}

// channelOrderRules are those of a scan from channels.
var channelOrderRules = mergeRules(orderRules, map[string]rule{"query": listOf(channelIDForm)})

// readOrder reads the body as parameters, with the defaults of those that it lacks, and returns everything that is
// wrong with it.
func readOrder(r *http.Request) (url.Values, []complaint) {
	fields, c := readObject(r)
	if c != nil {
		c.Path = []string{}
		return nil, []complaint{*c}
	}
	order := url.Values{"findBy": {"query"}, "mode": {fast.name}}
	var wrong []complaint
	for name, value := range fields {
		values, isList := value.([]any)
		if !isList {
			values = []any{value}
		}
		order.Del(name)
		for _, v := range values {
			text, isText := v.(string)
			if !isText || isList != (name == "query") {
				c := newComplaint("invalid_type", "string", "Expected a value of another type")
				c.Path = []string{name}
				wrong = append(wrong, *c)
				break
			}
			order.Add(name, text)
		}
	}
	rules := orderRules
	if order.Get("findBy") == "channels" {
		rules = channelOrderRules
	}
	violations, unknown := findViolations(order, rules, "query")
	for _, name := range unknown {
		c := newComplaint("unrecognized_keys", "strict", "Unrecognized key")
		c.Path = []string{name}
		wrong = append(wrong, *c)
	}
	wrong = append(wrong, violations...)
	byField := func(a, b complaint) int { return strings.Compare(a.Path[0], b.Path[0]) }
	slices.SortStableFunc(wrong, byField)
	return order, slices.CompactFunc(wrong, func(a, b complaint) bool { return byField(a, b) == 0 })
}

// maxBody is the longest body that the service reads.
const maxBody = 1 << 20

// readObject reads a body that must be one JSON object.
func readObject(r *http.Request) (map[string]any, *complaint) {
	if kind, _, err := mime.ParseMediaType(r.Header.Get("Content-Type")); err != nil || kind != "application/json" {
		return nil, newComplaint("invalid_type", "json", "Expected a body of type application/json")
	}
	if r.Body == nil {
		return nil, newComplaint("invalid_type", "json", "Expected a body")
	}
	body, err := io.ReadAll(io.LimitReader(r.Body, maxBody+1))
	if err != nil || len(body) > maxBody {
		return nil, newComplaint("too_big", "json", "Expected a body of at most %d bytes", maxBody)
	}
	var fields map[string]any
	if err := json.Unmarshal(body, &fields); err != nil || fields == nil {
		return nil, newComplaint("invalid_type", "json", "Expected a JSON object")
	}
	return fields, nil
}
