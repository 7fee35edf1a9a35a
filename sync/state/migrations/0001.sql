-- The tables of all packages that share the state. Times are microseconds since 1970 in UTC, 0 for none.
-- Durations are microseconds. reserved_at is the service's time, by which periods turn; all others are this
-- machine's.

CREATE TABLE meta (
	key   TEXT PRIMARY KEY,
	value TEXT NOT NULL
) STRICT, WITHOUT ROWID;

CREATE TABLE runs (
	id        INTEGER PRIMARY KEY AUTOINCREMENT,
	run       TEXT NOT NULL UNIQUE,
	job       TEXT NOT NULL,
	trigger   TEXT NOT NULL,
	due       INTEGER NOT NULL,
	started   INTEGER NOT NULL,
	ended     INTEGER NOT NULL,
	status    TEXT NOT NULL,
	plan      TEXT NOT NULL,
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
	skipped   INTEGER NOT NULL DEFAULT 0, -- data calls, as fresh
	error     TEXT NOT NULL,
	-- Runs that may still change: those in progress, and paused or failed ones until they are superseded.
	-- Several of a job may be unfinished: those with a paid scan, the newest as the file has the job, and
	-- the newest with overrides.
	unfinished INTEGER NOT NULL DEFAULT 0 CHECK (unfinished IN (0, 1)),
	-- A run with flags that override the job does not count for what the job has covered.
	overridden INTEGER NOT NULL DEFAULT 0 CHECK (overridden IN (0, 1)),
	-- The run whose searches this one completes; '' for all others.
	rest_of TEXT NOT NULL DEFAULT '',
	-- The place of the run among those that somebody asked a schedule for; 0 for all others, and once it has ended. The
	-- next start continues it, because the command that asked for it may have ended.
	urgent INTEGER NOT NULL DEFAULT 0 CHECK (urgent >= 0),
	-- The due time before whose own run this one was resumed last, which happens once.
	resumed_for INTEGER NOT NULL DEFAULT 0,
	-- Its searches have ended: the data calls about the hits are queued, and its follow-ups are due.
	searched INTEGER NOT NULL DEFAULT 0 CHECK (searched IN (0, 1))
) STRICT;

-- The orders of clients of the interface, so that an order that is repeated starts no second run. key is the SHA-256 of
-- the client's name for it.
CREATE TABLE run_keys (
	key     BLOB PRIMARY KEY CHECK (length(key) = 32),
	run     TEXT NOT NULL REFERENCES runs (run),
	request TEXT NOT NULL
) STRICT, WITHOUT ROWID;

-- A due time has one run.
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
	-- A step knows what it covers, when its first page was asked for, and what it left.
	watermark TEXT NOT NULL DEFAULT '',
	began INTEGER NOT NULL DEFAULT 0,
	reused INTEGER NOT NULL DEFAULT 0,
	scan TEXT NOT NULL DEFAULT '',
	left_pages INTEGER NOT NULL DEFAULT -1,
	-- A step may wait for a scan that another step has started.
	joined INTEGER REFERENCES scans (id),
	-- A search counts the distinct hits that it has seen, and keeps what its own pages have
	-- shown of what `from` counts. One that buys what another left refers to the first of them.
	seen INTEGER NOT NULL DEFAULT 0,
	reading TEXT NOT NULL DEFAULT '',
	origin INTEGER REFERENCES steps (id),
	-- Hits of a search that could not be stored.
	unread INTEGER NOT NULL DEFAULT 0,
	-- When the oldest of its hits was published, 0 if unknown: how far back an order by date has reached.
	oldest INTEGER NOT NULL DEFAULT 0,
	-- The attempts at its next call that have failed and are made again, and when.
	failures INTEGER NOT NULL DEFAULT 0,
	refusals INTEGER NOT NULL DEFAULT 0,
	not_before INTEGER NOT NULL DEFAULT 0,
	-- Why the run goes on without the step, '' if it does not, and whether that is a cap, the credits or the clock.
	problem TEXT NOT NULL DEFAULT '',
	capped INTEGER NOT NULL DEFAULT 0 CHECK (capped IN (0, 1)),
	UNIQUE (run, ordinal)
) STRICT;

-- The ledger: one row per attempt at a call, reserved before it is sent. That of a free call has a price of 0.
CREATE TABLE attempts (
	id          INTEGER PRIMARY KEY AUTOINCREMENT,
	run         TEXT NOT NULL DEFAULT '',
	job         TEXT NOT NULL DEFAULT '',
	step        INTEGER NOT NULL DEFAULT 0,
	op          TEXT NOT NULL,
	entity      TEXT NOT NULL DEFAULT '',
	params      TEXT NOT NULL DEFAULT '',
	attempt     INTEGER NOT NULL DEFAULT 0,
	price       INTEGER NOT NULL DEFAULT 0 CHECK (price >= 0),
	state       TEXT NOT NULL CHECK (state = 'reserved' OR state = 'sending' OR state = 'charged' OR state = 'refunded' OR state = 'unknown'),
	day         TEXT NOT NULL,
	cycle       TEXT NOT NULL,
	caps        TEXT NOT NULL,
	reserved_at INTEGER NOT NULL,
	sent_at     INTEGER NOT NULL DEFAULT 0,
	settled_at  INTEGER NOT NULL DEFAULT 0,
	waited      INTEGER NOT NULL DEFAULT 0,
	http_status INTEGER NOT NULL DEFAULT 0,
	bytes       INTEGER NOT NULL DEFAULT 0,
	error       TEXT NOT NULL DEFAULT '',
	response    INTEGER,
	page_from   INTEGER,
	page_size   INTEGER,
	page_total  INTEGER,
	-- The ledger. Price is what the service asks for; a row that adjusts the books has
	-- none, and says in adjustment how many credits were spent (or with a minus bought) elsewhere.
	account TEXT NOT NULL DEFAULT '',
	intent INTEGER REFERENCES scans (id),
	adjustment INTEGER,
	-- A hold: the credits that the attempt sets aside for those that must follow it, and whether they still are. What
	-- is left of it is the amount minus the prices of the attempts that it pays for, which refer to it in hold. Their
	-- refunds go back to an open hold.
	aside INTEGER NOT NULL DEFAULT 0 CHECK (aside >= 0 AND (aside = 0 OR step > 0)),
	holding INTEGER NOT NULL DEFAULT 0 CHECK (holding IN (0, 1) AND holding <= aside),
	hold INTEGER REFERENCES attempts (id),
	-- What a day or a billing cycle holds follows from its bounds and from the times at which
	-- credits were reserved. So a change of the calendar, which gives days and cycles other
	-- bounds, neither forgets what was spent within them nor counts it twice. An attempt keeps
	-- the day and the cycle that it had; counts_at is the time for which it counts: that of
	-- its reservation, or of the hold that pays for it.
	counts_at INTEGER NOT NULL DEFAULT 0,
	-- The run in progress for whose requests it counts, if that is not the run that had queued the call.
	counts_for TEXT NOT NULL DEFAULT ''
) STRICT;

CREATE INDEX attempts_counts_for ON attempts (counts_for) WHERE counts_for <> '';

-- No column of it changes: else each step of an attempt would write the index again.
CREATE INDEX attempts_run ON attempts (run, price);

CREATE INDEX attempts_open ON attempts (id) WHERE state IN ('reserved', 'sending');

CREATE TRIGGER attempts_begin BEFORE INSERT ON attempts WHEN (NEW.price > 0 OR NEW.aside > 0)
	AND (NEW.state <> 'reserved' OR NEW.day = '' OR NEW.cycle = '' OR NEW.holding <> (NEW.aside > 0))
BEGIN
	SELECT RAISE(ABORT, 'a paid attempt begins as reserved, for a day and a cycle');
END;

CREATE TRIGGER attempts_course BEFORE UPDATE OF state ON attempts
	WHEN (OLD.state, NEW.state) NOT IN (VALUES
		('reserved', 'sending'), ('reserved', 'refunded'),
		('sending', 'charged'), ('sending', 'refunded'), ('sending', 'unknown'),
		('unknown', 'charged'), ('unknown', 'refunded'))
BEGIN
	SELECT RAISE(ABORT, 'an attempt is settled once');
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

-- The videos that any run has seen, and the first run that did.
CREATE TABLE seen (
	video TEXT PRIMARY KEY,
	run   INTEGER NOT NULL,
	-- The number of the run whose search covered the video first; -1 while no search that ended by
	-- itself, without flags that override the job, has returned it.
	covered INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

CREATE TABLE run_hits (
	run     INTEGER NOT NULL,
	step    INTEGER NOT NULL,
	video   TEXT NOT NULL,
	channel TEXT NOT NULL,
	value   REAL,
	page    INTEGER NOT NULL,
	rank    INTEGER NOT NULL,
	comments INTEGER,
	-- Hits that a job's enrich.where does not admit keep their rows and are not ranked.
	excluded INTEGER NOT NULL DEFAULT 0,
	PRIMARY KEY (run, step, video)
) STRICT, WITHOUT ROWID;

-- Data calls to be made, one for all jobs that want it. Its rank is its value, plus one for each day of
-- waiting, as of 1970: all ranks grow at the same pace.
CREATE TABLE tasks (
	id         INTEGER PRIMARY KEY AUTOINCREMENT,
	op         TEXT NOT NULL,
	entity     TEXT NOT NULL,
	value      REAL NOT NULL,
	max_age    INTEGER NOT NULL,
	-- The number of the requested items when the call was wanted, for kinds that change only in number.
	mark       INTEGER,
	since      INTEGER NOT NULL,
	wanted_at  INTEGER NOT NULL, -- the last time
	rank       REAL NOT NULL,
	not_before INTEGER NOT NULL DEFAULT 0, -- 0 unless it has failed
	-- Attempts that have failed and are made again after seconds, before the call as a whole has failed.
	failures   INTEGER NOT NULL DEFAULT 0,
	refusals   INTEGER NOT NULL DEFAULT 0,
	attempts   INTEGER NOT NULL DEFAULT 0,
	failed_at  INTEGER NOT NULL DEFAULT 0,
	reason     TEXT NOT NULL DEFAULT '',
	UNIQUE (op, entity)
) STRICT;

CREATE INDEX tasks_rank ON tasks (rank DESC, op, entity, not_before);

-- Not "> 0": SQLite would plan each query anew that compares not_before with a parameter, to see if that implies it.
CREATE INDEX tasks_retry ON tasks (not_before) WHERE not_before <> 0;

CREATE INDEX tasks_repeated ON tasks (not_before) WHERE failures > 0;

CREATE INDEX tasks_entity ON tasks (entity);

CREATE INDEX tasks_wanted ON tasks (wanted_at);

-- The jobs that want a call, and the runs that asked for it. The first one is named in the answer.
CREATE TABLE wants (
	id   INTEGER PRIMARY KEY,
	task INTEGER NOT NULL REFERENCES tasks (id) ON DELETE CASCADE,
	job  TEXT NOT NULL,
	run  TEXT NOT NULL,
	UNIQUE (task, job)
) STRICT;

CREATE INDEX wants_job ON wants (job);

-- The last answer about each entity, or that the service does not have it.
CREATE TABLE freshness (
	op       TEXT NOT NULL,
	entity   TEXT NOT NULL,
	response INTEGER NOT NULL,
	at       INTEGER NOT NULL,
	missing  INTEGER NOT NULL,
	retry_at INTEGER NOT NULL,
	mark INTEGER,
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

-- The time up to which searches of a job are covered; run is '' if it was set by hand.
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

-- What `from` counts at each endpoint, as learned from answers.
CREATE TABLE paging (
	op         TEXT PRIMARY KEY,
	reading    TEXT NOT NULL CHECK (reading IN ('page', 'offset')),
	learned_at INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

-- Answers that may be used again: those to calls without an id, which are the paid ones.
CREATE INDEX responses_again ON responses (op, params, received_at) WHERE outcome = 'charged' AND entity = '';

-- Differences between answers and the interface.
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

-- Renames that were carried out, and the account that they left to each name, under which its spending adds up.
CREATE TABLE renames (
	id  INTEGER PRIMARY KEY AUTOINCREMENT,
	old TEXT NOT NULL,
	new TEXT NOT NULL,
	at  INTEGER NOT NULL,
	UNIQUE (old, new)
) STRICT;

CREATE TABLE jobs (
	job     TEXT PRIMARY KEY,
	account TEXT NOT NULL UNIQUE
) STRICT, WITHOUT ROWID;

-- Refusals of the service, by the key that was refused. Until one ends, no call of its kind is made.
CREATE TABLE blocks (
	kind      TEXT NOT NULL,
	key       TEXT NOT NULL,
	reason    TEXT NOT NULL,
	since     INTEGER NOT NULL,
	until     INTEGER NOT NULL,
	PRIMARY KEY (kind, key)
) STRICT, WITHOUT ROWID;

-- Intents to start a scan, recorded before anything is sent, and their outcome.
CREATE TABLE scans (
	id        INTEGER PRIMARY KEY AUTOINCREMENT,
	run       TEXT NOT NULL,
	job       TEXT NOT NULL,
	due       INTEGER NOT NULL,
	step      INTEGER NOT NULL,
	find_by   TEXT NOT NULL,
	mode      TEXT NOT NULL,
	queries   TEXT NOT NULL,
	identity  TEXT NOT NULL, -- find_by, mode and the queries in order: what makes two scans the same
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
	polls     INTEGER NOT NULL,
	replaced INTEGER NOT NULL DEFAULT 0 -- a person has bought the same again while this one runs
) STRICT;

CREATE UNIQUE INDEX scans_id ON scans (scan) WHERE scan <> '';

CREATE INDEX scans_step ON scans (step);

CREATE UNIQUE INDEX attempts_intent ON attempts (intent) WHERE intent IS NOT NULL AND state <> 'refunded';

CREATE INDEX attempts_of_hold ON attempts (hold) WHERE hold IS NOT NULL;

CREATE UNIQUE INDEX attempts_holding ON attempts (step) WHERE holding = 1;

CREATE INDEX attempts_holding_run ON attempts (run) WHERE holding = 1;

CREATE TRIGGER attempts_covered BEFORE INSERT ON attempts WHEN NEW.hold IS NOT NULL AND NOT EXISTS (
	SELECT 1 FROM hold_rests h WHERE h.id = NEW.hold AND h.rest >= NEW.price
		AND (h.run, h.account, h.day, h.cycle) = (NEW.run, NEW.account, NEW.day, NEW.cycle))
BEGIN
	SELECT RAISE(ABORT, 'the hold does not cover the price');
END;

CREATE TRIGGER attempts_fixed BEFORE UPDATE OF id, run, job, account, price, day, cycle, reserved_at, intent, hold, aside, adjustment, counts_for ON attempts
BEGIN
	SELECT RAISE(ABORT, 'the terms of an attempt are fixed');
END;

CREATE TRIGGER attempts_release AFTER UPDATE OF state ON attempts WHEN NEW.state = 'refunded' AND NEW.holding = 1
BEGIN
	UPDATE attempts SET holding = 0 WHERE id = NEW.id;
END;

CREATE TRIGGER attempts_kept BEFORE DELETE ON attempts WHEN OLD.price > 0 OR OLD.aside > 0 OR OLD.adjustment IS NOT NULL
BEGIN
	SELECT RAISE(ABORT, 'a paid attempt is kept');
END;

CREATE TRIGGER attempts_released BEFORE UPDATE OF holding ON attempts WHEN OLD.holding = 0 AND NEW.holding = 1
BEGIN
	SELECT RAISE(ABORT, 'a hold that was released stays so');
END;

-- No scan is started without an intent, which is carried out by one attempt; by
-- another only after a refund. Once the attempt is marked as sent, it is unknown whether the scan
-- exists, until its answer is read.
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

-- The ledger proves that nothing was started.
CREATE TRIGGER scans_proof BEFORE UPDATE OF state ON scans
	WHEN NEW.state IN ('intended', 'refused') AND OLD.state <> NEW.state
		AND EXISTS (SELECT 1 FROM attempts WHERE intent = NEW.id AND state <> 'refunded')
	OR NEW.state = 'not_created' AND OLD.state <> NEW.state
		AND EXISTS (SELECT 1 FROM attempts WHERE intent = NEW.id AND state IN ('reserved', 'sending', 'unknown'))
BEGIN
	SELECT RAISE(ABORT, 'the ledger does not prove that no scan was started');
END;

CREATE INDEX attempts_step ON attempts (step) WHERE price > 0;

-- The credits for reading a scan whose start is not confirmed outlive its run: a person who finds the
-- scan wants to read it.
CREATE VIEW releasable_holds AS
	SELECT id, run, step FROM attempts WHERE holding = 1
		AND (state = 'refunded' OR NOT EXISTS (SELECT 1 FROM scans WHERE id = attempts.intent AND state = 'unknown'));

CREATE TRIGGER attempts_unconfirmed BEFORE UPDATE OF holding ON attempts WHEN OLD.holding = 1 AND NEW.holding = 0
	AND NOT EXISTS (SELECT 1 FROM releasable_holds WHERE id = OLD.id)
BEGIN
	SELECT RAISE(ABORT, 'the start of the scan of this hold is not confirmed');
END;

CREATE INDEX attempts_of_intent ON attempts (intent) WHERE intent IS NOT NULL;

CREATE TRIGGER scans_kept BEFORE DELETE ON scans
	WHEN OLD.state <> 'refused' OR EXISTS (SELECT 1 FROM attempts WHERE intent = OLD.id)
BEGIN
	SELECT RAISE(ABORT, 'a scan is kept');
END;

CREATE INDEX attempts_newest ON attempts (reserved_at) WHERE price > 0;

CREATE INDEX attempts_counted ON attempts (counts_at, account, state, price) WHERE price > 0;

CREATE INDEX attempts_adjusted ON attempts (counts_at, adjustment) WHERE adjustment IS NOT NULL;

-- The caps in force, as of the last reservation: what a day or a cycle may hold, within its bounds, and for a
-- job's also by its account; or what a run may hold, which has neither.
CREATE TABLE caps (
	scope   TEXT NOT NULL,
	period  TEXT NOT NULL,
	account TEXT NOT NULL,
	begins  INTEGER NOT NULL,
	ends    INTEGER NOT NULL,
	max     INTEGER NOT NULL CHECK (max >= 0)
) STRICT;

CREATE VIEW hold_rests AS
	SELECT id, run, step, account, day, cycle, reserved_at AS counts_at, aside
		- (SELECT coalesce(sum(price), 0) FROM attempts AS paid WHERE paid.hold = attempts.id AND paid.state <> 'refunded') AS rest
	FROM attempts WHERE holding = 1;

-- What counts against each cap. What the account of assistants, once:mcp:, holds counts for that of all requests by
-- hand, once:, too.
CREATE VIEW cap_sums AS
	SELECT *, CASE
		WHEN scope = 'run' THEN
			(SELECT coalesce(sum(price), 0) FROM attempts WHERE run = caps.period AND price > 0 AND state <> 'refunded')
			+ (SELECT coalesce(sum(rest), 0) FROM hold_rests WHERE run = caps.period)
		WHEN account = '' THEN
			(SELECT coalesce(sum(price), 0) FROM attempts
				WHERE price > 0 AND state <> 'refunded' AND counts_at >= caps.begins AND counts_at < caps.ends)
			+ (SELECT coalesce(sum(rest), 0) FROM hold_rests WHERE counts_at >= caps.begins AND counts_at < caps.ends)
			+ iif(scope = 'month', (SELECT coalesce(sum(adjustment), 0) FROM attempts
				WHERE adjustment IS NOT NULL AND counts_at >= caps.begins AND counts_at < caps.ends), 0)
		ELSE
			(SELECT coalesce(sum(price), 0) FROM attempts WHERE price > 0 AND state <> 'refunded'
				AND account IN (caps.account, iif(caps.account = 'once:', 'once:mcp:', caps.account))
				AND counts_at >= caps.begins AND counts_at < caps.ends)
			+ (SELECT coalesce(sum(rest), 0) FROM hold_rests
				WHERE account IN (caps.account, iif(caps.account = 'once:', 'once:mcp:', caps.account))
				AND counts_at >= caps.begins AND counts_at < caps.ends)
	END AS held FROM caps;

-- An attempt counts for the time of its reservation, or of the hold that pays for it and that the caps have allowed.
CREATE TRIGGER attempts_hold AFTER INSERT ON attempts WHEN NEW.price > 0 OR NEW.aside > 0
BEGIN
	UPDATE attempts SET counts_at = coalesce((SELECT reserved_at FROM attempts WHERE id = NEW.hold), NEW.reserved_at) WHERE id = NEW.id;
	SELECT RAISE(ABORT, 'cap exceeded') FROM cap_sums
		WHERE (NEW.hold IS NULL OR NEW.aside > 0) AND (scope = 'run' AND period = NEW.run
			OR begins <= NEW.reserved_at AND ends > NEW.reserved_at
			AND account IN ('', NEW.account, iif(NEW.account = 'once:mcp:', 'once:', ''))) AND held > max;
END;

CREATE TRIGGER attempts_adjust AFTER INSERT ON attempts WHEN NEW.adjustment IS NOT NULL
BEGIN
	UPDATE attempts SET counts_at = NEW.reserved_at WHERE id = NEW.id;
END;

CREATE TRIGGER attempts_placed BEFORE UPDATE OF counts_at ON attempts WHEN OLD.counts_at <> 0
BEGIN
	SELECT RAISE(ABORT, 'the time for which an attempt counts is fixed');
END;

CREATE INDEX runs_unfinished ON runs (job, id) WHERE unfinished = 1;

-- Due times whose runs have not begun: those of schedules, from when they come, and those of jobs with
-- `after`, from when their parent's searches have ended.
CREATE TABLE dues (
	job        TEXT NOT NULL,
	due        INTEGER NOT NULL, -- with `after` that of the parent's run
	trigger    TEXT NOT NULL,
	noted      INTEGER NOT NULL,
	not_before INTEGER NOT NULL DEFAULT 0,
	PRIMARY KEY (job, due)
) STRICT, WITHOUT ROWID;

-- What a job's month holds is summed over that job's attempts alone.
CREATE INDEX attempts_of_account ON attempts (account, counts_at, state, price) WHERE price > 0;

-- Changes of rows of the sources of the tables ops.*, in their order. A sink keeps the version up to which it
-- has them, and changes that all sinks have are removed. A row that changes several times has several changes:
-- to look for the earlier one costs more than to keep it.
CREATE TABLE ops_changes (
	version INTEGER PRIMARY KEY AUTOINCREMENT,
	source  TEXT NOT NULL CHECK (source = 'runs' OR source = 'steps' OR source = 'attempts' OR source = 'limits' OR source = 'marks' OR source = 'imported'),
	id      INTEGER NOT NULL
) STRICT;

CREATE TRIGGER ops_run_begins AFTER INSERT ON runs
BEGIN
	INSERT INTO ops_changes (source, id) VALUES ('runs', NEW.id);
END;

CREATE TRIGGER ops_run_changes AFTER UPDATE ON runs
BEGIN
	INSERT INTO ops_changes (source, id) VALUES ('runs', NEW.id);
END;

CREATE TRIGGER ops_run_renamed AFTER UPDATE OF job ON runs WHEN NEW.job <> OLD.job
BEGIN
	INSERT INTO ops_changes (source, id) SELECT 'steps', id FROM steps WHERE run = NEW.run;
END;

CREATE TRIGGER ops_step_begins AFTER INSERT ON steps
BEGIN
	INSERT INTO ops_changes (source, id) VALUES ('steps', NEW.id);
END;

CREATE TRIGGER ops_step_changes AFTER UPDATE ON steps
BEGIN
	INSERT INTO ops_changes (source, id) VALUES ('steps', NEW.id);
END;

CREATE TRIGGER ops_attempt_begins AFTER INSERT ON attempts
BEGIN
	INSERT INTO ops_changes (source, id) VALUES ('attempts', NEW.id);
END;

CREATE TRIGGER ops_attempt_changes AFTER UPDATE ON attempts
BEGIN
	INSERT INTO ops_changes (source, id) VALUES ('attempts', NEW.id);
END;

-- What a step costs follows from its attempts.
CREATE TRIGGER ops_step_reserves AFTER INSERT ON attempts WHEN NEW.price > 0 AND NEW.step <> 0
BEGIN
	INSERT INTO ops_changes (source, id) SELECT 'steps', id FROM steps WHERE id = NEW.step;
END;

CREATE TRIGGER ops_step_settles AFTER UPDATE OF state ON attempts WHEN NEW.price > 0 AND NEW.step <> 0 AND NEW.state = 'refunded'
BEGIN
	INSERT INTO ops_changes (source, id) SELECT 'steps', id FROM steps WHERE id = NEW.step;
END;

CREATE TRIGGER ops_limit_learned AFTER INSERT ON limits
BEGIN
	INSERT INTO ops_changes (source, id) VALUES ('limits', NEW.id);
END;

-- Which searches brought a video, which calls asked about it, and when a job last searched
-- for something.
CREATE INDEX run_hits_video ON run_hits (video);

CREATE INDEX attempts_entity ON attempts (entity) WHERE entity <> '';

CREATE INDEX attempts_page ON attempts (step) WHERE step > 0;

CREATE INDEX steps_searched ON steps (watermark, began) WHERE pages > 0;

-- A scan that may be under way is not started a second time, whatever wants it. A person may buy another beside
-- one that runs, but not while it is not known whether the same was started.
CREATE UNIQUE INDEX scans_live ON scans (identity)
	WHERE state IN ('intended', 'unknown') OR state = 'running' AND replaced = 0;

CREATE INDEX scans_same ON scans (identity);

CREATE TRIGGER scans_fixed BEFORE UPDATE OF id, run, due, step, find_by, mode, queries, identity, price, intended ON scans
BEGIN
	SELECT RAISE(ABORT, 'the terms of a scan are fixed');
END;

CREATE INDEX steps_scan ON steps (scan) WHERE scan <> '';

CREATE TRIGGER steps_joined BEFORE UPDATE OF joined ON steps
	WHEN OLD.joined IS NOT NULL OR NOT EXISTS (SELECT 1 FROM scans WHERE id = NEW.joined AND scan <> '')
BEGIN
	SELECT RAISE(ABORT, 'a step joins one scan, which the service has');
END;

-- Proof is an error answer, or that no byte left. Once the moment has passed without
-- either, only an operator who looked at the service can tell.
CREATE TRIGGER attempts_proof BEFORE UPDATE OF state ON attempts
	WHEN NEW.state = 'refunded' AND NEW.price > 0 AND (
		OLD.state = 'sending' AND NEW.sent_at <> 0 AND NEW.http_status < 400 AND (NEW.http_status NOT BETWEEN 200 AND 299 OR NEW.response IS NULL)
		OR OLD.state = 'unknown' AND (NEW.intent IS NULL OR NEW.error NOT LIKE 'operator: %'))
BEGIN
	SELECT RAISE(ABORT, 'a refund needs proof');
END;

CREATE INDEX steps_origin ON steps (origin) WHERE origin IS NOT NULL;

-- Notifications for each target, until they are delivered or too old.
CREATE TABLE notify_outbox (
	id        INTEGER PRIMARY KEY,
	event     TEXT NOT NULL, -- its id: an event has one row for each target
	kind      TEXT NOT NULL,
	target    TEXT NOT NULL,
	payload   TEXT NOT NULL, -- JSON
	created   INTEGER NOT NULL,
	next_try  INTEGER NOT NULL,
	tries     INTEGER NOT NULL DEFAULT 0,
	delivered INTEGER NOT NULL DEFAULT 0,
	UNIQUE (event, target)
) STRICT;

CREATE INDEX notify_waiting ON notify_outbox (target, id) WHERE delivered = 0;

-- The last notified state of each subject, so that a state is notified once.
CREATE TABLE notify_episodes (
	subject TEXT PRIMARY KEY,
	state   TEXT NOT NULL,
	since   INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

-- The rows of alerts that were seen, by the hash of their key.
CREATE TABLE alert_rows (
	alert TEXT NOT NULL,
	key   TEXT NOT NULL,
	seen  INTEGER NOT NULL,
	PRIMARY KEY (alert, key)
) STRICT, WITHOUT ROWID;

CREATE INDEX runs_job ON runs (job, id, status, overridden);

CREATE INDEX runs_status ON runs (status, id);

-- Jobs whose schedule a person has paused. until is 0 for a pause that only a person ends.
CREATE TABLE pauses (
	job   TEXT PRIMARY KEY,
	since INTEGER NOT NULL,
	until INTEGER NOT NULL,
	why   TEXT NOT NULL
) STRICT, WITHOUT ROWID;

-- Ids whose data was erased, as keyed hashes: see package forgotten. erased is 0 until the data is
-- gone from the journal and from all sinks.
CREATE TABLE forgotten (
	hash   BLOB PRIMARY KEY,
	kind   TEXT NOT NULL,
	at     INTEGER NOT NULL,
	erased INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

CREATE INDEX forgotten_unfinished ON forgotten (erased) WHERE erased = 0;

CREATE TRIGGER responses_fixed BEFORE UPDATE OF id, run, job, op, entity, params, received_at, encoding, sum, body ON responses
	WHEN (NEW.id, NEW.run, NEW.job, NEW.op, NEW.received_at) IS NOT (OLD.id, OLD.run, OLD.job, OLD.op, OLD.received_at)
		OR NOT EXISTS (SELECT 1 FROM forgotten WHERE erased = 0)
			AND ((NEW.entity, NEW.params) IS NOT (OLD.entity, OLD.params) OR length(NEW.body) > 0
				OR NEW.id > coalesce((SELECT CAST(value AS INTEGER) FROM meta WHERE key = 'journal pruned up to'), 0))
BEGIN
	SELECT RAISE(ABORT, 'an answer is never changed');
END;

-- What people think of videos: see package marks. Rows stay, so that sinks learn of a mark that was cleared;
-- video is NULL once it was forgotten. tags is a sorted JSON list.
CREATE TABLE marks (
	id      INTEGER PRIMARY KEY AUTOINCREMENT,
	video   TEXT UNIQUE,
	starred INTEGER NOT NULL DEFAULT 0 CHECK (starred IN (0, 1)),
	hidden  INTEGER NOT NULL DEFAULT 0 CHECK (hidden IN (0, 1)),
	tags    TEXT NOT NULL DEFAULT '[]',
	note    TEXT NOT NULL DEFAULT '',
	marked  INTEGER NOT NULL
) STRICT;

CREATE TRIGGER ops_mark_made AFTER INSERT ON marks
BEGIN
	INSERT INTO ops_changes (source, id) VALUES ('marks', NEW.id);
END;

CREATE TRIGGER ops_mark_changes AFTER UPDATE ON marks
BEGIN
	INSERT INTO ops_changes (source, id) VALUES ('marks', NEW.id);
END;

-- Videos that were seen before, by other means: see runs.Import. They count for answers after the given one. video is
-- NULL once it was forgotten.
CREATE TABLE imported (
	id         INTEGER PRIMARY KEY AUTOINCREMENT,
	video      TEXT UNIQUE,
	first_seen INTEGER NOT NULL,
	origin     TEXT NOT NULL,
	at         INTEGER NOT NULL,
	after      INTEGER NOT NULL
) STRICT;

CREATE TRIGGER ops_imported AFTER INSERT ON imported
BEGIN
	INSERT INTO ops_changes (source, id) VALUES ('imported', NEW.id);
END;

CREATE TRIGGER ops_imported_changes AFTER UPDATE ON imported
BEGIN
	INSERT INTO ops_changes (source, id) VALUES ('imported', NEW.id);
END;

-- The saved views of the page: names of its addresses.
CREATE TABLE views (
	id      INTEGER PRIMARY KEY AUTOINCREMENT,
	name    TEXT NOT NULL UNIQUE,
	address TEXT NOT NULL,
	saved   INTEGER NOT NULL
) STRICT;

INSERT INTO sqlite_sequence VALUES ('ops_changes', 1);
