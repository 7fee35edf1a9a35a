package job

import (
	"bytes"
	_ "embed"
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

// schema is parsed when the first file is read.
var schema = sync.OnceValue(func() *yamltree.Schema { return yamltree.MustParseSchema(schemaText) })

// oneOff is the part of the schema for a one-off job.
func oneOff() *yamltree.Schema { return schema().Definition("job") }
