package schema

// The operations tables are copies of tables of the state, not of the journal. Their first column
// is the row number in the state, from which a sink knows which rows it has.

var opsID = Column{Name: "id", Type: bigint, Comment: "row number in the state"}

// OpsRuns holds one row per run.
var OpsRuns = define(Table{
	Name: "ops.runs", Kind: Log, Key: []string{"id"},
	Comment: "One row per run of a job.",
	Columns: []Column{
		opsID,
		{Name: "run_id", Type: varchar, Comment: "UUIDv7; `_run_id` of the data tables"},
		{Name: "job", Type: varchar, Comment: "name in jobs.yaml"},
		{Name: "trigger", Type: varchar, Comment: "schedule, manual, catch-up or after"},
		{Name: "due_at", Type: timestamp,
			Comment: "the due instant of a scheduled run, UTC; NULL for a manual one"},
		{Name: "started_at", Type: timestamp, Comment: "when the run started, UTC"},
		{Name: "ended_at", Type: timestamp, Comment: "when it ended, UTC; NULL while the run is open"},
		{Name: "status", Type: varchar,
			Comment: "running, ok, ok_empty, partial, paused_budget, paused_quota, failed or interrupted; after a kill `running` until a process publishes again"},
		{Name: "pages", Type: bigint, Comment: "search pages taken"},
		{Name: "hits", Type: bigint, Comment: "hits on those pages"},
		{Name: "new_hits", Type: bigint, Comment: "hits never seen before the run"},
		{Name: "rows", Type: counts, Comment: "rows per table, as they came: one key may have several"},
		{Name: "requests", Type: bigint,
			Comment: "wire attempts, with the one that was in flight if the process was killed"},
		{Name: "credits", Type: bigint, Comment: "credits counted as spent, unknown ones included"},
		{Name: "refunded", Type: bigint, Comment: "credits that came back"},
		{Name: "missing", Type: bigint, Comment: "things that the service does not have"},
		{Name: "failures", Type: bigint, Comment: "calls that failed; all but refused ones stay queued"},
		{Name: "waited_s", Type: double, Comment: "seconds spent waiting for the pace"},
		{Name: "error", Type: varchar, Comment: "why the run failed"},
		{Name: "config_hash", Type: varchar, Comment: "hash of the job as it was configured"},
		{Name: "rest_of", Type: varchar, Comment: "the run whose rest this one bought (`run --rest`)"},
	},
}, nil)

// OpsSearches holds one row per search of a run.
var OpsSearches = define(Table{
	Name: "ops.searches", Kind: Log, Key: []string{"id"},
	Comment: "One row per search of a run: tells absent from not looked for.",
	Columns: []Column{
		opsID,
		{Name: "run_id", Type: varchar, Comment: "the run, `run_id` of ops.runs"},
		{Name: "job", Type: varchar, Comment: "name in jobs.yaml"},
		{Name: "item", Type: varchar, Comment: "the `for_each` value"},
		{Name: "operation", Type: varchar, Comment: "the endpoint that was asked"},
		{Name: "queries", Type: texts, Comment: "queries of the search; NULL if it had none"},
		{Name: "seeds", Type: texts, Comment: "seeds of a related search; NULL if it had none"},
		{Name: "filters", Type: varchar, JSON: true, Comment: "the filters as sent"},
		{Name: "window_from", Type: timestamp,
			Comment: "begin of the publication window, resolved, UTC; NULL if it is open"},
		{Name: "window_to", Type: timestamp,
			Comment: "end of the publication window, resolved, UTC; NULL if it is open"},
		{Name: "total", Type: bigint,
			Comment: "hits that the service counts, the most that it has said; saturates at 10000"},
		{Name: "pages", Type: bigint, Comment: "pages taken"},
		{Name: "hits", Type: bigint, Comment: "hits on those pages"},
		{Name: "new_hits", Type: bigint, Comment: "hits never seen before the run"},
		{Name: "stop_reason", Type: varchar, Comment: "why no further page was taken; NULL while open"},
		{Name: "credits", Type: bigint, Comment: "credits that the pages cost"},
		{Name: "reused", Type: bigint, Comment: "pages taken from the journal instead of bought"},
		{Name: "began_at", Type: timestamp, Comment: "service time at which page one was requested, UTC"},
		{Name: "left_pages", Type: bigint,
			Comment: "pages that were left when the search ended, whatever ended it; NULL if it is not known how many"},
		{Name: "seen", Type: bigint,
			Comment: "distinct hits, with those of the searches whose rest this one bought"},
		{Name: "left_hits", Type: bigint,
			Comment: "hits that the service counts and the search has not seen; NULL if it does not say"},
		{Name: "rest_of", Type: bigint,
			Comment: "`id` of the first search whose rest this one bought; NULL if it bought the rest of none"},
		{Name: "unreadable", Type: bigint,
			Comment: "of hits, those that could not be stored; the journal has them"},
	},
}, nil)

// OpsRequests holds one row per wire attempt.
var OpsRequests = define(Table{
	Name: "ops.requests", Kind: Log, Key: []string{"id"},
	Comment: "One row per wire attempt; `response_id` is `_response_id` of the data tables.",
	Columns: []Column{
		opsID,
		{Name: "run_id", Type: varchar, Comment: "the run, `run_id` of ops.runs"},
		{Name: "job", Type: varchar, Comment: "name in jobs.yaml"},
		{Name: "operation", Type: varchar, Comment: "the endpoint that was asked"},
		{Name: "entity", Type: varchar, Comment: "the id that a data endpoint was asked about"},
		{Name: "parameters", Type: varchar, JSON: true,
			Comment: "the parameters as sent"},
		{Name: "page_from", Type: bigint, Comment: "pagination.from, as answered"},
		{Name: "page_size", Type: bigint, Comment: "pagination.size, as answered"},
		{Name: "page_total", Type: bigint, Comment: "pagination.total, as answered"},
		{Name: "attempt", Type: bigint, Comment: "1 for the first"},
		{Name: "sent_at", Type: timestamp, Comment: "when it was sent, UTC; NULL if provably unsent"},
		{Name: "answered_at", Type: timestamp, Comment: "when the answer was there, UTC; NULL if none came"},
		{Name: "waited_s", Type: double, Comment: "seconds spent waiting for the pace"},
		{Name: "http_status", Type: bigint, Comment: "NULL if no status line arrived"},
		{Name: "outcome", Type: varchar, Comment: "charged, refunded or unknown"},
		{Name: "bytes", Type: bigint, Comment: "bytes of the body, as it came over the wire"},
		{Name: "response_id", Type: bigint, Comment: "journal id of the answer; NULL if none is kept"},
	},
}, nil)

// OpsCredits is the ledger.
var OpsCredits = define(Table{
	Name: "ops.credits", Kind: Log, Key: []string{"id"},
	Comment: "The ledger: one row per reservation, with the caps in force at the time.",
	Columns: []Column{
		opsID,
		{Name: "run_id", Type: varchar, Comment: "the run, `run_id` of ops.runs"},
		{Name: "job", Type: varchar, Comment: "name in jobs.yaml"},
		{Name: "operation", Type: varchar, Comment: "the endpoint, or adjustment"},
		{Name: "price", Type: bigint, Comment: "credits reserved"},
		{Name: "outcome", Type: varchar, Comment: "reserved, spent, refunded or unknown"},
		{Name: "reserved_at", Type: timestamp, Comment: "when the credits were reserved, UTC"},
		{Name: "settled_at", Type: timestamp,
			Comment: "when the outcome was known, UTC; NULL while reserved"},
		{Name: "day", Type: varchar, Comment: "period key of the day that the row counts for, YYYY-MM-DD"},
		{Name: "month", Type: varchar,
			Comment: "period key of the billing cycle that the row counts for, its first day"},
		{Name: "cap_run", Type: bigint, Comment: "cap of the run in force, credits; NULL if there was none"},
		{Name: "cap_day", Type: bigint, Comment: "cap per day in force, credits; NULL if there was none"},
		{Name: "cap_job_month", Type: bigint,
			Comment: "cap of the job per billing cycle, credits; NULL if there was none"},
		{Name: "cap_month", Type: bigint, Comment: "cap per billing cycle, credits; NULL if there was none"},
		{Name: "reserve", Type: bigint, Comment: "credits kept back for `run --use-reserve`"},
		{Name: "response_id", Type: bigint, Comment: "journal id of the answer; NULL if none is kept"},
	},
}, nil)

// OpsLimits holds the rate limits that the limiter observed.
var OpsLimits = define(Table{
	Name: "ops.limits", Kind: Log, Key: []string{"id"},
	Comment: "What the limiter learned of the service's pace.",
	Columns: []Column{
		opsID,
		{Name: "observed_at", Type: timestamp, Comment: "when it was learned, UTC"},
		{Name: "max_requests", Type: bigint, Comment: "requests per window"},
		{Name: "window_s", Type: double, Comment: "length of the window in seconds"},
		{Name: "remaining", Type: bigint, Comment: "requests left in the window"},
		{Name: "reset_at", Type: timestamp, Comment: "when the window ends, UTC"},
		{Name: "foreign_requests", Type: bigint, Comment: "requests in the window that were not ours"},
	},
}, nil)

// OpsTables lists the operations tables. The first column of each is "id", the
// state's row number.
func OpsTables() []*Table {
	return []*Table{OpsRuns, OpsSearches, OpsRequests, OpsCredits, OpsLimits}
}
