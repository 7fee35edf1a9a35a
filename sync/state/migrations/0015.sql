-- Proof is an error answer, or that no byte left. An error under a status of success is
-- proof, too, but only as long as what it said is in the journal. Once the moment has passed
-- without any, only an operator who looked at the service can tell.
DROP TRIGGER attempts_proof;

CREATE TRIGGER attempts_proof BEFORE UPDATE OF state ON attempts
	WHEN NEW.state = 'refunded' AND (
		OLD.state = 'sending' AND NEW.sent_at <> 0 AND NEW.http_status < 400 AND (NEW.http_status NOT BETWEEN 200 AND 299 OR NEW.response IS NULL)
		OR OLD.state = 'unknown' AND (NEW.intent IS NULL OR NEW.error NOT LIKE 'operator: %'))
BEGIN
	SELECT RAISE(ABORT, 'a refund needs proof');
END;
