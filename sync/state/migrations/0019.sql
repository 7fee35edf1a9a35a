-- What is to be told, to each target, until it was accepted or is too old.
CREATE TABLE notify_outbox (
	id        INTEGER PRIMARY KEY,
	event     TEXT NOT NULL, -- stable: an event is put in once for each target
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

-- What was told last of each subject, so that it is told once.
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
