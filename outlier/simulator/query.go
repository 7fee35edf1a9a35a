package simulator

import (
	"encoding/json"
	"fmt"
	"io"
	"mime"
	"net/http"
	"net/url"
	"slices"

	"outlierd/outlier"
)

// readOrder reads the body as parameters, with the defaults of those that it lacks, and returns everything that is
// wrong with it.
func readOrder(r *http.Request) (url.Values, []complaint) {
	fields, problem := readObject(r)
	if problem != "" {
		return nil, []complaint{newComplaint("invalid_type", problem)}
	}
	order := url.Values{"findBy": {outlier.FindByQuery}, "mode": {outlier.ModeFast}}
	for name, value := range fields {
		values, isList := value.([]any)
		if !isList {
			values = []any{value}
		}
		order.Del(name)
		for _, v := range values {
			text, isText := v.(string)
			if !isText || isList != (name == "query") {
				text = "" // which is never right
			}
			order.Add(name, text)
		}
	}
	_, err := outlier.NewRequest(outlier.OpStartScan, order, nil)
	wrong := complaintsIn(err)
	return order, slices.CompactFunc(wrong, func(a, b complaint) bool { return slices.Equal(a.Path, b.Path) })
}

// maxBody is the longest body that the service reads.
const maxBody = 1 << 20

// readObject reads a body that must be one JSON object, or returns what else it is.
func readObject(r *http.Request) (fields map[string]any, problem string) {
	kind, _, err := mime.ParseMediaType(r.Header.Get("Content-Type"))
	if err != nil || kind != "application/json" || r.Body == nil {
		return nil, "Expected a body of type application/json"
	}
	body, err := io.ReadAll(io.LimitReader(r.Body, maxBody+1))
	if err != nil || len(body) > maxBody {
		return nil, fmt.Sprintf("Expected a body of at most %d bytes", maxBody)
	}
	if err := json.Unmarshal(body, &fields); err != nil || fields == nil {
		return nil, "Expected a JSON object"
	}
	return fields, ""
}
