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

// checkShape checks a tree against the schema, or against one part of it.
func checkShape(root *yamltree.Node, s *yamltree.Schema) {
	s.Check(root, yamltree.Advice{Unknown: adviseOnKey, Value: adviseOnValue})
}

// schema is parsed when the first file is read.
var schema = sync.OnceValue(func() *yamltree.Schema { return yamltree.MustParseSchema(schemaText) })

// oneOff is the part of the schema for a one-off job.
func oneOff() *yamltree.Schema { return schema().Definition("job") }

// adviseOnValue says how to write a number where a range is expected.
func adviseOnValue(n *yamltree.Node, s *yamltree.Schema) string {
	if s.Form == "range" {
		return asRange(n)
	}
	return ""
}

// adviseOnKey returns the remedy for an unknown key: where it belongs, or a key with a similar spelling.
func adviseOnKey(n *yamltree.Node, key string, s *yamltree.Schema) string {
	if advice := adviseNested(n, key, s); advice != "" {
		return advice
	}
	known := s.Keys()
	advice := n.Get(key).Key.DidYouMean(key, known)
	if advice == "" && s.Form == "filters" {
		advice = "filters are " + strings.Join(known, ", ")
	}
	return advice
}

// adviseNested returns where a key belongs that was found in n, which s describes: nested deeper, or in the job
// around it.
func adviseNested(n *yamltree.Node, key string, s *yamltree.Schema) string {
	for _, deeper := range []struct {
		part   *yamltree.Schema
		advice string
	}{
		{s.Get("where"), "filters belong under where"},
		{s.Get("budget"), "it belongs under budget"},
		{s.Get("read"), "it belongs under read"},
		{s.Get("read").Get("where"), "filters belong under read.where"},
		{s.Get("defaults"), "it belongs under a job, or under defaults for all jobs"},
	} {
		if hasKey(deeper.part, key) {
			return deeper.advice
		}
	}
	switch {
	case s == oneOff():
		return adviseVerb(n, key)
	case s == schema().Definition("fetch") && key == "where":
		return "it belongs directly under enrich, for all that is fetched"
	case hasKey(s, "stop_when"), hasKey(s, "read"), hasKey(s, "fetch") && key != "enrich":
		if hasKey(oneOff(), key) {
			return "it belongs directly under the job"
		}
	}
	return ""
}

// adviseVerb returns where a key belongs that was found in a job and is a key of its verb.
func adviseVerb(job *yamltree.Node, key string) string {
	for _, e := range job.Entries {
		switch verb := e.Key.Text; {
		case !isVerb(verb):
		case hasKey(oneOff().Get(verb), key):
			return "it belongs under " + verb
		case verb == string(VerbScan) && hasKey(oneOff().Get(verb).Get("read"), key):
			return "it belongs under scan.read"
		default:
			return ""
		}
	}
	if hasKey(oneOff().Get(string(VerbSearch)), key) {
		return "it belongs under what the job does, such as search"
	}
	return ""
}

func hasKey(s *yamltree.Schema, key string) bool { return slices.Contains(s.Keys(), key) }
