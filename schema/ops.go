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
			Comment: "when a scheduled run was due, UTC; NULL for a manual one"},
		{Name: "started_at", Type: timestamp, Comment: "when the run started, UTC"},
		{Name: "ended_at", Type: timestamp, Comment: "when it ended, UTC; NULL while the run is open"},
		{Name: "status", Type: varchar,
			Comment: "running, ok, ok_empty, partial, paused_budget, paused_quota, failed or interrupted; " +
				"if the process was killed, running until the next process publishes"},
		{Name: "pages", Type: bigint, Comment: "search pages taken"},
		{Name: "hits", Type: bigint, Comment: "hits on those pages"},
		{Name: "new_hits", Type: bigint, Comment: "hits never seen before the run"},
		{Name: "rows", Type: counts, Comment: "rows per table; a key that was returned twice counts twice"},
		{Name: "requests", Type: bigint,
			Comment: "attempts to send a request, including the one in flight if the process was killed"},
		{Name: "credits", Type: bigint, Comment: "credits counted as spent, unknown ones included"},
		{Name: "refunded", Type: bigint, Comment: "credits that were refunded"},
		{Name: "missing", Type: bigint, Comment: "requested ids that the service does not have"},
		{Name: "failures", Type: bigint, Comment: "calls that failed; all but refused ones stay queued"},
		{Name: "waited_s", Type: double, Comment: "seconds spent waiting for the rate limiter"},
		{Name: "error", Type: varchar, Comment: "why the run failed"},
		{Name: "config_hash", Type: varchar, Comment: "hash of the job as it was configured"},
		{Name: "rest_of", Type: varchar, Comment: "the run that this one continues (`run --rest`)"},
	},
}, nil)

// OpsSearches holds one row per search of a run.
var OpsSearches = define(Table{
	Name: "ops.searches", Kind: Log, Key: []string{"id"},
	Comment: "One row per search of a run. It distinguishes what was not found from what was not searched for.",
	Columns: []Column{
		opsID,
		{Name: "run_id", Type: varchar, Comment: "the run, `run_id` of ops.runs"},
		{Name: "job", Type: varchar, Comment: "name in jobs.yaml"},
		{Name: "item", Type: varchar, Comment: "the `for_each` value"},
		{Name: "operation", Type: varchar, Comment: "the endpoint that was called"},
		{Name: "queries", Type: texts, Comment: "queries of the search; NULL if it had none"},
		{Name: "seeds", Type: texts, Comment: "seeds of a related search; NULL if it had none"},
		{Name: "filters", Type: varchar, JSON: true, Comment: "the filters as sent"},
		{Name: "window_from", Type: timestamp,
			Comment: "start of the publication window, UTC; NULL if it is open"},
		{Name: "window_to", Type: timestamp,
			Comment: "end of the publication window, UTC; NULL if it is open"},
		{Name: "total", Type: bigint,
			Comment: "total hits as the service counts them, the highest count in its answers; saturates at 10000"},
		{Name: "pages", Type: bigint, Comment: "pages taken"},
		{Name: "hits", Type: bigint, Comment: "hits on those pages"},
		{Name: "new_hits", Type: bigint, Comment: "hits never seen before the run"},
		{Name: "stop_reason", Type: varchar, Comment: "why no further page was taken; NULL while open"},
		{Name: "credits", Type: bigint, Comment: "credits that the pages cost"},
		{Name: "reused", Type: bigint, Comment: "pages taken from the journal instead of bought"},
		{Name: "began_at", Type: timestamp, Comment: "service time at which page one was requested, UTC"},
		{Name: "left_pages", Type: bigint,
			Comment: "pages not taken when the search ended, for any reason; NULL if it is not known how many"},
		{Name: "seen", Type: bigint,
			Comment: "distinct hits, including those of the searches that this one continues"},
		{Name: "left_hits", Type: bigint,
			Comment: "hits that the service counts and the search has not seen; NULL if the service gives no total"},
		{Name: "rest_of", Type: bigint,
			Comment: "`id` of the first search that this one continues (`run --rest`); NULL if it continues none"},
		{Name: "unreadable", Type: bigint,
			Comment: "those of hits that could not be stored; the journal has them"},
	},
}, nil)

// OpsRequests holds one row per attempt to send a request.
var OpsRequests = define(Table{
	Name: "ops.requests", Kind: Log, Key: []string{"id"},
	Comment: "One row per attempt to send a request; `response_id` is `_response_id` of the data tables.",
	Columns: []Column{
		opsID,
		{Name: "run_id", Type: varchar, Comment: "the run, `run_id` of ops.runs"},
		{Name: "job", Type: varchar, Comment: "name in jobs.yaml"},
		{Name: "operation", Type: varchar, Comment: "the endpoint that was called"},
		{Name: "entity", Type: varchar, Comment: "the id that was requested from a data endpoint"},
		{Name: "parameters", Type: varchar, JSON: true,
			Comment: "the parameters as sent"},
		{Name: "page_from", Type: bigint, Comment: "pagination.from of the answer"},
		{Name: "page_size", Type: bigint, Comment: "pagination.size of the answer"},
		{Name: "page_total", Type: bigint, Comment: "pagination.total of the answer"},
		{Name: "attempt", Type: bigint, Comment: "number of the attempt, from 1"},
		{Name: "sent_at", Type: timestamp, Comment: "when it was sent, UTC; NULL if it certainly was not"},
		{Name: "answered_at", Type: timestamp, Comment: "when the answer arrived, UTC; NULL if none did"},
		{Name: "waited_s", Type: double, Comment: "seconds spent waiting for the rate limiter"},
		{Name: "http_status", Type: bigint, Comment: "NULL if no status line arrived"},
		{Name: "outcome", Type: varchar, Comment: "charged, refunded or unknown"},
		{Name: "bytes", Type: bigint, Comment: "bytes of the body as transferred"},
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
	Comment: "The service's rate limits, as the rate limiter observed them.",
	Columns: []Column{
		opsID,
		{Name: "observed_at", Type: timestamp, Comment: "when it was observed, UTC"},
		{Name: "max_requests", Type: bigint, Comment: "requests per window"},
		{Name: "window_s", Type: double, Comment: "length of the window in seconds"},
		{Name: "remaining", Type: bigint, Comment: "requests left in the window"},
		{Name: "reset_at", Type: timestamp, Comment: "when the window ends, UTC"},
		{Name: "foreign_requests", Type: bigint, Comment: "requests in the window that other clients sent"},
	},
}, nil)

// OpsMarks holds what people think of videos. The view marks has the marks in force.
var OpsMarks = define(Table{
	Name: "ops.marks", Kind: Log, Key: []string{"id"},
	Comment: "One row per video that was ever marked, also after the mark was cleared.",
	Columns: []Column{
		opsID,
		{Name: "video_id", Type: varchar, Comment: "the video; NULL if it was erased by `outlierd forget`"},
		{Name: "starred", Type: boolean, Comment: "whether the video is starred"},
		{Name: "hidden", Type: boolean, Comment: "whether lists of the page leave it out"},
		{Name: "tags", Type: texts, Comment: "its tags, sorted; empty if it has none"},
		{Name: "note", Type: varchar, Comment: "the note about it; NULL if there is none"},
		{Name: "marked_at", Type: timestamp, Comment: "when the mark last changed, UTC"},
	},
}, nil)

// OpsImports holds the videos that were seen before outlierd found them.
var OpsImports = define(Table{
	Name: "ops.imports", Kind: Log, Key: []string{"id"},
	Comment: "One row per video of `outlierd import`.",
	Columns: []Column{
		opsID,
		{Name: "video_id", Type: varchar, Comment: "the video; NULL if it was erased by `outlierd forget`"},
		{Name: "first_seen_at", Type: timestamp, Comment: "when it was first seen, as the file has it, UTC"},
		{Name: "origin", Type: varchar, Comment: "name of the file"},
		{Name: "imported_at", Type: timestamp, Comment: "when it was imported, UTC"},
	},
}, nil)

// OpsTables lists the operations tables. The first column of each is "id", the
// state's row number.
func OpsTables() []*Table {
	return []*Table{OpsRuns, OpsSearches, OpsRequests, OpsCredits, OpsLimits, OpsMarks, OpsImports}
}
