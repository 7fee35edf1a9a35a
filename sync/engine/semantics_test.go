package engine

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// A promise is what words of the job file mean, sentence by sentence, and the test that
// shows it, in the folder of its package. A test "TestScripts/x" is the script x.
type promise struct{ sentence, folder, test string }

var promises = []promise{
	// Steps and runs.
	{"A scheduled run is unique by (job, due instant); a manual one has no due instant.", "sync/state", "TestDueInstantIsPerformedOnce"},
	{"Without a name run takes the only job, or lists jobs with their prices and exits 2; --all runs all.", "cmd/outlierd", "TestScripts/usage"},
	{"--due runs what is due.", "cmd/outlierd", "TestScripts/due"},
	{"Lists, SQL seeds, templates and time windows are resolved once into stored steps; resuming reads steps, never the file.", "sync/engine", "TestRunResumesFromItsStepsAndNotFromTheFile"},
	{"for_each: one run; several names are their cross product in file order; each combination is one search.", "sync/job", "TestForEachMakesTheCrossProductOfItsValues"},
	{"pages counts per search; top, per_run, stop_after per run; pages go breadth first, so that a cap cuts depth and not topics.", "sync/engine", "TestPagesCountPerSearchAndTheRestPerRun"},
	{"A name that equals a set environment variable is an error.", "sync/job", "TestMistakesAreToldAsInGoldenFiles"},
	{"query: [a, b] is one request over both.", "sync/job", "TestAListIsOneRequestAndEachValueAnother"},
	{"A due instant first continues the job's unfinished run if that is younger than one period.", "sync/engine", "TestFailedRunDoesNotEndTheSchedule"},
	{"… or holds a paid scan;", "sync/engine", "TestPaidScanIsContinuedHoweverOldItIs"},
	{"… else the old run is closed as interrupted and the new window covers it.", "sync/engine", "TestRunThatIsTooOldIsClosedAsInterrupted"},
	{"Skipped due instants collapse into one.", "sync/engine", "TestInstantsThatPassedWhileNobodyWatchedCollapseIntoOne"},
	{"A run ends when its searches have ended and its own enrichment is done.", "sync/engine", "TestPagesOfAJobThatComesDueGoBeforeDataCallsOfAnother"},
	{"… or at stop_after, then ok; that ends the run, not its queue: up goes on draining in idle slots.", "sync/engine", "TestIdleTimeDrainsWhatARunLeftInTheQueue"},
	{"A later run takes the rest along.", "sync/engine", "TestLaterRunTakesTheRestAlong"},
	{"after fires when the parent's pages are published.", "sync/engine", "TestAfterFiresWhenThePagesArePublished"},
	{"… on ok, ok_empty or partial.", "sync/engine", "TestAfterFiresOnEveryGoodEndAndOnNoOther"},
	{"SQL that returns no seed is ok_empty: nothing spent.", "sync/engine", "TestSQLThatReturnsNoSeedIsOKEmpty"},
	{"SQL seeds without a DuckDB sink are refused by lint.", "sync/job", "TestMistakesAreToldAsInGoldenFiles"},
	{"A manual run fires after jobs only with --with-after.", "sync/engine", "TestRunByHandFiresNothing"},
	{"… and with it it does.", "cmd/outlierd", "TestScripts/override"},
	{"every counts from the Unix epoch.", "sync/job", "TestEveryCountsFromTheUnixEpoch"},
	{"A doubled hour runs fixed-hour schedules once.", "sync/job", "TestSchedulesAroundChangesOfTheClocks"},

	// Windows and stopping.
	{"since last success starts at the service time at which page one of the last search that ended by itself was requested, minus the overlap.", "sync/engine", "TestWindowStartsWherePageOneOfTheLastSuccessWasRequested"},
	{"Bounds are rounded down to whole days.", "sync/job", "TestWindowsAreTheSameAllDay"},
	{"A watermark belongs to job, operation, query or seeds, and for_each value.", "sync/job", "TestAWatermarkBelongsToWhatIsAskedAndNotToFilters"},
	{"Changing one of those starts with first; changing another filter keeps it.", "sync/engine", "TestChangedQueryStartsAfreshAndAChangedFilterDoesNot"},
	{"It moves whatever becomes of the enrichment.", "sync/engine", "TestWatermarkMovesWhateverBecomesOfTheEnrichment"},
	{"… and never when a cap or an error ended the search.", "sync/engine", "TestWatermarkStaysWhereACapOrAnErrorEndedTheSearch"},
	{"What was left is reported.", "cmd/outlierd", "TestEndingsSayWhatWasSavedAndWhatWasLeft"},
	{"stop_when is the share of a page's distinct ids that seen did not hold before this run began; judged from page two on.", "sync/engine", "TestStopWhenCountsIdsUnknownBeforeTheRun"},
	{"pages defaults to 1.", "sync/job", "TestWhatIsNotSaidHasDefaults"},
	{"pages: all requires per_run.", "sync/job", "TestMistakesAreToldAsInGoldenFiles"},

	// Buying once.
	{"An identical paid request that any job had answered within reuse_for is taken from the journal: no credit, no pace. run --again overrides.", "sync/engine", "TestIdenticalRequestOfAnyJobIsTakenFromTheJournal"},
	{"One job does not buy the same set of seeds again within refresh_after.", "sync/engine", "TestSameSeedsAreNotBoughtAgainWithinRefreshAfter"},
	{"top ranks the run's distinct hits over all its searches by sort (nulls last, id breaks ties).", "sync/state", "TestTopRanksTheRunsDistinctHits"},
	{"… and takes the first N.", "sync/engine", "TestHitsAreRankedOverTheWholeRun"},
	{"Freshness promotes nobody: the list is never extended to fill N.", "sync/engine", "TestFreshnessPromotesNobody"},
	{"refresh_after is compared per job with the last good answer for (endpoint, id).", "sync/engine", "TestSecondRunBuysOnlyWhatMayHaveChanged"},
	{"… or missing answer.", "sync/engine", "TestAnswerThatMeansNoneIsRemembered"},
	{"One queue row per (endpoint, id) over all jobs; the higher value and the shorter age win; lineage is the first requester's.", "sync/state", "TestOneRowServesAllWhoWantTheSame"},
	{"Rows that no job wants any more are dropped at reload.", "cmd/outlierd", "TestFileDecidesWhatStaysQueued"},
	{"Others expire after 7 days.", "sync/state", "TestFailedTaskWaitsAndExpiresAWeekAfterItWasLastWanted"},
	{"No enrich, no enrichment.", "sync/engine", "TestNoEnrichNoEnrichment"},
	{"A page one that fails makes a search failed.", "sync/engine", "TestFailuresThatPassAreContinued"},
	{"An enrichment that fails makes the run partial.", "sync/engine", "TestFailedCallsStayQueuedAndTheRunIsPartial"},

	// Money.
	{"Order of one paid call: wait for the pacer, reserve (durable), connect, sending (durable), send, one commit.", "outlier", "TestDoKeepsTheOrderOfACall"},
	{"Days and cycles turn at 00:00 in timezone.", "sync/credit", "TestDayTurnsAtMidnightOfTheZone"},
	{"… read from the service's clock.", "sync/state", "TestDaysTurnByTheServicesClock"},
	{"Changed caps apply at once without resetting what was spent.", "sync/engine", "TestChangedCapAppliesAtOnce"},
	{"budget.per_month is required except on sim://.", "sync/job", "TestMistakesAreToldAsInGoldenFiles"},
	{"The worst case counts attempts, and becomes that run's cap.", "sync/engine", "TestWorstCaseCountsAttemptsAndIsTheRunsCap"},
	{"A scan holds its price and the price of reading together; reading draws the hold down; what is not read is released at the run's end.", "sync/engine", "TestScanIsPolledWithBackOffAndReadWithinItsHold"},
	{"… together or not at all.", "sync/engine", "TestScanIsStartedOnlyIfReadingItFits"},
	{"lint refuses a job whose smallest step exceeds a cap.", "sync/job", "TestMistakesAreToldAsInGoldenFiles"},
	{"… and warns when the floor of all jobs exceeds the cycle.", "sync/job", "TestTheBudgetsFloor"},
	{"The 402 and 401/403 latches belong to the key's fingerprint and fall with a new key.", "sync/state", "TestLatchStandsForItsKeyUntilItIsLifted"},
	{"Ledger and caps belong to the account and outlive a key.", "sync/engine", "TestLedgerAndCapsOutliveAKey"},
	{"up stays alive when latched.", "sync/engine", "TestScheduleStaysAliveWhenTheKeyIsRefused"},
	{"Only run exits 7.", "cmd/outlierd", "TestEveryErrorHasItsExitCode"},
	{"The reserve is touched only by run --use-reserve.", "sync/engine", "TestOnlyAPersonTouchesTheReserve"},

	// Commit.
	{"Settle commits the answer, its outcome, the cursor, and the page's rows in run_hits and seen.", "sync/state", "TestKillAtEveryDurablePoint"},
	{"… so that a kill loses no page and buys none twice.", "cmd/outlierd", "TestKilledAtAnyMomentNothingIsLostOrBoughtTwice"},
	{"A body that cannot be read is committed as quarantined, never thrown away.", "sync/state", "TestUnreadableBodiesAreKept"},
	{"… nor bought again.", "sync/engine", "TestUnreadableAnswerIsKeptAndNotBoughtAgain"},
	{"Free calls: before sending there is only the pacer's stamp, which survives a kill.", "outlier/pace", "TestWindowOutlivesTheProcess"},
	{"Up to 1 s or 64 free answers share a commit.", "sync/state", "TestFreeAnswersShareACommit"},
	{"Paid answers never wait.", "sync/state", "TestPaidAnswersNeverWait"},
	{"One paid and one free call are in flight at most.", "sync/engine", "TestOneCallIsInFlightAtATime"},
	{"Every call has a connection of its own.", "outlier", "TestEachCallHasItsOwnConnection"},
	{"A journal row holds the body as it came over the wire, checksummed.", "sync/state", "TestJournalGivesAnswersBackAsTheyCame"},
	{"Ids are never used again.", "sync/state", "TestJournalEndCountsWhatWasPruned"},
	{"A batch is the journal ids (lo, hi] of one sink; watermark hi commits with it, so that none applies twice.", "sinks/duckdb", "TestSinkKeepsItsPromises"},
	{"A stop ends a call in flight after 20 s as unknown, keeping what had arrived.", "outlier", "TestDoGivesASentCallGraceWhenStopped"},
}

// TestEverySentenceHasATestThatExists: what is promised is shown somewhere.
func TestEverySentenceHasATestThatExists(t *testing.T) {
	sources := map[string]string{}
	for _, p := range promises {
		folder := filepath.Join("../..", p.folder)
		if script, ok := strings.CutPrefix(p.test, "TestScripts/"); ok {
			if _, err := os.Stat(filepath.Join(folder, "testdata/script", script+".txt")); err != nil {
				t.Errorf("%s %v", p.sentence, err)
			}
			continue
		}
		if sources[p.folder] == "" {
			sources[p.folder] = testsOf(t, folder)
		}
		if !strings.Contains(sources[p.folder], "\nfunc "+p.test+"(t *testing.T) {") {
			t.Errorf("%s There is no %s in %s", p.sentence, p.test, p.folder)
		}
	}
}

// testsOf is the text of a folder's tests.
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
