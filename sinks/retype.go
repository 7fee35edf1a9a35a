package sinks

import (
	"fmt"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"
)

// Retype returns an array with the type to, without copying. It returns an error if the types differ in
// more than metadata and the names of list elements.
func Retype(data arrow.ArrayData, to arrow.DataType) (arrow.ArrayData, error) {
	differs := fmt.Errorf("it has type %v, and this version of outlierd declares %v", data.DataType(), to)
	if data.DataType().ID() != to.ID() {
		return nil, differs
	}
	nested, ok := to.(arrow.NestedType)
	if !ok {
		if !arrow.TypeEqual(data.DataType(), to) {
			return nil, differs
		}
		return data, nil
	}
	from := data.DataType().(arrow.NestedType).Fields()
	if len(from) != len(nested.Fields()) {
		return nil, differs
	}
	var children []arrow.ArrayData
	for i, f := range nested.Fields() {
		if to.ID() == arrow.STRUCT && from[i].Name != f.Name {
			return nil, differs
		}
		child, err := Retype(data.Children()[i], f.Type)
		if err != nil {
			return nil, err
		}
		children = append(children, child)
	}
	return array.NewData(to, data.Len(), data.Buffers(), children, data.NullN(), data.Offset()), nil
}

// Concatenate copies records with the same columns into one record. all must not be empty. The caller
// releases the result.
func Concatenate(all []arrow.RecordBatch) (arrow.RecordBatch, error) {
	var columns []arrow.Array
	defer func() {
		for _, c := range columns {
			c.Release()
		}
	}()
	count := int64(0)
	for _, some := range all {
		count += some.NumRows()
	}
	for i := range int(all[0].NumCols()) {
		var parts []arrow.Array
		for _, some := range all {
			parts = append(parts, some.Column(i))
		}
		column, err := array.Concatenate(parts, memory.DefaultAllocator)
		if err != nil {
			return nil, err
		}
		columns = append(columns, column)
	}
	return array.NewRecordBatch(all[0].Schema(), columns, count), nil
}
