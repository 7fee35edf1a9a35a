-- What is looked up with every paid call, and at every start, without reading whole tables.
CREATE INDEX attempts_lost ON attempts (op, params) WHERE price > 0 AND state = 'unknown' AND response IS NULL;
CREATE INDEX attempts_explained ON attempts (response) WHERE price > 0 AND state = 'unknown' AND response IS NOT NULL;
CREATE INDEX IF NOT EXISTS runs_job ON runs (job, id);

-- What a job's month must hold is summed over that job's attempts alone.
CREATE INDEX attempts_of_account ON attempts (account, counts_at, state, price) WHERE price > 0;
DROP VIEW period_sums;
CREATE VIEW period_sums AS
	SELECT p.scope, p.period,
		iif(p.account = '',
			(SELECT coalesce(sum(price), 0) FROM attempts
				WHERE price > 0 AND state <> 'refunded' AND counts_at >= p.begins AND counts_at < p.ends),
			(SELECT coalesce(sum(price), 0) FROM attempts
				WHERE price > 0 AND state <> 'refunded' AND account = p.account AND counts_at >= p.begins AND counts_at < p.ends))
		+ (SELECT coalesce(sum(rest), 0) FROM hold_rests
			WHERE counts_at >= p.begins AND counts_at < p.ends AND p.account IN ('', account)) AS held,
		iif(p.scope = 'month', (SELECT coalesce(sum(adjustment), 0) FROM attempts
			WHERE adjustment IS NOT NULL AND counts_at >= p.begins AND counts_at < p.ends), 0) AS adjusted
	FROM periods p WHERE p.scope <> 'run'
	UNION ALL
	SELECT 'run', p.period,
		(SELECT coalesce(sum(price), 0) FROM attempts WHERE run = p.period AND price > 0 AND state <> 'refunded')
		+ (SELECT coalesce(sum(rest), 0) FROM hold_rests WHERE run = p.period), 0
	FROM periods p WHERE p.scope = 'run';

-- Answers that an earlier process received while the database was locked, and kept in a
-- file. They are in the journal and settled; the search or the queued call that they
-- belong to has not followed yet.
CREATE TABLE recovered (
	response INTEGER PRIMARY KEY REFERENCES responses (id),
	attempt  INTEGER NOT NULL,
	kind     TEXT NOT NULL, -- of the error that the answer is, '' for none
	message  TEXT NOT NULL
) STRICT;
