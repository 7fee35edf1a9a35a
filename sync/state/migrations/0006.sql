-- What a day or a billing cycle holds follows from its bounds and from the times at which
-- credits were reserved. So a change of the calendar, which gives days and cycles other
-- bounds, neither forgets what was spent within them nor counts it twice. An attempt keeps
-- the day and the cycle that it had; counts_at is the time for which it counts: that of
-- its reservation, or of the hold that pays for it.
ALTER TABLE attempts ADD COLUMN counts_at INTEGER NOT NULL DEFAULT 0;
UPDATE attempts SET counts_at = coalesce((SELECT made_at FROM holds WHERE id = attempts.hold), reserved_at)
	WHERE price > 0 OR adjustment IS NOT NULL AND entity <> 'carried over'; -- which said the same in another way

DROP INDEX attempts_paid;
CREATE INDEX attempts_newest ON attempts (reserved_at) WHERE price > 0;
CREATE INDEX attempts_counted ON attempts (counts_at, account, state, price) WHERE price > 0;
DROP INDEX attempts_adjusted;
CREATE INDEX attempts_adjusted ON attempts (counts_at, adjustment) WHERE adjustment IS NOT NULL;

DROP TRIGGER attempts_hold;
DROP TRIGGER attempts_adjust;
DROP VIEW attempt_periods;
DROP VIEW hold_periods;
DROP VIEW hold_rests;
DROP TABLE periods;
DELETE FROM meta WHERE key = 'billing cycles';

-- What each period holds, and what it may hold (NULL: as much as it likes). A day or a
-- cycle has bounds, and an account if it is a job's; a run has neither. All rows have the
-- bounds of one calendar. What they hold can be counted anew at any time, so a row
-- may be deleted.
CREATE TABLE periods (
	scope    TEXT NOT NULL,
	period   TEXT NOT NULL,
	account  TEXT NOT NULL DEFAULT '',
	begins   INTEGER NOT NULL DEFAULT 0,
	ends     INTEGER NOT NULL DEFAULT 0 CHECK (ends >= begins),
	held     INTEGER NOT NULL DEFAULT 0 CHECK (held >= 0),
	adjusted INTEGER NOT NULL DEFAULT 0,
	max      INTEGER CHECK (max >= 0),
	PRIMARY KEY (scope, period)
) STRICT, WITHOUT ROWID;

CREATE INDEX periods_ends ON periods (ends) WHERE ends > 0;

CREATE VIEW hold_rests AS
	SELECT *, made_at AS counts_at, amount - (SELECT coalesce(sum(price), 0) FROM attempts WHERE hold = holds.id AND state <> 'refunded') AS rest
	FROM holds WHERE open = 1;

-- The periods that a paid attempt, and a hold, counts for.
CREATE VIEW attempt_periods AS
	SELECT a.id, p.scope, p.period FROM attempts a CROSS JOIN periods p
		WHERE a.price > 0 AND p.ends > 0 AND p.ends > a.counts_at AND p.begins <= a.counts_at AND p.account IN ('', a.account)
	UNION ALL
	SELECT id, 'run', run FROM attempts WHERE price > 0 AND run <> '';

CREATE VIEW hold_periods AS
	SELECT h.id, p.scope, p.period FROM holds h CROSS JOIN periods p
		WHERE p.ends > 0 AND p.ends > h.made_at AND p.begins <= h.made_at AND p.account IN ('', h.account)
	UNION ALL
	SELECT id, 'run', run FROM holds WHERE run <> '';

-- What each period must hold.
CREATE VIEW period_sums AS
	SELECT p.scope, p.period,
		(SELECT coalesce(sum(price), 0) FROM attempts
			WHERE price > 0 AND state <> 'refunded' AND counts_at >= p.begins AND counts_at < p.ends AND p.account IN ('', account))
		+ (SELECT coalesce(sum(rest), 0) FROM hold_rests
			WHERE counts_at >= p.begins AND counts_at < p.ends AND p.account IN ('', account)) AS held,
		iif(p.scope = 'month', (SELECT coalesce(sum(adjustment), 0) FROM attempts
			WHERE adjustment IS NOT NULL AND counts_at >= p.begins AND counts_at < p.ends), 0) AS adjusted
	FROM periods p WHERE p.scope <> 'run'
	UNION ALL
	SELECT 'run', p.period,
		(SELECT coalesce(sum(price), 0) FROM attempts WHERE run = p.period AND price > 0 AND state <> 'refunded')
		+ (SELECT coalesce(sum(rest), 0) FROM hold_rests WHERE run = p.period), 0
	FROM periods p WHERE p.scope = 'run';

CREATE TRIGGER periods_begin BEFORE INSERT ON periods WHEN NEW.held <> 0 OR NEW.adjusted <> 0 OR NEW.max IS NOT NULL
BEGIN
	SELECT RAISE(ABORT, 'what a period holds is counted, and its cap is set after that');
END;

CREATE TRIGGER periods_count AFTER INSERT ON periods
BEGIN
	UPDATE periods SET (held, adjusted) = (SELECT held, adjusted FROM period_sums WHERE (scope, period) = (NEW.scope, NEW.period))
		WHERE (scope, period) = (NEW.scope, NEW.period);
END;

CREATE TRIGGER periods_cap BEFORE UPDATE OF held ON periods
	WHEN NEW.held > OLD.held AND NEW.held + NEW.adjusted > NEW.max
BEGIN
	SELECT RAISE(ABORT, 'cap exceeded');
END;

CREATE TRIGGER periods_fixed BEFORE UPDATE OF scope, period, account, begins, ends ON periods
BEGIN
	SELECT RAISE(ABORT, 'the bounds of a period are fixed');
END;

-- What pays for an attempt with a hold has been counted together with the hold.
CREATE TRIGGER attempts_hold AFTER INSERT ON attempts WHEN NEW.price > 0
BEGIN
	UPDATE attempts SET counts_at = coalesce((SELECT made_at FROM holds WHERE id = NEW.hold), NEW.reserved_at) WHERE id = NEW.id;
	UPDATE periods SET held = held + NEW.price
		WHERE NEW.hold IS NULL AND (scope, period) IN (SELECT scope, period FROM attempt_periods WHERE id = NEW.id);
END;

CREATE TRIGGER attempts_adjust AFTER INSERT ON attempts WHEN NEW.adjustment IS NOT NULL
BEGIN
	UPDATE attempts SET counts_at = NEW.reserved_at WHERE id = NEW.id;
	UPDATE periods SET adjusted = adjusted + NEW.adjustment
		WHERE scope = 'month' AND ends > NEW.reserved_at AND begins <= NEW.reserved_at;
END;

CREATE TRIGGER attempts_placed BEFORE UPDATE OF counts_at ON attempts WHEN OLD.counts_at <> 0
BEGIN
	SELECT RAISE(ABORT, 'the time for which an attempt counts is fixed');
END;
