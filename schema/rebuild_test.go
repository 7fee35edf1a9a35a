package schema

import (
	"bytes"
	"cmp"
	"encoding/json"
	"maps"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/apache/arrow-go/v18/arrow"

	"outlierd/outlier"
)

// rebuild makes an answer from its rows.
func rebuild(t *testing.T, op outlier.Operation, parts map[string]arrow.RecordBatch) any {
	t.Helper()
	if op == outlier.OpTrendingFormats {
		return rebuildFormats(t, objects(t, parts["trending_formats"]))
	}
	answer := map[string]any{}
	built := map[string][]map[string]any{"": {answer}} // by place
	for _, p := range placesOf(op) {
		for _, row := range objects(t, parts[p.table.Name]) {
			object := answer
			if p.path != "" {
				object = map[string]any{}
				p.attach(t, built, row, object)
				built[p.path] = append(built[p.path], object)
			}
			for _, c := range p.table.Columns {
				if path, top := strings.CutPrefix(c.Path, "/"); top {
					put(answer, path, value(t, c, row))
				} else if c.Path != "" && !strings.HasPrefix(c.Path, "../") {
					put(object, c.Path, value(t, c, row))
				}
			}
			if p.table == Scans {
				unbare(object)
			}
		}
	}
	repeatIDs(op, answer, built)
	return answer
}

// spot is a place with its table.
type spot struct {
	path  string
	table *Table
}

// placesOf are the places of an operation's answers, outer ones first.
func placesOf(op outlier.Operation) (spots []spot) {
	for _, table := range Tables() {
		for _, p := range table.Rows {
			if p.Op == op {
				spots = append(spots, spot{p.Path, table})
			}
		}
	}
	slices.SortStableFunc(spots, func(a, b spot) int { return cmp.Compare(len(a.path), len(b.path)) })
	return spots
}

// attach puts an object into the object of the outer place that the row names.
func (p spot) attach(t *testing.T, built map[string][]map[string]any, row, object map[string]any) {
	t.Helper()
	around := ""
	for place := range built {
		if strings.HasPrefix(p.path, place+".") && len(place) > len(around) {
			around = place
		}
	}
	into := built[around][0]
	for _, c := range p.table.Columns {
		if field, ok := strings.CutPrefix(c.Path, "../"); ok {
			i := slices.IndexFunc(built[around], func(o map[string]any) bool { return o[field] == row[c.Name] })
			if i < 0 {
				t.Fatalf("a row of %s belongs to %s %v, which has no row", p.table.Name, around, row[c.Name])
			}
			into = built[around][i]
		}
	}
	name, list := strings.CutSuffix(strings.TrimPrefix(strings.TrimPrefix(p.path, around), "."), "[]")
	if !list {
		into[name] = object
		return
	}
	elements, _ := into[name].([]any)
	into[name] = append(elements, object)
}

// value returns the JSON value of a column of a row.
func value(t *testing.T, c Column, row map[string]any) any {
	t.Helper()
	v := row[c.Name]
	switch {
	case v == nil:
		return nil
	case c.JSON:
		return parse(t, []byte(v.(string)))
	case c.Type == namedImages:
		return unnamed(v.([]any))
	}
	return v
}

// unnamed are images as an object if they have names.
func unnamed(images []any) any {
	named := map[string]any{}
	for _, image := range images {
		fields := image.(map[string]any)
		if name, ok := fields["name"].(string); ok {
			named[name] = fields
		}
		delete(fields, "name")
	}
	if len(named) > 0 {
		return named
	}
	return images
}

// put sets a value at a dotted path.
func put(object map[string]any, path string, v any) {
	names := strings.Split(path, ".")
	for _, name := range names[:len(names)-1] {
		inner, ok := object[name].(map[string]any)
		if !ok {
			inner = map[string]any{}
			object[name] = inner
		}
		object = inner
	}
	object[names[len(names)-1]] = v
}

// unbare makes a threshold of which only one side is known the plain number that it was.
func unbare(scan map[string]any) {
	input := scan["input"].(map[string]any)
	threshold := input["threshold"].(map[string]any)
	maps.DeleteFunc(threshold, func(_ string, v any) bool { return v == nil })
	if len(threshold) == 1 {
		for _, v := range threshold {
			input["threshold"] = v
		}
	}
}

// repeatIDs adds what data endpoints say twice (interface, Resources and their fields).
func repeatIDs(op outlier.Operation, answer map[string]any, built map[string][]map[string]any) {
	switch op {
	case outlier.OpChannelVideos, outlier.OpChannelShorts:
		answer["id"] = built["item"][0]["id"]
	case outlier.OpDetails, outlier.OpComments, outlier.OpTranscript:
		var ids []any
		for _, item := range built["items[]"] {
			ids = append(ids, item["id"])
		}
		answer["ids"] = ids
	}
}

// rebuildFormats puts the elements back into the only array of what stood around them.
func rebuildFormats(t *testing.T, rows []map[string]any) any {
	t.Helper()
	elements := []any{}
	for _, row := range rows {
		if row["value"] != nil {
			elements = append(elements, parse(t, []byte(row["value"].(string))))
		}
	}
	if rows[0]["extra"] == nil {
		return elements[0]
	}
	frame, ok := parse(t, []byte(rows[0]["extra"].(string))).(map[string]any)
	if !ok {
		return elements
	}
	for name, v := range frame {
		if _, ok := v.([]any); ok {
			frame[name] = elements
		}
	}
	return frame
}

func parse(t *testing.T, text []byte) (v any) {
	t.Helper()
	d := json.NewDecoder(bytes.NewReader(text))
	d.UseNumber()
	if err := d.Decode(&v); err != nil {
		t.Fatal(err)
	}
	return v
}

// plain is a value without what the tables do not tell apart.
func plain(name string, v any) any {
	switch v := v.(type) {
	case map[string]any:
		object := map[string]any{}
		for name, member := range v {
			if member = plain(name, member); member != nil {
				object[name] = member
			}
		}
		if len(object) > 0 {
			return object
		}
		return nil
	case []any:
		var list []any
		for _, element := range v {
			list = append(list, plain("", element))
		}
		if len(list) > 0 {
			return list
		}
		return nil
	case json.Number:
		if strings.HasSuffix(name, "Raw") {
			return v.String()
		}
		return plainNumber(v)
	case string:
		if at, err := time.Parse(time.RFC3339, v); err == nil {
			return at.UnixMicro()
		}
	}
	return v
}

func plainNumber(n json.Number) any {
	if whole, err := n.Int64(); err == nil {
		return whole
	}
	x, err := n.Float64()
	if err == nil && x == math.Trunc(x) && math.Abs(x) < 1<<53 {
		return int64(x)
	}
	return x
}
