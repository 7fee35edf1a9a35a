-- A step knows what it covers, when its first page was asked for, and what it left.
ALTER TABLE steps ADD COLUMN watermark TEXT NOT NULL DEFAULT '';
ALTER TABLE steps ADD COLUMN began INTEGER NOT NULL DEFAULT 0;
ALTER TABLE steps ADD COLUMN reused INTEGER NOT NULL DEFAULT 0;
ALTER TABLE steps ADD COLUMN scan TEXT NOT NULL DEFAULT '';
ALTER TABLE steps ADD COLUMN left_pages INTEGER NOT NULL DEFAULT -1;

-- What the searches of a job have covered; run is '' for one that was set by hand.
CREATE TABLE watermarks (
	job    TEXT NOT NULL,
	key    TEXT NOT NULL,
	at     INTEGER NOT NULL,
	run    TEXT NOT NULL,
	set_at INTEGER NOT NULL,
	PRIMARY KEY (job, key)
) STRICT, WITHOUT ROWID;

CREATE TRIGGER watermarks_forward BEFORE UPDATE OF at ON watermarks WHEN NEW.run <> '' AND NEW.at < OLD.at
BEGIN
	SELECT RAISE(ABORT, 'no run moves a watermark back');
END;

-- What `from` counts at each endpoint, once an answer has shown it.
CREATE TABLE paging (
	op         TEXT PRIMARY KEY,
	reading    TEXT NOT NULL CHECK (reading IN ('page', 'offset')),
	learned_at INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

-- Answers that may be used again: those to calls without an id, which are the paid ones.
CREATE INDEX responses_again ON responses (op, params, received_at) WHERE outcome = 'charged' AND entity = '';

-- What the answers have that the interface has not.
CREATE TABLE drift (
	op       TEXT NOT NULL,
	path     TEXT NOT NULL,
	problem  TEXT NOT NULL,
	count    INTEGER NOT NULL,
	first_at INTEGER NOT NULL,
	last_at  INTEGER NOT NULL,
	example  TEXT NOT NULL,
	PRIMARY KEY (op, path, problem)
) STRICT, WITHOUT ROWID;

-- Renames that were carried out, and what they left to each name: the account under
-- which its spending adds up, the instant at which it was last due under another name,
-- and the last run that the name saw under another bearer.
CREATE TABLE renames (
	id  INTEGER PRIMARY KEY AUTOINCREMENT,
	old TEXT NOT NULL,
	new TEXT NOT NULL,
	at  INTEGER NOT NULL,
	UNIQUE (old, new)
) STRICT;

CREATE TABLE jobs (
	job       TEXT PRIMARY KEY,
	account   TEXT NOT NULL UNIQUE,
	last_due  INTEGER NOT NULL,
	after_run INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

-- Refusals of the service that stand until something changes, by the key they met.
CREATE TABLE latches (
	latch     TEXT NOT NULL,
	key       TEXT NOT NULL,
	reason    TEXT NOT NULL,
	since     INTEGER NOT NULL,
	until     INTEGER NOT NULL,
	PRIMARY KEY (latch, key)
) STRICT, WITHOUT ROWID;

-- The wish to start a scan, on record before anything is sent, and what became of it.
CREATE TABLE scans (
	id        INTEGER PRIMARY KEY AUTOINCREMENT,
	run       TEXT NOT NULL,
	job       TEXT NOT NULL,
	due       INTEGER NOT NULL,
	step      INTEGER NOT NULL,
	find_by   TEXT NOT NULL,
	mode      TEXT NOT NULL,
	queries   TEXT NOT NULL,
	wanted    TEXT NOT NULL, -- the queries in order of their text, by which two scans are compared
	price     INTEGER NOT NULL CHECK (price >= 0),
	state     TEXT NOT NULL CHECK (state IN
		('intended', 'unknown', 'running', 'ended', 'expired', 'failed', 'refused', 'not_created')),
	scan      TEXT NOT NULL,
	status    TEXT NOT NULL,
	intended  INTEGER NOT NULL,
	created   INTEGER NOT NULL,
	polled    INTEGER NOT NULL,
	next_poll INTEGER NOT NULL,
	deadline  INTEGER NOT NULL,
	polls     INTEGER NOT NULL
) STRICT;

-- A scan that may be under way is not started a second time, and a due instant starts
-- it once, even if it has ended long since.
CREATE UNIQUE INDEX scans_live ON scans (job, due, find_by, mode, wanted) WHERE state IN ('intended', 'unknown', 'running');
CREATE UNIQUE INDEX scans_due ON scans (job, due, find_by, mode, wanted) WHERE due <> 0 AND state NOT IN ('refused', 'not_created');
CREATE UNIQUE INDEX scans_id ON scans (scan) WHERE scan <> '';
CREATE INDEX scans_step ON scans (step);

-- The ledger. Price is what the service asks for; a row that adjusts the books has
-- none, and says in adjustment how many credits were spent (or with a minus bought) elsewhere.
ALTER TABLE attempts ADD COLUMN account TEXT NOT NULL DEFAULT '';
ALTER TABLE attempts ADD COLUMN intent INTEGER REFERENCES scans (id);
ALTER TABLE attempts ADD COLUMN hold INTEGER REFERENCES holds (id);
ALTER TABLE attempts ADD COLUMN adjustment INTEGER;
ALTER TABLE periods ADD COLUMN adjusted INTEGER NOT NULL DEFAULT 0;
UPDATE attempts SET account = job WHERE price > 0;

CREATE UNIQUE INDEX attempts_intent ON attempts (intent) WHERE intent IS NOT NULL AND state <> 'refunded';
CREATE INDEX attempts_adjusted ON attempts (cycle) WHERE adjustment IS NOT NULL;
CREATE INDEX attempts_drawn ON attempts (hold) WHERE hold IS NOT NULL;

-- Credits set aside by one attempt for those that must follow it. What they draw is
-- not taken off the row: it is the sum of their prices. A refund of theirs goes back to
-- the hold while that is open.
CREATE TABLE holds (
	id      INTEGER PRIMARY KEY AUTOINCREMENT,
	attempt INTEGER NOT NULL UNIQUE REFERENCES attempts (id),
	run     TEXT NOT NULL,
	step    INTEGER NOT NULL CHECK (step > 0),
	account TEXT NOT NULL,
	day     TEXT NOT NULL,
	cycle   TEXT NOT NULL,
	amount  INTEGER NOT NULL CHECK (amount > 0),
	made_at INTEGER NOT NULL,
	open    INTEGER NOT NULL CHECK (open IN (0, 1))
) STRICT;

CREATE UNIQUE INDEX holds_open ON holds (step) WHERE open = 1;
CREATE INDEX holds_run ON holds (run) WHERE open = 1;

CREATE VIEW hold_rests AS
	SELECT *, amount - (SELECT coalesce(sum(price), 0) FROM attempts WHERE hold = holds.id AND state <> 'refunded') AS rest
	FROM holds WHERE open = 1;

DROP TRIGGER attempts_hold;
DROP TRIGGER attempts_release;
DROP TRIGGER attempts_fixed;
DROP TRIGGER attempts_proof;
DROP TRIGGER attempts_kept;
DROP TRIGGER periods_begin;
DROP TRIGGER periods_cap;
DROP INDEX attempts_paid;
DROP VIEW attempt_periods;

CREATE VIEW attempt_periods AS
	SELECT id, price, state, 'day' AS scope, day AS period FROM attempts WHERE price > 0
	UNION ALL
	SELECT id, price, state, 'month', cycle FROM attempts WHERE price > 0
	UNION ALL
	SELECT id, price, state, 'job_month', account || '/' || cycle FROM attempts WHERE price > 0 AND account <> ''
	UNION ALL
	SELECT id, price, state, 'run', run FROM attempts WHERE price > 0 AND run <> '';

CREATE VIEW hold_periods AS
	SELECT id, amount, 'day' AS scope, day AS period FROM holds
	UNION ALL
	SELECT id, amount, 'month', cycle FROM holds
	UNION ALL
	SELECT id, amount, 'job_month', account || '/' || cycle FROM holds WHERE account <> ''
	UNION ALL
	SELECT id, amount, 'run', run FROM holds WHERE run <> '';

CREATE INDEX attempts_paid ON attempts (reserved_at, state, price, day, cycle, account, run) WHERE price > 0;

CREATE TRIGGER periods_begin BEFORE INSERT ON periods WHEN NEW.held <> 0 OR NEW.adjusted <> 0
BEGIN
	SELECT RAISE(ABORT, 'a period begins with nothing held');
END;

CREATE TRIGGER periods_cap BEFORE UPDATE OF held ON periods
	WHEN NEW.held > OLD.held AND NEW.held + NEW.adjusted > NEW.max
BEGIN
	SELECT RAISE(ABORT, 'cap exceeded');
END;

CREATE TRIGGER attempts_draw BEFORE INSERT ON attempts WHEN NEW.hold IS NOT NULL AND NOT EXISTS (
	SELECT 1 FROM hold_rests h WHERE h.id = NEW.hold AND h.rest >= NEW.price
		AND (h.run, h.account, h.day, h.cycle) = (NEW.run, NEW.account, NEW.day, NEW.cycle))
BEGIN
	SELECT RAISE(ABORT, 'the hold does not cover the price');
END;

CREATE TRIGGER attempts_hold AFTER INSERT ON attempts WHEN NEW.price > 0 AND NEW.hold IS NULL
BEGIN
	INSERT INTO periods (scope, period)
		SELECT scope, period FROM attempt_periods WHERE id = NEW.id
		ON CONFLICT DO NOTHING;
	UPDATE periods SET held = held + NEW.price
		WHERE (scope, period) IN (SELECT scope, period FROM attempt_periods WHERE id = NEW.id);
END;

CREATE TRIGGER attempts_fixed BEFORE UPDATE OF id, run, job, account, price, day, cycle, reserved_at, intent, hold, adjustment ON attempts
BEGIN
	SELECT RAISE(ABORT, 'the terms of an attempt are fixed');
END;

-- Proof is an error answer, or that no byte left. Once the moment has passed without
-- either, only an operator who looked at the service can tell.
CREATE TRIGGER attempts_proof BEFORE UPDATE OF state ON attempts
	WHEN NEW.state = 'refunded' AND (
		OLD.state = 'sending' AND NEW.http_status < 400 AND NEW.sent_at <> 0
		OR OLD.state = 'unknown' AND (NEW.intent IS NULL OR NEW.error NOT LIKE 'operator: %'))
BEGIN
	SELECT RAISE(ABORT, 'a refund needs proof');
END;

CREATE TRIGGER attempts_release AFTER UPDATE OF state ON attempts WHEN NEW.state = 'refunded' AND NEW.price > 0
BEGIN
	UPDATE periods SET held = held - NEW.price
		WHERE (NEW.hold IS NULL OR (SELECT open FROM holds WHERE id = NEW.hold) = 0)
		AND (scope, period) IN (SELECT scope, period FROM attempt_periods WHERE id = NEW.id);
	UPDATE holds SET open = 0 WHERE attempt = NEW.id AND open = 1;
END;

CREATE TRIGGER attempts_kept BEFORE DELETE ON attempts WHEN OLD.price > 0 OR OLD.adjustment IS NOT NULL
BEGIN
	SELECT RAISE(ABORT, 'a paid attempt is kept');
END;

CREATE TRIGGER attempts_adjust AFTER INSERT ON attempts WHEN NEW.adjustment IS NOT NULL
BEGIN
	INSERT INTO periods (scope, period) VALUES ('month', NEW.cycle) ON CONFLICT DO NOTHING;
	UPDATE periods SET adjusted = adjusted + NEW.adjustment WHERE scope = 'month' AND period = NEW.cycle;
END;

CREATE TRIGGER holds_begin BEFORE INSERT ON holds WHEN NEW.open <> 1 OR NOT EXISTS (
	SELECT 1 FROM attempts a WHERE a.id = NEW.attempt AND a.state = 'reserved'
		AND (a.run, a.step, a.account, a.day, a.cycle) = (NEW.run, NEW.step, NEW.account, NEW.day, NEW.cycle))
BEGIN
	SELECT RAISE(ABORT, 'a hold is made together with a reservation, for the same periods');
END;

CREATE TRIGGER holds_hold AFTER INSERT ON holds
BEGIN
	UPDATE periods SET held = held + NEW.amount
		WHERE (scope, period) IN (SELECT scope, period FROM hold_periods WHERE id = NEW.id);
END;

CREATE TRIGGER holds_fixed BEFORE UPDATE OF id, attempt, run, step, account, day, cycle, amount, made_at ON holds
BEGIN
	SELECT RAISE(ABORT, 'the terms of a hold are fixed');
END;

-- The rest is read before the row closes, and nothing can be drawn from it after.
CREATE TRIGGER holds_release BEFORE UPDATE OF open ON holds WHEN OLD.open = 1 AND NEW.open = 0
BEGIN
	UPDATE periods SET held = held - (SELECT rest FROM hold_rests WHERE id = OLD.id)
		WHERE (scope, period) IN (SELECT scope, period FROM hold_periods WHERE id = OLD.id);
END;

CREATE TRIGGER holds_closed BEFORE UPDATE OF open ON holds WHEN OLD.open = 0 AND NEW.open = 1
BEGIN
	SELECT RAISE(ABORT, 'a hold that was released stays so');
END;

CREATE TRIGGER holds_kept BEFORE DELETE ON holds
BEGIN
	SELECT RAISE(ABORT, 'a hold is kept');
END;

-- No scan is started without an intent, which is carried out by one attempt; by
-- another only after a refund. From the mark on nobody knows whether the scan exists,
-- until its answer has been read.
CREATE TRIGGER attempts_intended BEFORE INSERT ON attempts
	WHEN (NEW.op = 'start_scan' OR NEW.intent IS NOT NULL)
		AND (SELECT state FROM scans WHERE id = NEW.intent) IS NOT 'intended'
BEGIN
	SELECT RAISE(ABORT, 'the scan is not waiting to be started');
END;

CREATE TRIGGER attempts_scan_sent AFTER UPDATE OF state ON attempts WHEN NEW.intent IS NOT NULL AND NEW.state = 'sending'
BEGIN
	UPDATE scans SET state = 'unknown' WHERE id = NEW.intent;
END;

CREATE TRIGGER attempts_scan_refunded AFTER UPDATE OF state ON attempts
	WHEN NEW.intent IS NOT NULL AND OLD.state = 'sending' AND NEW.state = 'refunded'
BEGIN
	UPDATE scans SET state = 'intended' WHERE id = NEW.intent AND state = 'unknown';
END;

CREATE TRIGGER scans_begin BEFORE INSERT ON scans WHEN NEW.state <> 'intended' OR NEW.scan <> ''
BEGIN
	SELECT RAISE(ABORT, 'a scan begins as intended, without an id');
END;

CREATE TRIGGER scans_fixed BEFORE UPDATE OF id, run, due, step, find_by, mode, queries, wanted, price, intended ON scans
BEGIN
	SELECT RAISE(ABORT, 'the terms of a scan are fixed');
END;

CREATE TRIGGER scans_named BEFORE UPDATE OF scan ON scans WHEN OLD.scan <> '' AND NEW.scan <> OLD.scan
BEGIN
	SELECT RAISE(ABORT, 'the id of a scan is fixed');
END;

CREATE TRIGGER scans_course BEFORE UPDATE OF state ON scans
	WHEN OLD.state <> NEW.state AND (OLD.state, NEW.state) NOT IN (VALUES
		('intended', 'unknown'), ('intended', 'refused'),
		('unknown', 'intended'), ('unknown', 'refused'), ('unknown', 'not_created'),
		('unknown', 'running'), ('unknown', 'ended'), ('unknown', 'expired'), ('unknown', 'failed'),
		('running', 'ended'), ('running', 'expired'), ('running', 'failed'),
		('expired', 'ended'), ('expired', 'failed'))
BEGIN
	SELECT RAISE(ABORT, 'a scan does not go back');
END;

CREATE TRIGGER scans_found BEFORE UPDATE OF state ON scans
	WHEN NEW.scan = '' AND NEW.state IN ('running', 'ended', 'expired', 'failed')
BEGIN
	SELECT RAISE(ABORT, 'a scan that exists has an id');
END;

-- That nothing was started is told by the ledger.
CREATE TRIGGER scans_proof BEFORE UPDATE OF state ON scans
	WHEN NEW.state IN ('intended', 'refused') AND OLD.state <> NEW.state
		AND EXISTS (SELECT 1 FROM attempts WHERE intent = NEW.id AND state <> 'refunded')
	OR NEW.state = 'not_created' AND OLD.state <> NEW.state
		AND EXISTS (SELECT 1 FROM attempts WHERE intent = NEW.id AND state IN ('reserved', 'sending', 'unknown'))
BEGIN
	SELECT RAISE(ABORT, 'the ledger does not prove that no scan was started');
END;

CREATE TRIGGER scans_kept BEFORE DELETE ON scans
BEGIN
	SELECT RAISE(ABORT, 'a scan is kept');
END;
