-- A scan is what it looks for: find_by, mode, and the queries in the order of their text.
-- At most one start of the same is live, whatever started it; job, run and due instant
-- make it no other scan. A person may buy another beside one that runs: again is 0, or
-- counts those.
ALTER TABLE scans ADD COLUMN again INTEGER NOT NULL DEFAULT 0;

-- Earlier versions let two jobs, or two due instants, start the same. Those stay live.
UPDATE scans SET again = (
		SELECT count(*) FROM scans s WHERE (s.find_by, s.mode, s.wanted) = (scans.find_by, scans.mode, scans.wanted)
			AND s.id < scans.id AND s.state IN ('intended', 'unknown', 'running'))
	WHERE state IN ('intended', 'unknown', 'running');

DROP INDEX scans_live;
CREATE UNIQUE INDEX scans_live ON scans (find_by, mode, wanted, again) WHERE state IN ('intended', 'unknown', 'running');
CREATE INDEX scans_same ON scans (find_by, mode, wanted);

-- While it is not known whether the same was started, nothing is bought beside it.
CREATE TRIGGER scans_alone BEFORE INSERT ON scans WHEN EXISTS (
	SELECT 1 FROM scans s WHERE (s.find_by, s.mode, s.wanted) = (NEW.find_by, NEW.mode, NEW.wanted)
		AND (s.state IN ('intended', 'unknown') OR s.state = 'running' AND NEW.again = 0))
BEGIN
	SELECT RAISE(ABORT, 'the same scan is live');
END;

DROP TRIGGER scans_fixed;
CREATE TRIGGER scans_fixed BEFORE UPDATE OF id, run, due, step, find_by, mode, queries, wanted, price, intended, again ON scans
BEGIN
	SELECT RAISE(ABORT, 'the terms of a scan are fixed');
END;

-- A step may wait for a scan that another step has started.
ALTER TABLE steps ADD COLUMN joined INTEGER REFERENCES scans (id);
CREATE INDEX steps_scan ON steps (scan) WHERE scan <> '';

CREATE TRIGGER steps_joined BEFORE UPDATE OF joined ON steps
	WHEN OLD.joined IS NOT NULL OR NOT EXISTS (SELECT 1 FROM scans WHERE id = NEW.joined AND scan <> '')
BEGIN
	SELECT RAISE(ABORT, 'a step joins one scan, which the service has');
END;
