package schema

import "strings"

// lineage is on every row of the data tables except those of comments and transcript events. These
// are many and have only the answer's number, by which ops.requests has the rest.
var (
	lineage = []Column{
		{Name: "_run_id", Type: varchar, Comment: "run that bought the answer (UUIDv7)"},
		{Name: "_job", Type: varchar, Comment: "job of that run"},
		response,
		{Name: "observed_at", Type: timestamp, Comment: "when the answer arrived, UTC"},
	}
	narrow   = []Column{response}
	response = Column{Name: "_response_id", Type: bigint,
		Comment: "number of the answer in the journal"}
)

// seen lists the columns in which a sink summarizes the observations of a key.
var seen = []Column{
	{Name: "first_seen_at", Type: timestamp, Comment: "first observed_at of the key, UTC"},
	{Name: "last_seen_at", Type: timestamp, Comment: "last observed_at of the key, UTC"},
	{Name: "times_seen", Type: bigint, Comment: "number of observations of the key"},
}

// PreviousSeenAt is the name of the column with the time of the value in [Table.Previous].
const PreviousSeenAt = "previous_seen_at"

// Previous returns the name of the column with the value of [Table.Grows] on an earlier day; "" if
// the table has none.
func (t *Table) Previous() string {
	if t.Grows == "" {
		return ""
	}
	return "previous_" + t.Grows
}

// FirstResponseID and OpsVersion name columns that the warehouse computes, see [Table.Placing].
const (
	FirstResponseID = "_first_response_id"
	OpsVersion      = "_version"
)

var (
	firstResponse = Column{Name: FirstResponseID, Type: bigint,
		Comment: "number of the first answer about the key, or about the parent of the rows"}
	opsVersion = Column{Name: OpsVersion, Type: bigint,
		Comment: "number of the change of the state with which the row was written"}
)

// Placing returns the column by whose number the rows of a table are divided into parts. It never changes
// for a key.
func (t *Table) Placing() string {
	switch {
	case t.IsOps():
		return t.Columns[0].Name
	case t.Identity() != nil:
		return FirstResponseID
	}
	return response.Name
}

// Version returns the column whose number is higher in a row that was written later.
func (t *Table) Version() string {
	if t.IsOps() {
		return OpsVersion
	}
	return response.Name
}

// IsOps reports whether a table has operations of the program, not rows of answers.
func (t *Table) IsOps() bool { return strings.HasPrefix(t.Name, "ops.") }

// carried returns the columns that a table has in addition to those of its decoded rows.
func (t *Table) carried() []Column {
	switch {
	case t.IsOps():
		return []Column{opsVersion}
	case t.Identity() == nil:
		return nil
	case t.Kind != Current:
		return []Column{firstResponse}
	case t.Grows == "":
		return append([]Column{firstResponse}, seen...)
	}
	return append(append([]Column{firstResponse}, seen...),
		Column{Name: PreviousSeenAt, Type: timestamp,
			Comment: "last observed_at of the key before the day of last_seen_at, UTC; " +
				"NULL if it was seen on that day only"},
		Column{Name: t.Previous(), Type: bigint, Comment: t.Grows + " at previous_seen_at"})
}
