-- What has changed of the rows that readers find in the tables ops.*, in the order of the
-- changes: a row is here once, as of its last change. A sink keeps the version that it
-- has been told, and what all sinks have been told is removed; see Store.OpsNews.
CREATE TABLE ops_changes (
	version INTEGER PRIMARY KEY AUTOINCREMENT,
	source  TEXT NOT NULL CHECK (source IN ('runs', 'steps', 'attempts', 'limits')),
	id      INTEGER NOT NULL,
	UNIQUE (source, id)
) STRICT;

-- A change is removed and entered anew, since the statement that made it may say what
-- is to become of conflicts.
CREATE TRIGGER ops_run_begins AFTER INSERT ON runs
BEGIN
	INSERT INTO ops_changes (source, id) VALUES ('runs', NEW.id);
END;

CREATE TRIGGER ops_run_changes AFTER UPDATE ON runs
BEGIN
	DELETE FROM ops_changes WHERE source = 'runs' AND id = NEW.id;
	INSERT INTO ops_changes (source, id) VALUES ('runs', NEW.id);
END;

CREATE TRIGGER ops_run_renamed AFTER UPDATE OF job ON runs WHEN NEW.job <> OLD.job
BEGIN
	DELETE FROM ops_changes WHERE source = 'steps' AND id IN (SELECT id FROM steps WHERE run = NEW.run);
	INSERT INTO ops_changes (source, id) SELECT 'steps', id FROM steps WHERE run = NEW.run;
END;

CREATE TRIGGER ops_step_begins AFTER INSERT ON steps
BEGIN
	INSERT INTO ops_changes (source, id) VALUES ('steps', NEW.id);
END;

CREATE TRIGGER ops_step_changes AFTER UPDATE ON steps
BEGIN
	DELETE FROM ops_changes WHERE source = 'steps' AND id = NEW.id;
	INSERT INTO ops_changes (source, id) VALUES ('steps', NEW.id);
END;

CREATE TRIGGER ops_attempt_begins AFTER INSERT ON attempts
BEGIN
	INSERT INTO ops_changes (source, id) VALUES ('attempts', NEW.id);
END;

CREATE TRIGGER ops_attempt_changes AFTER UPDATE ON attempts
BEGIN
	DELETE FROM ops_changes WHERE source = 'attempts' AND id = NEW.id;
	INSERT INTO ops_changes (source, id) VALUES ('attempts', NEW.id);
END;

-- What a step costs follows from its attempts.
CREATE TRIGGER ops_step_reserves AFTER INSERT ON attempts WHEN NEW.price > 0 AND NEW.step <> 0
BEGIN
	DELETE FROM ops_changes WHERE source = 'steps' AND id = NEW.step;
	INSERT INTO ops_changes (source, id) SELECT 'steps', id FROM steps WHERE id = NEW.step;
END;

CREATE TRIGGER ops_step_settles AFTER UPDATE OF state ON attempts WHEN NEW.price > 0 AND NEW.step <> 0 AND NEW.state = 'refunded'
BEGIN
	DELETE FROM ops_changes WHERE source = 'steps' AND id = NEW.step;
	INSERT INTO ops_changes (source, id) SELECT 'steps', id FROM steps WHERE id = NEW.step;
END;

CREATE TRIGGER ops_limit_learned AFTER INSERT ON limits
BEGIN
	INSERT INTO ops_changes (source, id) VALUES ('limits', NEW.id);
END;

-- Version 0 is that of whoever has seen nothing.
INSERT INTO ops_changes (source, id) VALUES ('runs', 0);
DELETE FROM ops_changes;
