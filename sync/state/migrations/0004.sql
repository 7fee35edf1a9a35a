-- A call that waits belongs to the job that asked first. These are the others that want
-- it: it is theirs when the first does not want it any more.
CREATE TABLE queue_others (
	op        TEXT NOT NULL,
	entity    TEXT NOT NULL,
	job       TEXT NOT NULL,
	run       TEXT NOT NULL,
	wanted_at INTEGER NOT NULL,
	rank      REAL NOT NULL, -- that of the call, so that a job's next one is found at once
	PRIMARY KEY (op, entity, job),
	FOREIGN KEY (op, entity) REFERENCES queue (op, entity) ON DELETE CASCADE
) STRICT, WITHOUT ROWID;

-- The credits for reading a scan of which nobody knows whether it exists outlive its run:
-- whoever finds the scan wants to read it.
CREATE TRIGGER holds_unknown BEFORE UPDATE OF open ON holds WHEN OLD.open = 1 AND NEW.open = 0
	AND EXISTS (SELECT 1 FROM attempts a JOIN scans s ON s.id = a.intent
		WHERE a.id = OLD.attempt AND a.state <> 'refunded' AND s.state = 'unknown')
BEGIN
	SELECT RAISE(ABORT, 'nobody knows yet whether the scan of this hold exists');
END;

-- A wish for which nothing was even reserved may give way to its repetition.
DROP TRIGGER scans_kept;
CREATE INDEX attempts_of_intent ON attempts (intent) WHERE intent IS NOT NULL;
CREATE TRIGGER scans_kept BEFORE DELETE ON scans
	WHEN OLD.state <> 'refused' OR EXISTS (SELECT 1 FROM attempts WHERE intent = OLD.id)
BEGIN
	SELECT RAISE(ABORT, 'a scan is kept');
END;
