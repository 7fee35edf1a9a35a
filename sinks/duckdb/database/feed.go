package database

import (
	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
)

// feed is an [array.RecordReader] of one record, which can be replaced after it was read.
type feed struct {
	schema *arrow.Schema
	rows   arrow.RecordBatch // nil if there are none
	read   bool              // whether rows were read
}

var _ array.RecordReader = (*feed)(nil)

func (f *feed) set(rows arrow.RecordBatch) {
	f.clear()
	rows.Retain()
	f.rows, f.read = rows, false
}

func (f *feed) clear() {
	if f.rows != nil {
		f.rows.Release()
		f.rows = nil
	}
}

// Retain and Release do nothing: set retains the rows, and clear releases them.
func (f *feed) Retain()  {}
func (f *feed) Release() {}

func (f *feed) Schema() *arrow.Schema          { return f.schema }
func (f *feed) RecordBatch() arrow.RecordBatch { return f.rows }
func (f *feed) Record() arrow.RecordBatch      { return f.rows }
func (f *feed) Err() error                     { return nil }

// Next implements [array.RecordReader].
func (f *feed) Next() bool {
	again := f.read || f.rows == nil
	f.read = true
	return !again
}
