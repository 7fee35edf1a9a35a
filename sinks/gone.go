package sinks

import (
	"context"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"

	"outlierd/schema"
)

// lastDeletions returns the last answer that deletes each identity, and the indices of these rows of gone.
func lastDeletions(t *schema.Table, gone arrow.RecordBatch) (answers map[string]int64, rows []int) {
	answers = map[string]int64{}
	last := map[string]int{}
	keys, responses := KeysOf(gone, t.Identity()), column(gone, ResponseID).(*array.Int64)
	for i := range int(gone.NumRows()) {
		if answer, known := answers[string(keys.At(i))]; !known || responses.Value(i) > answer {
			answers[string(keys.At(i))], last[string(keys.At(i))] = responses.Value(i), i
		}
	}
	for i := range int(gone.NumRows()) {
		if last[string(keys.At(i))] == i {
			rows = append(rows, i)
		}
	}
	return answers, rows
}

// dropDeleted returns the rows of a part without those that are older than the deletion of their
// identity, and the deleted identities, each once. The caller releases both.
func dropDeleted(ctx context.Context, part schema.Part) (rows, gone arrow.RecordBatch, err error) {
	answers, last := lastDeletions(part.Table, part.Gone)
	standing := make([]int, 0, part.Rows.NumRows())
	keys, responses := KeysOf(part.Rows, part.Table.Identity()), column(part.Rows, ResponseID).(*array.Int64)
	answer, ended := int64(0), false // of the identity of the row
	for i := range int(part.Rows.NumRows()) {
		if !keys.SameAsPrevious(i) {
			answer, ended = answers[string(keys.At(i))]
		}
		if !ended || responses.Value(i) >= answer {
			standing = append(standing, i)
		}
	}
	picked, err := Pick(ctx, part.Gone, last)
	if err != nil {
		return nil, nil, err
	}
	defer picked.Release()
	if rows, err = Pick(ctx, part.Rows, standing); err != nil {
		return nil, nil, err
	}
	return rows, Project(picked, part.Table.Identity()), nil
}

// Project returns rows with the named columns only. The caller releases the result.
func Project(rows arrow.RecordBatch, names []string) arrow.RecordBatch {
	var fields []arrow.Field
	var columns []arrow.Array
	for _, name := range names {
		i := rows.Schema().FieldIndices(name)[0]
		fields = append(fields, rows.Schema().Field(i))
		columns = append(columns, rows.Column(i))
	}
	return array.NewRecordBatch(arrow.NewSchema(fields, nil), columns, rows.NumRows())
}
