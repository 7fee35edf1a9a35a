package job

import (
	"bytes"
	_ "embed"
	"slices"
	"strings"
	"sync"

	"outlierd/sync/yamltree"
)

// Schema returns the JSON Schema (draft-07) of jobs.yaml with a description of every key: the reference of
// the file, for editors and for people.
func Schema() []byte { return bytes.Clone(schemaText) }

// Example returns a small jobs.yaml with comments. It has no mistakes and runs on the simulator.
func Example() []byte { return bytes.Clone(exampleText) }

//go:embed jobs.schema.json
var schemaText []byte

//go:embed example.yaml
var exampleText []byte

// shape checks a tree against the schema, or against one part of it.
func shape(root *yamltree.Node, part string) {
	schema().Check(root, part, yamltree.Advice{Unknown: adviseOnKey, Value: adviseOnValue})
}

// oneOff is the part of the schema for a one-off job.
const oneOff = "#/definitions/job"

// schema is compiled when the first file is read.
var schema = sync.OnceValue(func() *yamltree.Schema {
	return yamltree.CompileSchema("jobs.schema.json", schemaText, oneOff)
})

// adviseOnValue says how to write a number where a range is expected.
func adviseOnValue(n *yamltree.Node, wants string) string {
	if strings.HasPrefix(wants, "a range") {
		return asRange(n)
	}
	return ""
}

// adviseOnKey returns the remedy for an unknown key: where it belongs, or a key with a similar spelling.
func adviseOnKey(n *yamltree.Node, name, place string) string {
	if advice := elsewhere(n, name, place); advice != "" {
		return advice
	}
	known := schema().Keys(place)
	advice := n.Get(name).Key.DidYouMean(name, known)
	if advice == "" && strings.HasSuffix(strings.ToLower(place), "where") {
		advice = "filters are " + strings.Join(known, ", ")
	}
	return advice
}

// elsewhere returns where a key belongs that was found in n, which the part of the schema at a place
// describes: nested deeper, or in the job around it.
func elsewhere(n *yamltree.Node, name, place string) string {
	in := func(piece string) bool { return slices.Contains(schema().Keys(piece), name) }
	beside := func(key string) bool { return slices.Contains(schema().Keys(place), key) }
	for _, deeper := range []struct{ at, advice string }{
		{"/properties/where", "filters belong under where"},
		{"/properties/budget", "it belongs under budget"},
		{"/properties/read", "it belongs under read"},
		{"/properties/read/properties/where", "filters belong under read.where"},
	} {
		if in(place + deeper.at) {
			return deeper.advice
		}
	}
	switch {
	case beside(string(VerbSearch)) && beside("stop_after"):
		return below(n, name)
	case beside("top_per_item") && name == "where":
		return "it belongs directly under enrich, for all that is fetched"
	case beside("stop_when"), beside("read"), beside("fetch") && name != "enrich":
		if in(oneOff) {
			return "it belongs directly under the job"
		}
	}
	return ""
}

// below returns where a key belongs that was found in a job and is a key of its verb.
func below(job *yamltree.Node, name string) string {
	in := func(piece string) bool { return slices.Contains(schema().Keys(piece), name) }
	for _, e := range job.Entries {
		switch verb := e.Key.Text; {
		case !isVerb(verb):
		case in(oneOff + "/properties/" + verb):
			return "it belongs under " + verb
		case verb == string(VerbScan) && in("#/definitions/scan/properties/read"):
			return "it belongs under scan.read"
		default:
			return ""
		}
	}
	if in("#/definitions/search") {
		return "it belongs under what the job does, such as search"
	}
	return ""
}
