package schema

import "slices"

// lineage is on every row of the data tables except those of comments and transcript events. These
// are many and have only the answer's number, by which ops.requests has the rest.
var (
	lineage = []Column{
		{Name: "_run_id", Type: varchar, Comment: "run that bought the answer (UUIDv7)", fromSource: sourceRun},
		{Name: "_job", Type: varchar, Comment: "job of that run", fromSource: sourceJob},
		response,
		{Name: "observed_at", Type: timestamp, Comment: "when the answer arrived, UTC", fromSource: sourceObserved},
	}
	narrow   = []Column{response}
	response = Column{Name: "_response_id", Type: bigint, fromSource: sourceResponse,
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

// carried returns the columns that a Current table has in addition to those of its rows.
func (t *Table) carried() []Column {
	if t.Grows == "" {
		return seen
	}
	return append(slices.Clone(seen),
		Column{Name: PreviousSeenAt, Type: timestamp,
			Comment: "last observed_at of the key before the day of last_seen_at, UTC; " +
				"NULL if it was seen on that day only"},
		Column{Name: t.Previous(), Type: bigint, Comment: t.Grows + " at previous_seen_at"})
}

func sourceRun(v *vector, s *Source, n int)      { v.texts([]byte(s.Run), n) }
func sourceJob(v *vector, s *Source, n int)      { v.texts([]byte(s.Job), n) }
func sourceResponse(v *vector, s *Source, n int) { v.ints(s.Response, n) }
func sourceObserved(v *vector, s *Source, n int) { v.times(s.ObservedAt, n) }
