package report

import (
	"fmt"

	"outlierd/cmd/outlierd/term"
	"outlierd/sinks/bucket"
	"outlierd/sync/check"
	"outlierd/sync/state"
)

// Checked is what a check of the state, the tables and the buckets has found.
type Checked struct {
	state.Checked
	Sinks   []check.Result  `json:"sinks"`
	Buckets []bucket.Report `json:"buckets,omitempty"`
}

// Check describes the result of a check, with the answers by operation.
func Check(c *Checked, look term.Options) string {
	l := &lines{}
	l.add("state: no damage: %d answers", c.Answers)
	if c.Pruned > 0 {
		l.add("journal: pruned up to answer %d: of these only the headers were checked", c.Pruned)
	}
	for _, r := range c.Sinks {
		for _, line := range sinkLines(r) {
			l.add("%s", line)
		}
	}
	for _, r := range c.Buckets {
		for _, line := range bucketLines(r) {
			l.add("%s", line)
		}
	}
	var rows [][]any
	for _, part := range c.Journal {
		rows = append(rows, []any{string(part.Op), part.Answers, part.Bytes, part.First, part.Last})
	}
	l.addTable(look, []string{"operation", "answers", "bytes", "first_at", "last_at"}, rows)
	return l.String()
}

// bucketLines returns the lines about a bucket.
func bucketLines(r bucket.Report) (lines []string) {
	for _, problem := range r.Problems {
		lines = append(lines, r.Address+": "+problem)
	}
	if len(lines) > 0 {
		return lines
	}
	if r.Copied == "" {
		return []string{r.Address + ": nothing was copied yet; the next publication does it"}
	}
	said := fmt.Sprintf("%s: holds answers up to %d in %s", r.Address, r.Answers, term.Count(r.Objects, "object"))
	if r.ReadData {
		said += "; all have the checksums of the manifest"
	}
	if r.Behind {
		said += "; the folder has more since, which the next publication copies"
	}
	return []string{said}
}

// sinkLines returns the lines about a sink: its problems, or what was verified.
func sinkLines(r check.Result) []string {
	var lines []string
	for _, problem := range r.Problems {
		lines = append(lines, r.Sink+": "+Path(r.Path)+": "+problem)
	}
	for _, file := range r.Foreign {
		lines = append(lines, fmt.Sprintf("%s: %s: %s is not a file of this sink, and readers of *.parquet find its rows",
			r.Sink, Path(r.Path), file))
	}
	if len(r.Problems) > 0 {
		return lines
	}
	rows := int64(0)
	for _, n := range r.Rows {
		rows += n
	}
	said := fmt.Sprintf("%s: %s holds answers up to %d, %s in %s",
		r.Sink, Path(r.Path), r.Answers, term.Count(rows, "row"), term.Count(len(r.Rows), "table"))
	switch {
	case r.ReadData && r.Pruned > 0:
		said += fmt.Sprintf("; all rows of answers after %d match the journal", r.Pruned)
	case r.ReadData:
		said += "; all rows match the journal"
	}
	lines = append(lines, said)
	switch {
	case r.Same == r.Path:
		lines = append(lines, fmt.Sprintf("%s: rows of answers 1 to %d could not be compared with the "+
			"journal, because it is pruned", r.Sink, r.Pruned))
	case r.Same != "":
		lines = append(lines, fmt.Sprintf("%s: rows of answers 1 to %d match those of %s (the journal is pruned)",
			r.Sink, r.Pruned, Path(r.Same)))
	}
	if r.Behind > 0 {
		lines = append(lines, fmt.Sprintf("%s: %s of the journal came later; the next publication adds them",
			r.Sink, term.Count(r.Behind, "answer")))
	}
	if r.ReadData {
		lines = append(lines, r.Sink+": "+operationsLine(r.Operations))
	}
	return lines
}

// operationsLine returns the line about the tables ops.*.
func operationsLine(o check.Operations) string {
	if !o.Known {
		return "ops.* was not compared, because the state has no record of changes since it was published"
	}
	said := fmt.Sprintf("ops.* has %s, which match the state", term.Count(o.Rows, "row"))
	if o.Later > 0 {
		said += "; other rows have changed since, and the next publication writes them"
	}
	return said
}
