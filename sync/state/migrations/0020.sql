-- How the runs of a job have ended is found without reading the runs, whose plans may be long.
DROP INDEX IF EXISTS runs_job;
CREATE INDEX runs_job ON runs (job, id, status, overridden);
CREATE INDEX runs_status ON runs (status, id);
