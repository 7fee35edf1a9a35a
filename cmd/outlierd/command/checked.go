package command

import (
	"fmt"
	"strings"

	"outlierd/cmd/outlierd/report"
	"outlierd/cmd/outlierd/term"
	"outlierd/sinks/bucket"
	"outlierd/sync/check"
	"outlierd/sync/state"
)

// checked is what a check of the state, the tables and the buckets has found.
type checked struct {
	state.Checked
	Sinks   []check.Tables  `json:"sinks"`
	Buckets []bucket.Report `json:"buckets,omitempty"`
}

// describe returns the result of the check, with the answers by operation.
func (c *checked) describe(look term.Options) string {
	lines := []string{fmt.Sprintf("state: no damage: %d answers", c.Answers)}
	if c.Pruned > 0 {
		lines = append(lines, fmt.Sprintf("journal: pruned up to answer %d: of these only the headers were checked", c.Pruned))
	}
	for i := range c.Sinks {
		lines = append(lines, sinkLines(&c.Sinks[i])...)
	}
	for _, r := range c.Buckets {
		lines = append(lines, bucketLines(r)...)
	}
	var b strings.Builder
	for _, line := range lines {
		fmt.Fprintln(&b, line)
	}
	t := term.NewTable(&b, look, []string{"operation", "answers", "bytes", "first_at", "last_at"})
	for _, part := range c.Journal {
		_ = t.Row([]any{string(part.Op), part.Answers, part.Bytes, part.First, part.Last}) // writing to a string does not fail
	}
	_ = t.End()
	return b.String()
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
func sinkLines(t *check.Tables) []string {
	var lines []string
	for _, problem := range t.Problems {
		lines = append(lines, t.Name+": "+report.Path(t.Path)+": "+problem)
	}
	for _, file := range t.Foreign {
		lines = append(lines, fmt.Sprintf("%s: %s: %s is not a file of this sink, and readers of *.parquet find its rows",
			t.Name, report.Path(t.Path), file))
	}
	if len(t.Problems) > 0 {
		return lines
	}
	if t.Missing {
		return append(lines, fmt.Sprintf("%s: %s does not exist yet; the next run makes it", t.Name, report.Path(t.Path)))
	}
	rows := int64(0)
	for _, n := range t.Rows {
		rows += n
	}
	said := fmt.Sprintf("%s: %s holds answers up to %d, %s in %s",
		t.Name, report.Path(t.Path), t.Answers, term.Count(rows, "row"), term.Count(len(t.Rows), "table"))
	switch {
	case t.ReadData && t.Pruned > 0:
		said += fmt.Sprintf("; all rows of answers after %d match the journal", t.Pruned)
	case t.ReadData:
		said += "; all rows match the journal"
	}
	lines = append(lines, said)
	switch {
	case t.Same == t.Path:
		lines = append(lines, fmt.Sprintf("%s: rows of answers 1 to %d could not be compared with the "+
			"journal, because it is pruned", t.Name, t.Pruned))
	case t.Same != "":
		lines = append(lines, fmt.Sprintf("%s: rows of answers 1 to %d match those of %s (the journal is pruned)",
			t.Name, t.Pruned, report.Path(t.Same)))
	}
	if t.Behind > 0 {
		lines = append(lines, fmt.Sprintf("%s: %s of the journal came later; the next publication adds them",
			t.Name, term.Count(t.Behind, "answer")))
	}
	if t.ReadData {
		lines = append(lines, t.Name+": "+operationsLine(t.Operations))
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
