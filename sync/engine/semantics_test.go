package engine

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// A promise is a sentence about the meaning of the job file, and the tests that show it: the folder of
// the package and the name of the test, or the path of a script.
type promise struct {
	sentence string
	shown    []string
}

var promises = []promise{
	// Steps and runs.
	{"**Run.** A UUIDv7.", []string{"sync/engine TestRunIsAUUIDv7"}},
	{"A scheduled run is unique by (job, due instant);", []string{"sync/runs TestDueTimeIsPerformedOnce"}},
	{"a manual one has no due instant.", []string{"sync/engine TestManualRunHasNoDueTime"}},
	{"Without a name `run` takes the only job, or lists jobs with their prices and exits 2;", []string{"cmd/outlierd/testdata/script/runs.txt"}},
	{
		"`--all` runs all, `--due` what is due (for an outside clock such as a CronJob).",
		[]string{"cmd/outlierd/testdata/script/runs.txt", "cmd/outlierd/testdata/script/due.txt"},
	},
	{
		"**Steps.** When a run starts, lists, SQL seeds, templates and time windows are resolved once into stored steps: operation + canonical parameters without `from`.",
		[]string{"sync/engine TestRunStoresStepsResolvedOnce"},
	},
	{
		"Resuming reads steps, never the file.",
		[]string{"sync/engine TestResumedRunFollowsStoredSteps", "sync/engine TestRunStoresStepsResolvedOnce"},
	},
	{"**`for_each`.** One run;", []string{"sync/engine TestPagesCountPerSearch"}},
	{
		"several names are their cross product in file order;",
		[]string{"sync/job TestForEachMakesCrossProduct", "sync/job TestForEachFollowsFileOrder"},
	},
	{"each combination is one search.", []string{"sync/job TestListIsOneRequest"}},
	{"`pages` counts per search;", []string{"sync/engine TestPagesCountPerSearch"}},
	{
		"`top`, `per_run`, `stop_after` per run.",
		[]string{"sync/engine TestPagesCountPerSearch", "sync/engine TestStopAfterReportsQueuedCalls"},
	},
	{"Pages go breadth first, so that a cap cuts depth and not topics.", []string{"sync/engine TestPagesCountPerSearch"}},
	{"A name that equals a set environment variable is an error.", []string{"sync/job TestNameOfEnvironmentVariableIsRefused"}},
	{
		"**Lists of a job** (files, SQL, handles) are read for that job alone: a bad line fails the job with all its bad lines, and no other job and no command that only reads.",
		[]string{"cmd/outlierd/testdata/script/lists.txt", "sync/job TestListsAreCheckedLineByLine"},
	},
	{"Known handles run, unknown ones are named (`partial`).", []string{"cmd/outlierd/testdata/script/lists.txt", "outlier TestHandlesAndVideosStandForChannels"}},
	{
		"**Lists in a parameter.** `query: [a, b]` is **one** request over both (2 credits a page);",
		[]string{"sync/engine TestParameterListCostsOneRequest"},
	},
	{"`plan` says so.", []string{"sync/engine TestParameterListCostsOneRequest", "cmd/outlierd/command TestPlanShowsListAsOneRequest"}},
	{"`channels` and `videos` ids are one call each.", []string{"sync/engine TestEachNamedEntityTakesOneCall"}},
	{
		"**Resume.** A due instant has exactly one run that searched, or a record that says why not.",
		[]string{"sync/engine TestEveryDueTimeIsAccountedFor", "sync/engine TestOutageDuringEnrichmentSkipsNoSearch"},
	},
	{
		"If an unfinished run of the job has pages left and is younger than one period (24 h at most) or holds a paid scan, it is continued first and **then** the due instant performs its own run;",
		[]string{"sync/engine TestRunContinuesAtMostOnePeriod", "sync/engine TestUnconfirmedScanIsNeverRepeated"},
	},
	{
		"a run that has its pages and only waits for enrichment or a sink never holds the next one: its queue goes on by itself.",
		[]string{"sync/engine TestNextDueTimeEndsEnrichingRun", "sync/engine TestOutageDuringEnrichmentSkipsNoSearch"},
	},
	{"Else the old run is closed as `interrupted`.", []string{"sync/engine TestOldRunIsClosedAsInterrupted"}},
	{
		"A run's due instant never changes.",
		[]string{"sync/engine TestEveryDueTimeIsAccountedFor", "sync/engine TestOutageDuringEnrichmentSkipsNoSearch"},
	},
	{"Due instants that passed while nothing ran collapse by `catch_up`.", []string{"sync/engine TestMissedDueTimesCollapseIntoOne"}},
	{
		"**Overrides** (`--since`, `--pages`, `--set`, …) leave the job's cursor, learned paging and forecast as they were, unless `--move-cursor`.",
		[]string{
			"sync/engine TestOverriddenRunsAffectNoLaterRuns", "sync/engine TestMoveCursorAppliesToOverriddenRun",
			"sync/engine TestOverriddenRunKeepsUnfinishedRun", "cmd/outlierd/testdata/script/override.txt",
		},
	},
	{
		"**A sink that fails** is retried with back-off whatever is under way and never fails another sink or, while one sink works, the run (`partial`, named).",
		[]string{
			"sync/engine TestRepairedSinkResumesDuringRuns", "sync/engine TestFailedSinkMakesRunPartial",
			"sync/engine TestRunReportsAFailedPublication", "sync/engine TestSinksAgreeAgainAfterOneFailed",
		},
	},
	{
		"When no sink has worked for `sinks_down_after` (default 30 min), nothing more is bought.",
		[]string{"sync/engine TestSinksDownAfterStopsBuying", "sync/engine TestBuyingWaitsForFirstWorkingSink", "sync/engine TestRunFailsWhileNoSinkWorks"},
	},
	{
		"**End of a run.** When its searches have ended and its own enrichment is done, or at `stop_after` (then `ok` with `queued: N`).",
		[]string{"sync/engine TestRunEndsAfterItsOwnEnrichment", "sync/engine TestStopAfterReportsQueuedCalls", "cmd/outlierd/report TestSummaryOfARun"},
	},
	{"`stop_after` ends the run, not its queue: `up` goes on draining in idle slots;", []string{"sync/engine TestQueuedCallsOutliveStopAfter"}},
	{"a later `run` takes the rest along.", []string{"sync/engine TestLaterRunMakesTheRemainingCalls"}},
	{
		"**`after`.** Fires when the parent's pages are published, on `ok`, `ok_empty` or `partial`.",
		[]string{"sync/engine TestAfterFiresWhenPagesArePublished", "sync/engine TestAfterFiresOnlyOnSuccess"},
	},
	{"SQL that returns no seed is `ok_empty`: nothing spent.", []string{"sync/engine TestEmptySeedQuerySpendsNothing"}},
	{"SQL seeds without a DuckDB sink are refused by `lint`.", []string{"sync/job TestSeedsRequireDuckDBSink"}},
	{
		"A manual run fires `after` jobs only with `--with-after`.",
		[]string{"sync/engine TestManualRunDoesNotFireAfter", "cmd/outlierd/testdata/script/override.txt"},
	},
	{"**`every`** counts from the Unix epoch.", []string{"sync/job TestEveryCountsFromTheUnixEpoch"}},
	{"A doubled hour (end of DST) runs fixed-hour schedules once.", []string{"sync/job TestSchedulesAroundChangesOfTheClocks"}},

	// Windows and stopping.
	{
		"**`since last success, overlap 14d, first 30d`.** Starts at the service time at which page one of the last search that ended by itself, by `pages` or by `stop_when` was requested, minus the overlap;",
		[]string{"sync/engine TestWindowStartsAtLastSuccess", "sync/engine TestCompletedSearchMovesWatermark"},
	},
	{
		"bounds are rounded down to whole days (repeats within a day are then the service's free cached answers).",
		[]string{"sync/job TestWindowsAreTheSameAllDay"},
	},
	{"Videos become outliers days after they appear, so the overlap defaults to 14 days.", []string{"sync/job TestTheWindowSinceTheLastSuccess"}},
	{
		"**Watermark.** Belongs to job, operation, query or seeds, and `for_each` value.",
		[]string{"sync/job TestWatermarkIgnoresFilters"},
	},
	{"Changing one of those starts with `first`;", []string{"sync/engine TestOnlyChangedQueryResetsWatermark"}},
	{"changing another filter keeps it;", []string{"sync/engine TestOnlyChangedQueryResetsWatermark"}},
	{"`plan` prints which.", []string{"sync/engine TestChangesSinceTheLastRun", "cmd/outlierd/report TestPlanForPeople"}},
	{
		"It moves whatever becomes of the enrichment, and never when a cap or an error ended the search;",
		[]string{"sync/engine TestWatermarkMovesWithoutTheEnrichment", "sync/engine TestCapOrErrorKeepsWatermark"},
	},
	{
		"what was left is reported (`120 of 480, 18 credits more`).",
		[]string{"sync/engine TestEndingsShowSavedAndRemainingPages", "cmd/outlierd/report TestEndingsAreShownAsSentences"},
	},
	{
		"**`stop_when: {new_below: 10%}`.** The share of a page's distinct ids that `seen` did not hold before this run began;",
		[]string{"sync/engine TestStopWhenComparesWithEarlierRuns", "sync/engine TestStopWhenIgnoresUncoveredHits"},
	},
	{"judged from page two on.", []string{"sync/engine TestStopWhenComparesWithEarlierRuns"}},
	{"**`pages`** defaults to 1;", []string{"sync/job TestUnlimitedPagesRequirePerRunCap"}},
	{"`pages: all` requires `per_run`.", []string{"sync/job TestUnlimitedPagesRequirePerRunCap"}},
	{"What `pages` cut off is told in the summary, in `ops.coverage` and as a command that buys just the rest.", []string{
		"cmd/outlierd/testdata/script/rest.txt", "sync/engine TestRestBuysEachPageOnce", "sync/engine TestRestSurvivesStopsAndEdits", "sync/engine TestRestEnrichesItsBestHits",
	}},
	{"**An empty page while `total` says more** is `partial`: the cursor stays, the rest is offered.", []string{
		"sync/engine TestSearchStopsAfterItsLastPage", "sync/engine TestRestBeginsAtAnEmptyPage",
	}},
	{"**By hand now.** What a person asks for is asked for at once;", []string{"cmd/outlierd/command TestManualRequestsAreMadeNow"}},
	{"back-offs and `reuse_for` of an unreadable answer are for schedules.", []string{"cmd/outlierd/command TestManualRequestsAreMadeNow"}},
	{
		"A command that makes no call says why, until when, and how to call all the same.",
		[]string{"cmd/outlierd/command TestManualRequestsAreMadeNow"},
	},
	{
		"**Learned paging** rests on how much a page repeats of page one: half of it or more, and `from` counts items, else pages. A contradiction unlearns it.",
		[]string{
			"sync/engine TestNewVideoKeepsLearnedPaging", "sync/engine TestWrongPagingIsCorrected",
			"sync/engine TestSearchStaysCompleteDespiteChanges", "sync/engine TestPagingIsLearnedOnce",
		},
	},

	// Buying once.
	{
		"**`reuse_for`** (default 6h): an identical paid request that any job had answered within it is taken from the journal: no credit, no pace.",
		[]string{"sync/engine TestJournalAnswersIdenticalRequests"},
	},
	{"`run --again` overrides.", []string{"sync/engine TestJournalAnswersIdenticalRequests", "cmd/outlierd/testdata/script/override.txt"}},
	{
		"**Seeds.** One job does not buy the same set of seeds again within `refresh_after` (default 7d for `related`).",
		[]string{"sync/engine TestSameSeedsAreBoughtOnce", "sync/engine TestCutRunBuysSeedsOnce"},
	},
	{
		"**`top: N`.** After the last page one transaction ranks the run's distinct hits over all its searches by `sort` (nulls last, id breaks ties), takes the first N (for channel calls: the channels of those N), and queues those that are not fresh.",
		[]string{"sync/runs TestBestRanksTheRunsDistinctHits", "sync/engine TestTopRanksHitsOfWholeRun"},
	},
	{"Freshness promotes nobody: the list is never extended to fill N.", []string{"sync/engine TestFreshHitsKeepTheirRank"}},
	{
		"**Freshness.** Default of `channels` and `videos` jobs: only what was received since the due instant is fresh (what they name is wanted each time);",
		[]string{"sync/engine TestDueJobRefetchesNamedEntities", "sync/engine TestAnswersSinceDueTimeAreFresh"},
	},
	{"of `enrich` as documented.", []string{"sync/job TestDefaultsAreTheDocumentedOnes"}},
	{
		"`refresh_after` is compared per job with the last good or missing answer for (endpoint, id).",
		[]string{"sync/engine TestSecondRunBuysOnlyStaleData", "sync/engine TestEmptyAnswerIsRemembered"},
	},
	{"One queue row per (endpoint, id) over all jobs;", []string{"sync/queue TestJobsShareOneQueueRow"}},
	{"the higher value and the shorter age win;", []string{"sync/queue TestJobsShareOneQueueRow"}},
	{"lineage is the first requester's.", []string{"sync/queue TestJobsShareOneQueueRow"}},
	{
		"Rows that no job wants any more are dropped at reload;",
		[]string{"cmd/outlierd/command TestFileDecidesWhatStaysQueued", "sync/queue TestUnwantedCallsLeaveQueue"},
	},
	{"others expire after 7 days.", []string{"sync/queue TestFailedTaskWaitsAndExpires"}},
	{"No `enrich`, no enrichment.", []string{"sync/engine TestNothingIsEnrichedWithoutEnrich"}},
	{"A page one that fails makes a search `failed`;", []string{"sync/engine TestFailedFirstPageFailsRun"}},
	{
		"an enrichment that fails makes the run `partial`.",
		[]string{"sync/engine TestFailedFirstPageFailsRun", "sync/engine TestFailedCallsMakeRunPartial"},
	},
	{
		"**An answer that yields no row of its own entity has failed**, whatever its status code, except absence as `../spec/service-notes.md` has it (the documented 404, empty `items`, `events`, `comments`);",
		[]string{
			"sync/engine TestAnswerWithoutEntityRowFails", "sync/engine TestFailedAnswerHasNoRows",
			"sync/engine TestAbsenceIsRemembered", "sync/engine TestRefusedDataCallIsMadeOnce",
		},
	},
	{
		"a page with hits that cannot be stored is `partial` and does not move the watermark.",
		[]string{"sync/engine TestUnstorableHitsMakeRunPartial", "sync/engine TestUnreadablePageIsNotBoughtAgain",
			"sync/engine TestRestSkipsUnstorablePage"},
	},

	// Money.
	{
		"**Order of one paid call:** wait for the pacer → reserve (durable) → connect → sending (durable) → send → one commit.",
		[]string{"outlier TestDoKeepsCallOrder"},
	},
	{
		"Days and cycles turn at 00:00 in `timezone` (default UTC), read from the service's clock, agreed on before the first paid call of a process (a `Date` of the service's own answers, two of which agree if it is more than 10 minutes off; never a gateway's);",
		[]string{
			"sync/ledger TestDayStartsAtZonesMidnight", "sync/ledger TestDaysTurnByTheServicesClock",
			"sync/engine TestJobCapUsesServiceClock", "sync/engine TestLocalClockAloneBuysNothing",
			"sync/engine TestProcessRequestsTimeOnce", "sync/engine TestWindowsAndBookingsShareClock",
			"outlier TestOnlyServiceAnswersSetTime", "sync/ledger TestDistantDateNeedsConfirmation",
			"sync/engine TestOneWrongDateIsIgnored", "sync/engine TestDatesOfGatewaysAreIgnored",
		},
	},
	{
		"what is dated in the future counts as now.",
		[]string{
			"sync/ledger TestBackwardClockAddsNoBudget", "sync/ledger TestClockThatFlipsMintsNoBudget",
			"sync/engine TestFutureSpendingCountsNow", "sync/engine TestRepairedClockLosesNoVideos",
			"sync/ledger TestFutureDatedKnowledgeIsStale", "sync/engine TestFarFutureTimesDelayNothing",
		},
	},
	{
		"Changed caps apply at once without resetting what was spent.",
		[]string{"sync/engine TestChangedCapAppliesAtOnce", "sync/ledger TestChangedCapsApplyAtOnce"},
	},
	{"`budget.per_month` is required except on `sim://`.", []string{"sync/job TestRealServiceRequiresMonthlyBudget"}},
	{"The worst case of `plan` counts attempts, and becomes that run's cap.", []string{"sync/engine TestWorstCaseCapsRun"}},
	{
		"A scan holds its price and the price of reading (`read.pages`, default 5) together;",
		[]string{"sync/engine TestScanReadingStaysWithinHold", "sync/engine TestScanStartsOnlyIfReadingFits"},
	},
	{"reading draws the hold down;", []string{"sync/ledger TestReadingDrawsTheHoldDown"}},
	{
		"what is not read is released at the run's end.",
		[]string{"sync/ledger TestHoldIsReleased", "sync/engine TestScanReadingStaysWithinHold"},
	},
	{
		"`lint` refuses a job whose smallest step exceeds a cap, and warns when the floor of all jobs exceeds the cycle (\"lasts until day 22\").",
		[]string{"sync/job TestJobWithUnaffordableStepIsRefused", "sync/job TestTheBudgetsFloor"},
	},
	{"A 429 proves a refusal whatever its body;", []string{"outlier TestDoSettlesThePrice"}},
	{
		"a refund needs the service's own documented shape.",
		[]string{"outlier TestDoSettlesThePrice", "outlier TestReadErrorByBodyAndStatus", "sync/engine TestRunsAreContinuedAfterFailures"},
	},
	{
		"A quota that makes a run wait is `paused_quota` (exit 4).",
		[]string{"sync/engine TestLongWaitEndsTheManualRun", "sync/engine TestDaemonWaitsOutALongWait", "cmd/outlierd/command TestEveryErrorHasItsExitCode"},
	},
	{"Address and key belong together: an edit that changes the address is refused whole;", []string{"cmd/outlierd/command TestKeyAloneIsReadAgain"}},
	{"a key alone is read again.", []string{"cmd/outlierd/command TestKeyAloneIsReadAgain"}},
	{
		"The 402 and 401/403 latches belong to the key's fingerprint and fall with a new key;",
		[]string{"sync/journal TestBlockLastsUntilLifted", "sync/engine TestNewKeyHasNoBlock"},
	},
	{"ledger and caps belong to the account and outlive a key.", []string{"sync/engine TestLedgerAndCapsSurviveKeyChange"}},
	{"`up` stays alive when latched;", []string{"sync/engine TestScheduleSurvivesRefusedKey"}},
	{"only `run` exits 7.", []string{"cmd/outlierd/command TestEveryErrorHasItsExitCode"}},
	{"The reserve is touched only by `run --use-reserve`.", []string{"sync/engine TestOnlyManualRunsUseTheReserve"}},
	{
		"**Spending unasked.** The same threshold (`confirm_over`) holds at a terminal and elsewhere:",
		[]string{"cmd/outlierd/command TestExpensiveManualRunsNeedConfirmation", "cmd/outlierd/testdata/script/confirm.txt"},
	},
	{"there it asks, elsewhere it ends with exit 2 and names `--yes`;", []string{
		"cmd/outlierd/command TestConfirmationNeedsTerminal",
		"cmd/outlierd/testdata/script/confirm.txt",
	}},
	{"schedules are asked for by the job file.", []string{"cmd/outlierd/command TestExpensiveManualRunsNeedConfirmation", "cmd/outlierd/testdata/script/confirm.txt"}},
	{"`budget.by_hand` caps what no job buys.", []string{"cmd/outlierd/testdata/script/confirm.txt"}},
	{"Every command that can spend has `--dry-run` and `--max-credits`.", []string{"cmd/outlierd/testdata/script/confirm.txt"}},
	{
		"**Clocks.** A day or cycle that only the service's clock has turned, by more than 36 hours beyond the local one, stays closed for paid calls until the local clock agrees or a person confirms it.",
		[]string{"sync/engine TestServicesClockAloneOpensNoBudget"},
	},
	{"Due times, records and cursors in the future count as now and are told.", []string{"sync/engine TestScheduleRunsDespiteFutureRecords"}},

	// Commit.
	{
		"`Meter.Reserve` returns an `Attempt` with `Sending()` and `Settle(answer, outcome)`.",
		[]string{"sync/ledger TestAttemptIsSettledOnce", "outlier TestDoKeepsCallOrder"},
	},
	{
		"The engine binds the step to the meter, so that Settle commits the answer, its outcome, the cursor, and the page's rows in `run_hits` and `seen`.",
		[]string{"sync/state TestKillAtEveryDurablePoint", "sync/engine TestCursorStaysBeforeUnstoredPage", "cmd/outlierd/e2e TestKilledRunLosesNothing"},
	},
	{
		"A body that cannot be read is committed as quarantined, never thrown away.",
		[]string{"sync/journal TestUnreadableBodiesAreKept", "sync/engine TestUnreadableAnswerIsBoughtOnce"},
	},
	{
		"**Every call**, free or paid, takes one path: reserved → sending → settled, each committed before the next step;",
		[]string{
			"sync/state TestKillAtEveryDurablePoint", "sync/store TestSettledAnswerSurvivesAKill", "sync/store TestAnswerWaitsForSpace",
			"sync/journal TestJournalReturnsAnswersUnchanged", "sync/journal TestOnlyInformativeAnswersAreJournaled",
			"outlier/pace TestRestartKeepsTheWindow",
		},
	},
	{"one call is in flight at a time;", []string{"sync/engine TestCallsNeverOverlap"}},
	{
		"the transport never sends anything twice by itself (a connection of its own for each call, or a kept one where a test proves this).",
		[]string{"outlier TestEachCallHasItsOwnConnection", "outlier TestClosedConnectionDoesNotResendSearch"},
	},
	{
		"An answer in hand is never given up: a locked database is waited for, and at the last written to a file beside it.",
		[]string{
			"sync/ledger TestAnswerWaitsForLockedDatabase", "sync/ledger TestAnAnswerOutlivesItsProcess", "sync/ledger TestAStartedScanOutlivesItsProcess",
			"sync/engine TestReceivedAnswerWaitsForLockedState", "sync/engine TestReceivedAnswerSurvivesAStop",
		},
	},
	{
		"**Journal row:** operation, parameters, run, job, step, page, rank base, times, outcome, and the body as it came over the wire (gzip kept, else zstd), checksummed.",
		[]string{"sync/journal TestJournalReturnsAnswersUnchanged", "outlier TestGzipIsKeptAndOpened", "sync/journal TestFlippedBitEndsTheJournal"},
	},
	{
		"A body that holds the key is kept unpacked, with `[redacted]` in its place, and nothing that is made of an answer holds the key.",
		[]string{
			"outlier TestKeyIsRemovedInAnyEncoding", "outlier TestStoredAnswersOmitKey",
			"sync/engine TestEchoedKeyIsNotStored",
		},
	},
	{"Ids are AUTOINCREMENT.", []string{"sync/state TestJournalIDsAreNeverReused"}},
	{"Kept for ever by default;", []string{"sync/engine TestRepairedSinkCatchesUp", "sync/job TestRetentionIsAnAge"}},
	{
		"after pruning, `rebuild` takes what the journal no longer holds from the warehouse or its published copy, or refuses.",
		[]string{"cmd/outlierd/command TestOldDaysAndPrunedRows", "cmd/outlierd/command TestLostRowsAreNotReplaced"},
	},
	{"**Batch:** the journal ids (lo, hi] of the warehouse;", []string{"sinks/warehouse TestTablesFollowTheirKinds"}},
	{
		"watermark hi commits with it, so that none applies twice.",
		[]string{"sinks/duckdb TestCopyFulfilsTheContract", "sinks/warehouse TestFailedBatchLeavesNothing", "sinks/duckdb TestKilledWriterLosesNothing"},
	},
	{"Bounded by bytes (about 8 MB), not only by rows;", []string{"sync/engine TestBatchIsBoundedByItsBytes"}},
	{"a larger answer goes alone.", []string{"cmd/outlierd/e2e TestLargeAnswersFitIntoMemory"}},
	{
		"**Before the first paid call of a process** the state file has the size and header that the last commit left (a small synced record beside it);",
		[]string{"cmd/outlierd/storage/testdata/script/check.txt"},
	},
	{"else nothing is bought and one line says what to do.", []string{"cmd/outlierd/storage/testdata/script/check.txt"}},
	{
		"A stop (SIGTERM) ends a call in flight after 20 s as UNKNOWN, keeping what had arrived.",
		[]string{"outlier TestStoppedDoAwaitsSentCall"},
	},

	// Tables.
	{
		"**Keys** are unique in every table, in histories per answer, whatever the service sends: what one answer lists twice makes one row, the first.",
		[]string{"sinks/duckdb TestKeysAreUniqueForRepeatedItems", "schema TestCommentKeysAreUniqueAndStable"},
	},
	{
		"A value of more than 1 MiB is cut in the tables, with a mark, and kept whole in the journal.",
		[]string{"schema TestTooLargeValuesAreCut", "sync/engine TestOneBadValueCostsNoPage"},
	},
	{
		"Bytes that are not UTF-8 are replaced, and the field is told as drift.",
		[]string{"schema TestInvalidBytesAreReplaced", "sync/engine TestOneBadValueCostsNoPage"},
	},
	{"**Parquet** dates are those of the rows, whatever the batches.", []string{"sinks/parquet TestCopyFulfilsTheContract"}},
	{"**Current rows** carry `first_seen_at` over from the old row;", []string{"sinks/duckdb TestCopyFulfilsTheContract"}},
	{"`times_seen` counts observations.", []string{"sinks/duckdb TestCopyFulfilsTheContract"}},
	{"Child rows of a parent (transcript events) are replaced by parent id.", []string{"sinks/duckdb TestCopyFulfilsTheContract"}},
	{
		"**Narrow child tables** (`transcript_events`, `comments`) carry `_response_id` as their only lineage;",
		[]string{"schema TestTablesMatchTheGoldenFile"},
	},
	{"`ops.requests` has the rest.", []string{"sync/ops TestOperationsTablesTellWhatHappened"}},
	{
		"**Parquet:** a table is cut into parts by the first answer of a key or of its parent, a history also by day;",
		[]string{"sinks/parquet TestPartsStayWithinLimits", "sinks/parquet TestCopyEqualsWarehouse"},
	},
	{
		"a key never leaves its part, and a publication writes only parts with changed rows again, each by one rename.",
		[]string{"sinks/parquet TestMixedFilesHaveEveryKeyOnce", "sinks/parquet TestKillsAtEveryStep", "sinks/parquet TestNewRowsCostLittle"},
	},
	{
		"Files are named after the first answer that they may hold: `part-<lo>.parquet`.",
		[]string{"sinks/parquet TestMixedFilesHaveEveryKeyOnce"},
	},
	{
		"**`ops` tables** follow state.db: of each a tail is replaced;",
		[]string{"sync/ops TestNewsAreWhatHasChanged", "sinks/duckdb TestCopyFulfilsTheContract", "sinks/parquet TestCopyFulfilsTheContract"},
	},
	{"they are outside batches and watermarks.", []string{"sinks/duckdb TestCopyFulfilsTheContract"}},

	// Files.
	{"All relative paths are relative to the folder of jobs.yaml;", []string{"cmd/outlierd/testdata/script/env.txt"}},
	{
		"`OUTLIERD_DATA` overrides `data`.",
		[]string{"sync/job TestEnvironmentSetsDataFolder", "cmd/outlierd/testdata/script/env.txt"},
	},
	{"A data folder is bound to its service URL at first use.", []string{"cmd/outlierd/testdata/script/service.txt"}},
	{
		"Another URL, or a key together with `sim://`, is refused: simulated rows never mix with bought ones.",
		[]string{"cmd/outlierd/testdata/script/service.txt", "sync/job/testdata/mistakes/key-for-simulator.golden"},
	},
	{"The program has no default URL;", []string{"sync/job/testdata/mistakes/missing-everything.golden"}},
	{"only the shipped example names `sim://`.", []string{"cmd/outlierd/testdata/script/init.txt"}},
	{"An empty published file exists before the first call.", []string{"sinks/duckdb TestFileHoldsWhatIsDeclaredAlone", "cmd/outlierd/testdata/script/health.txt"}},
	{"Publishing removes a foreign `.wal` beside it right before the rename.", []string{"sinks/duckdb TestPublishingRemovesAForeignLog"}},
	{
		"It happens when a run's pages are in and at its end, and in between at most every max(10 s, 20 × the last copy's time, size ÷ 1 MB/s).",
		[]string{"sync/engine TestHitsArePublishedBeforeEnrichment", "sync/engine TestPublishingTakesLimitedTime"},
	},
	{
		"Docs mount the folder, never the file, and every example opens read-only.",
		[]string{"cmd/outlierd/command TestExamplesOpenFileReadOnly", "cmd/outlierd/command TestDeploymentsAgreeWithTheProgram"},
	},
	{"Reading (page, status, metrics) never causes one.", []string{"sync/engine TestReadingPublishesNothing"}},
	{"Our own reads open the published file per query and close it.", []string{"sinks/duckdb/query TestIDsComeFromLatestPublication"}},

	// Grammar.
	{"`a..b` is inclusive;", []string{"sync/job TestFiltersAreSentAsParameters"}},
	{"`..2026-10-31` includes that day;", []string{"sync/job TestFiltersAreSentAsParameters"}},
	{"a bare number where a range is meant is an error;", []string{"sync/job/testdata/mistakes/enrich-where.golden"}},
	{"`~` removes a key inherited by `use`;", []string{"sync/job TestJobMayOverrideUsedFilters"}},
	{"`$${` escapes;", []string{"sync/job TestTemplatesMeetVariablesAndEscapes"}},
	{"digits-only ids stay text (read the token, not the number).", []string{"sync/job TestTextsStayTexts", "sync/job TestFiltersAreSentAsParameters"}},
	{
		"Sources of ids and `for_each`: a literal list, `{list: name}`, `{file: rivals.txt}`, `{sql: …}`.",
		[]string{"sync/job TestIDSourcesAreDeduplicated", "sync/job TestForEachMakesCrossProduct"},
	},
}

// unbuilt has the beginnings of sentences without a test. A change that implements one adds its tests above
// and removes it here.
var unbuilt []string

// TestEverySentenceHasItsTests: each sentence of testdata/semantics.txt has a row, each row is about one
// of them, and the tests that rows name exist.
func TestEverySentenceHasItsTests(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("testdata/semantics.txt")
	if err != nil {
		t.Fatal(err)
	}
	var sentences []string
	for line := range strings.Lines(string(text)) {
		if line = strings.TrimSpace(line); line != "" && !strings.HasPrefix(line, "#") {
			sentences = append(sentences, line)
		}
	}
	for i, p := range promises {
		if !slices.Contains(sentences, p.sentence) {
			t.Errorf("row %d is about no sentence: %s", i, p.sentence)
		}
		if begins := func(words string) bool { return strings.HasPrefix(p.sentence, words) }; (len(p.shown) == 0) != slices.ContainsFunc(unbuilt, begins) {
			t.Errorf("%d tests show a sentence that is listed as unbuilt, or none shows one that is not: %s",
				len(p.shown), p.sentence)
		}
	}
	for _, sentence := range sentences {
		if n := rowsAbout(sentence); n != 1 {
			t.Errorf("%d rows, want one, about: %s", n, sentence)
		}
	}
	testsExist(t)
}

// rowsAbout counts the rows about a sentence.
func rowsAbout(sentence string) (n int) {
	for _, p := range promises {
		if p.sentence == sentence {
			n++
		}
	}
	return n
}

// testsExist checks that the tests and scripts of the rows exist.
func testsExist(t *testing.T) {
	t.Helper()
	sources := map[string]string{}
	for _, p := range promises {
		for _, shown := range p.shown {
			folder, test, ok := strings.Cut(shown, " ")
			if !ok {
				if _, err := os.Stat(filepath.Join("../..", shown)); err != nil {
					t.Errorf("%s %v", p.sentence, err)
				}
				continue
			}
			if sources[folder] == "" {
				sources[folder] = testsOf(t, filepath.Join("../..", folder))
			}
			if !strings.Contains(sources[folder], "\nfunc "+test+"(t *testing.T) {") {
				t.Errorf("%s There is no %s in %s", p.sentence, test, folder)
			}
		}
	}
}

// testsOf returns the text of a folder's tests.
func testsOf(t *testing.T, folder string) string {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(folder, "*_test.go"))
	if err != nil {
		t.Fatal(err)
	}
	var all strings.Builder
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		all.Write(text)
	}
	return all.String()
}
