package schema

import (
	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/memory"

	"outlierd/outlier"
)

// Decoder turns answers into rows. It is used by one goroutine at a time.
type Decoder struct{}

// record is one place.
type record struct{}

// NewDecoder makes a decoder whose records are allocated from mem.
func NewDecoder(mem memory.Allocator) *Decoder { return &Decoder{} }

// Decode appends the rows of one answer. After an error none are appended.
func (d *Decoder) Decode(src Source, body []byte) error { return nil }

// Rows counts the rows collected.
func (d *Decoder) Rows() int { return 0 }

// Bytes is about how much memory the collected rows take as Arrow.
func (d *Decoder) Bytes() int { return 0 }

// Take hands the collected rows over, at most one Part per table, and starts anew.
func (d *Decoder) Take() []Part { return nil }

// Drift is one way in which answers differ from the interface.
type Drift struct {
	Operation outlier.Operation
	Path      string // "hits[].snippet.sentiment", "hits[].id missing"
	Count     int
	Example   string
}

// Drift lists what was seen.
func (d *Decoder) Drift() []Drift { return nil }

// Records makes rows of an operations table from values in the order of its columns.
func (t *Table) Records(rows [][]any) (arrow.RecordBatch, error) { return nil, nil }

// Markdown is the reference of all tables, as in docs/tables.md.
func Markdown() string { return "" }

func drawLargest(v, of *vector, r *record)    {}
func drawRank(v, of *vector, r *record)       {}
func drawPosition(v, of *vector, r *record)   {}
func drawTime(v, of *vector, r *record)       {}
func drawExtra(v, of *vector, r *record)      {}
func drawChildren(v, of *vector, r *record)   {}
func drawCommentKey(v, of *vector, r *record) {}
