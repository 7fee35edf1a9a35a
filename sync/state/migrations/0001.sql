-- Times are microseconds since 1970 in UTC, 0 for none. Durations are microseconds.
-- reserved_at is the service's time, by which periods turn; all others are this machine's.

CREATE TABLE meta (
	key   TEXT PRIMARY KEY,
	value TEXT NOT NULL
) STRICT, WITHOUT ROWID;

CREATE TABLE runs (
	id        INTEGER PRIMARY KEY AUTOINCREMENT,
	run       TEXT NOT NULL UNIQUE,
	job       TEXT NOT NULL,
	cause     TEXT NOT NULL,
	due       INTEGER NOT NULL,
	started   INTEGER NOT NULL,
	ended     INTEGER NOT NULL,
	status    TEXT NOT NULL,
	plan      BLOB,
	config    TEXT NOT NULL,
	pages     INTEGER NOT NULL,
	hits      INTEGER NOT NULL,
	new_hits  INTEGER NOT NULL,
	requests  INTEGER NOT NULL,
	missing   INTEGER NOT NULL,
	failures  INTEGER NOT NULL,
	credits   INTEGER NOT NULL,
	refunded  INTEGER NOT NULL,
	waited    INTEGER NOT NULL,
	row_counts TEXT NOT NULL,
	error     TEXT NOT NULL
) STRICT;

-- A due instant is performed once, whoever tries to begin it again.
CREATE UNIQUE INDEX runs_due ON runs (job, due) WHERE due <> 0;

CREATE TABLE steps (
	id       INTEGER PRIMARY KEY AUTOINCREMENT,
	run      TEXT NOT NULL REFERENCES runs (run),
	ordinal  INTEGER NOT NULL,
	op       TEXT NOT NULL,
	item     TEXT NOT NULL,
	queries  TEXT NOT NULL,
	seeds    TEXT NOT NULL,
	params   TEXT NOT NULL,
	window   TEXT NOT NULL,
	next     INTEGER NOT NULL,
	pages    INTEGER NOT NULL,
	hits     INTEGER NOT NULL,
	new_hits INTEGER NOT NULL,
	total    INTEGER NOT NULL,
	stop     TEXT NOT NULL,
	credits  INTEGER NOT NULL,
	UNIQUE (run, ordinal)
) STRICT;

-- The ledger: one row per attempt on the wire. A paid one is reserved before it is
-- sent; a free one appears when it is settled, with a price of 0.
CREATE TABLE attempts (
	id          INTEGER PRIMARY KEY AUTOINCREMENT,
	run         TEXT NOT NULL,
	job         TEXT NOT NULL,
	step        INTEGER NOT NULL,
	op          TEXT NOT NULL,
	entity      TEXT NOT NULL,
	params      TEXT NOT NULL,
	attempt     INTEGER NOT NULL,
	price       INTEGER NOT NULL CHECK (price >= 0),
	state       TEXT NOT NULL CHECK (state IN ('reserved', 'sending', 'charged', 'refunded', 'unknown')),
	day         TEXT NOT NULL,
	cycle       TEXT NOT NULL,
	caps        TEXT NOT NULL,
	reserved_at INTEGER NOT NULL,
	sent_at     INTEGER NOT NULL,
	settled_at  INTEGER NOT NULL,
	waited      INTEGER NOT NULL,
	http_status INTEGER NOT NULL,
	bytes       INTEGER NOT NULL,
	error       TEXT NOT NULL,
	response    INTEGER,
	page_from   INTEGER,
	page_size   INTEGER,
	page_total  INTEGER
) STRICT;

CREATE INDEX attempts_run ON attempts (run, price, state, waited, sent_at);
CREATE INDEX attempts_open ON attempts (id) WHERE state IN ('reserved', 'sending');
CREATE INDEX attempts_paid ON attempts (reserved_at, state, price, day, cycle, job, run) WHERE price > 0;

-- What each period holds, and what it may hold (NULL: as much as it likes).
CREATE TABLE periods (
	scope  TEXT NOT NULL,
	period TEXT NOT NULL,
	held   INTEGER NOT NULL DEFAULT 0 CHECK (held >= 0),
	max    INTEGER CHECK (max >= 0),
	PRIMARY KEY (scope, period)
) STRICT, WITHOUT ROWID;

-- The periods that a paid attempt counts for.
CREATE VIEW attempt_periods AS
	SELECT id, price, state, 'day' AS scope, day AS period FROM attempts WHERE price > 0
	UNION ALL
	SELECT id, price, state, 'month', cycle FROM attempts WHERE price > 0
	UNION ALL
	SELECT id, price, state, 'job_month', job || '/' || cycle FROM attempts WHERE price > 0 AND job <> ''
	UNION ALL
	SELECT id, price, state, 'run', run FROM attempts WHERE price > 0 AND run <> '';

CREATE TRIGGER periods_begin BEFORE INSERT ON periods WHEN NEW.held <> 0
BEGIN
	SELECT RAISE(ABORT, 'a period begins with nothing held');
END;

CREATE TRIGGER periods_cap BEFORE UPDATE OF held ON periods WHEN NEW.held > OLD.held AND NEW.held > NEW.max
BEGIN
	SELECT RAISE(ABORT, 'cap exceeded');
END;

CREATE TRIGGER periods_kept BEFORE DELETE ON periods
BEGIN
	SELECT RAISE(ABORT, 'what a period holds is kept');
END;

CREATE TRIGGER attempts_begin BEFORE INSERT ON attempts WHEN NEW.price > 0 AND (NEW.state <> 'reserved' OR NEW.day = '' OR NEW.cycle = '')
BEGIN
	SELECT RAISE(ABORT, 'a paid attempt begins as reserved, for a day and a cycle');
END;

CREATE TRIGGER attempts_hold AFTER INSERT ON attempts WHEN NEW.price > 0
BEGIN
	INSERT INTO periods (scope, period)
		SELECT scope, period FROM attempt_periods WHERE id = NEW.id
		ON CONFLICT DO NOTHING;
	UPDATE periods SET held = held + NEW.price
		WHERE (scope, period) IN (SELECT scope, period FROM attempt_periods WHERE id = NEW.id);
END;

CREATE TRIGGER attempts_fixed BEFORE UPDATE OF id, run, job, price, day, cycle, reserved_at ON attempts
BEGIN
	SELECT RAISE(ABORT, 'the terms of an attempt are fixed');
END;

CREATE TRIGGER attempts_course BEFORE UPDATE OF state ON attempts
	WHEN (OLD.state, NEW.state) NOT IN (VALUES
		('reserved', 'sending'), ('reserved', 'refunded'),
		('sending', 'charged'), ('sending', 'refunded'), ('sending', 'unknown'),
		('unknown', 'charged'), ('unknown', 'refunded'))
BEGIN
	SELECT RAISE(ABORT, 'an attempt is settled once');
END;

-- Proof is an error answer, or that no byte left.
CREATE TRIGGER attempts_proof BEFORE UPDATE OF state ON attempts
	WHEN OLD.state = 'sending' AND NEW.state = 'refunded' AND NEW.http_status < 400 AND NEW.sent_at <> 0
BEGIN
	SELECT RAISE(ABORT, 'a refund needs proof');
END;

CREATE TRIGGER attempts_release AFTER UPDATE OF state ON attempts WHEN NEW.state = 'refunded' AND NEW.price > 0
BEGIN
	UPDATE periods SET held = held - NEW.price
		WHERE (scope, period) IN (SELECT scope, period FROM attempt_periods WHERE id = NEW.id);
END;

CREATE TRIGGER attempts_kept BEFORE DELETE ON attempts WHEN OLD.price > 0
BEGIN
	SELECT RAISE(ABORT, 'a paid attempt is kept');
END;

-- The journal. It is complete in itself: the sinks' rows follow from it and the
-- decoder alone. The body comes last, so that the rest is read without it.
CREATE TABLE responses (
	id          INTEGER PRIMARY KEY AUTOINCREMENT,
	run         TEXT NOT NULL,
	job         TEXT NOT NULL,
	step        INTEGER NOT NULL,
	op          TEXT NOT NULL,
	entity      TEXT NOT NULL,
	params      TEXT NOT NULL,
	item        TEXT NOT NULL,
	page        INTEGER NOT NULL,
	rank_base   INTEGER NOT NULL,
	sent_at     INTEGER NOT NULL,
	received_at INTEGER NOT NULL,
	http_status INTEGER NOT NULL,
	outcome     TEXT NOT NULL,
	missing     INTEGER NOT NULL DEFAULT 0,
	retry_at    INTEGER NOT NULL DEFAULT 0,
	encoding    TEXT NOT NULL,
	sum         BLOB NOT NULL,
	body        BLOB NOT NULL
) STRICT;

CREATE TRIGGER responses_fixed BEFORE UPDATE OF id, run, job, op, entity, params, received_at, encoding, sum, body ON responses
BEGIN
	SELECT RAISE(ABORT, 'an answer is never changed');
END;

-- Which videos were ever seen, and in which run first.
CREATE TABLE seen (
	video TEXT PRIMARY KEY,
	run   INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

CREATE TABLE run_hits (
	run     INTEGER NOT NULL,
	step    INTEGER NOT NULL,
	video   TEXT NOT NULL,
	channel TEXT NOT NULL,
	value   REAL,
	page    INTEGER NOT NULL,
	rank    INTEGER NOT NULL,
	PRIMARY KEY (run, step, video)
) STRICT, WITHOUT ROWID;

-- What is to be asked, over all jobs.
CREATE TABLE queue (
	op         TEXT NOT NULL,
	entity     TEXT NOT NULL,
	run        TEXT NOT NULL,
	job        TEXT NOT NULL,
	value      REAL NOT NULL,
	max_age    INTEGER NOT NULL,
	attempts   INTEGER NOT NULL DEFAULT 0,
	not_before INTEGER NOT NULL,
	wanted_at  INTEGER NOT NULL,
	failed_at  INTEGER NOT NULL DEFAULT 0,
	reason     TEXT NOT NULL DEFAULT '',
	PRIMARY KEY (op, entity)
) STRICT, WITHOUT ROWID;

CREATE INDEX queue_order ON queue (value DESC, op, entity);

-- What is known, since when, and of what it is known that it does not exist.
CREATE TABLE freshness (
	op       TEXT NOT NULL,
	entity   TEXT NOT NULL,
	response INTEGER NOT NULL,
	at       INTEGER NOT NULL,
	missing  INTEGER NOT NULL,
	retry_at INTEGER NOT NULL,
	PRIMARY KEY (op, entity)
) STRICT, WITHOUT ROWID;

CREATE TABLE limits (
	id               INTEGER PRIMARY KEY AUTOINCREMENT,
	observed_at      INTEGER NOT NULL,
	max_requests     INTEGER,
	window           INTEGER,
	remaining        INTEGER,
	reset_at         INTEGER,
	foreign_requests INTEGER
) STRICT;
