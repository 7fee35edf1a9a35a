-- The queue is read in the order in which it is worked on. A call that failed is in back-off
-- until not_before, and stands in an index of its own: however many there are, none has to
-- be passed over to find the next call, and the first that may be tried again is known.
DROP INDEX queue_order;
DROP INDEX queue_job;
DROP INDEX queue_others_job;
ALTER TABLE queue_others ADD COLUMN not_before INTEGER NOT NULL DEFAULT 0; -- that of the call
UPDATE queue_others SET not_before = (SELECT not_before FROM queue q WHERE q.op = queue_others.op AND q.entity = queue_others.entity);

CREATE INDEX queue_ready ON queue (rank DESC, op, entity) WHERE not_before = 0;
CREATE INDEX queue_ready_of ON queue (job, rank DESC, op, entity) WHERE not_before = 0;
CREATE INDEX queue_back_off ON queue (not_before, rank, wanted_at) WHERE not_before > 0;
CREATE INDEX queue_back_off_of ON queue (job, not_before, rank, wanted_at) WHERE not_before > 0;
CREATE INDEX queue_others_ready ON queue_others (job, rank DESC, op, entity) WHERE not_before = 0;
CREATE INDEX queue_others_back_off ON queue_others (job, not_before) WHERE not_before > 0;
CREATE INDEX IF NOT EXISTS queue_wanted ON queue (wanted_at);

DROP TRIGGER queue_ranked;
CREATE TRIGGER queue_moved AFTER UPDATE OF rank, not_before ON queue WHEN NEW.rank <> OLD.rank OR NEW.not_before <> OLD.not_before
BEGIN
	UPDATE queue_others SET rank = NEW.rank, not_before = NEW.not_before WHERE op = NEW.op AND entity = NEW.entity;
END;

-- How many calls of a kind a job has in the queue: those that it asked for first, and those
-- that it wants as well.
CREATE TABLE queue_counts (
	job    TEXT NOT NULL,
	op     TEXT NOT NULL,
	asked  INTEGER NOT NULL DEFAULT 0 CHECK (asked >= 0),
	shared INTEGER NOT NULL DEFAULT 0 CHECK (shared >= 0),
	PRIMARY KEY (job, op)
) STRICT, WITHOUT ROWID;
INSERT INTO queue_counts (job, op, asked, shared)
	SELECT job, op, sum(first), sum(NOT first) FROM queue_wants GROUP BY job, op;

CREATE TRIGGER queue_counts_asked AFTER INSERT ON queue
BEGIN
	INSERT INTO queue_counts (job, op, asked) VALUES (NEW.job, NEW.op, 1) ON CONFLICT DO UPDATE SET asked = asked + 1;
END;

CREATE TRIGGER queue_counts_gone AFTER DELETE ON queue
BEGIN
	UPDATE queue_counts SET asked = asked - 1 WHERE job = OLD.job AND op = OLD.op;
END;

CREATE TRIGGER queue_counts_passed AFTER UPDATE OF job ON queue WHEN NEW.job <> OLD.job
BEGIN
	UPDATE queue_counts SET asked = asked - 1 WHERE job = OLD.job AND op = OLD.op;
	INSERT INTO queue_counts (job, op, asked) VALUES (NEW.job, NEW.op, 1) ON CONFLICT DO UPDATE SET asked = asked + 1;
END;

CREATE TRIGGER queue_counts_shared AFTER INSERT ON queue_others
BEGIN
	INSERT INTO queue_counts (job, op, shared) VALUES (NEW.job, NEW.op, 1) ON CONFLICT DO UPDATE SET shared = shared + 1;
END;

CREATE TRIGGER queue_counts_unshared AFTER DELETE ON queue_others
BEGIN
	UPDATE queue_counts SET shared = shared - 1 WHERE job = OLD.job AND op = OLD.op;
END;

CREATE TRIGGER queue_counts_renamed AFTER UPDATE OF job ON queue_others WHEN NEW.job <> OLD.job
BEGIN
	UPDATE queue_counts SET shared = shared - 1 WHERE job = OLD.job AND op = OLD.op;
	INSERT INTO queue_counts (job, op, shared) VALUES (NEW.job, NEW.op, 1) ON CONFLICT DO UPDATE SET shared = shared + 1;
END;

-- Which searches brought a video, which calls asked about it, and when a job last searched
-- for something.
CREATE INDEX run_hits_video ON run_hits (video);
CREATE INDEX attempts_entity ON attempts (entity) WHERE entity <> '';
CREATE INDEX attempts_page ON attempts (step) WHERE step > 0;
CREATE INDEX steps_searched ON steps (watermark, began) WHERE pages > 0;
CREATE INDEX IF NOT EXISTS runs_job ON runs (job, id);
