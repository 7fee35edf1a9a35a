-- The journal may be pruned: the answers up to an id, which meta has, keep their rows and lose their bodies.
-- Beside that, as before, only what is to be forgotten changes an answer, and never when or for whom it was
-- bought.
DROP TRIGGER responses_fixed;
CREATE TRIGGER responses_fixed BEFORE UPDATE OF id, run, job, op, entity, params, received_at, encoding, sum, body ON responses
	WHEN (NEW.id, NEW.run, NEW.job, NEW.op, NEW.received_at) IS NOT (OLD.id, OLD.run, OLD.job, OLD.op, OLD.received_at)
		OR NOT EXISTS (SELECT 1 FROM forgotten WHERE erased = 0)
			AND ((NEW.entity, NEW.params) IS NOT (OLD.entity, OLD.params) OR length(NEW.body) > 0
				OR NEW.id > coalesce((SELECT CAST(value AS INTEGER) FROM meta WHERE key = 'journal pruned up to'), 0))
BEGIN
	SELECT RAISE(ABORT, 'an answer is never changed');
END;
