-- Who wants what. A job has its share of the queue looked at before every call.
CREATE INDEX queue_job ON queue (job, rank DESC, op, entity);
CREATE INDEX queue_others_job ON queue_others (job, rank DESC, op, entity);
CREATE TRIGGER queue_ranked AFTER UPDATE OF rank ON queue WHEN NEW.rank <> OLD.rank
BEGIN
	UPDATE queue_others SET rank = NEW.rank WHERE op = NEW.op AND entity = NEW.entity;
END;
CREATE VIEW queue_wants AS
	SELECT job, op, entity, 1 AS first FROM queue
	UNION ALL
	SELECT job, op, entity, 0 FROM queue_others;

-- Nobody is both the first who asked and another: neither who inherits a call, nor who
-- is given the name of another job that wants it.
CREATE TRIGGER queue_heir AFTER UPDATE OF job ON queue
BEGIN
	DELETE FROM queue_others WHERE op = NEW.op AND entity = NEW.entity AND job = NEW.job;
END;

CREATE TRIGGER queue_others_renamed AFTER UPDATE OF job ON queue_others
	WHEN EXISTS (SELECT 1 FROM queue WHERE op = NEW.op AND entity = NEW.entity AND job = NEW.job)
BEGIN
	DELETE FROM queue_others WHERE op = NEW.op AND entity = NEW.entity AND job = NEW.job;
END;

DELETE FROM queue_others WHERE EXISTS (
	SELECT 1 FROM queue q WHERE q.op = queue_others.op AND q.entity = queue_others.entity AND q.job = queue_others.job);
