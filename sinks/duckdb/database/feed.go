package database

import (
	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
)

// feed is an [array.RecordReader] of one record, which can be replaced after it was read.
type feed struct {
	schema *arrow.Schema
	rows   arrow.RecordBatch // nil if there are none
	shown  bool              // whether rows were read
}

var _ array.RecordReader = (*feed)(nil)

func (f *feed) give(rows arrow.RecordBatch) {
	f.take()
	rows.Retain()
	f.rows, f.shown = rows, false
}

func (f *feed) take() {
	if f.rows != nil {
		f.rows.Release()
		f.rows = nil
	}
}

// Retain and Release do nothing: give retains the rows, and take releases them.
func (f *feed) Retain()  {}
func (f *feed) Release() {}

func (f *feed) Schema() *arrow.Schema          { return f.schema }
func (f *feed) RecordBatch() arrow.RecordBatch { return f.rows }
func (f *feed) Record() arrow.RecordBatch      { return f.rows }
func (f *feed) Err() error                     { return nil }

// Next implements [array.RecordReader].
func (f *feed) Next() bool {
	again := f.shown || f.rows == nil
	f.shown = true
	return !again
}
