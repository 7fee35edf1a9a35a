-- Which runs may still change: one that is under way, and a paused or failed one until the
-- job's runs do not go on with it any more. It is said and not inferred from which run is the
-- newest, since several of a job may be unfinished: those that hold a paid scan, the job's own,
-- and one that a person has run in another way.
ALTER TABLE runs ADD COLUMN unfinished INTEGER NOT NULL DEFAULT 0 CHECK (unfinished IN (0, 1));
UPDATE runs SET unfinished = 1 WHERE status = 'running'
	OR status IN ('paused_budget', 'failed') AND id IN (SELECT max(id) FROM runs GROUP BY job);
CREATE INDEX runs_unfinished ON runs (job, id) WHERE unfinished = 1;

-- A run that a person has changed by flags says nothing about what the job has covered.
ALTER TABLE runs ADD COLUMN overridden INTEGER NOT NULL DEFAULT 0 CHECK (overridden IN (0, 1));
UPDATE runs SET overridden = 1 WHERE json_valid(CAST(plan AS TEXT)) AND json_extract(CAST(plan AS TEXT), '$.overridden');

-- Runs of jobs with `after` that are due because their parent's searches have ended, until they
-- have begun.
CREATE TABLE owed (
	job   TEXT NOT NULL,
	due   INTEGER NOT NULL, -- that of the parent's run
	noted INTEGER NOT NULL,
	PRIMARY KEY (job, due)
) STRICT, WITHOUT ROWID;
