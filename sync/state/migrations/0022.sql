-- Ids whose data was erased, as keyed hashes: see package forgotten. erased is 0 until the data is
-- gone from the journal and from all sinks.
CREATE TABLE forgotten (
	hash   BLOB PRIMARY KEY,
	kind   TEXT NOT NULL,
	at     INTEGER NOT NULL,
	erased INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

CREATE INDEX forgotten_unfinished ON forgotten (erased) WHERE erased = 0;

-- Only what is to be forgotten changes an answer, and never when or for whom it was bought.
DROP TRIGGER responses_fixed;
CREATE TRIGGER responses_fixed BEFORE UPDATE OF id, run, job, op, entity, params, received_at, encoding, sum, body ON responses
	WHEN NOT EXISTS (SELECT 1 FROM forgotten WHERE erased = 0)
		OR (NEW.id, NEW.run, NEW.job, NEW.op, NEW.received_at) IS NOT (OLD.id, OLD.run, OLD.job, OLD.op, OLD.received_at)
BEGIN
	SELECT RAISE(ABORT, 'an answer is never changed');
END;
