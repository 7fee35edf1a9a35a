-- The periods that a call counts for are found among those that have not ended when it is
-- reserved, however many there were before.
DROP INDEX periods_ends;
CREATE INDEX periods_ends ON periods (ends);

DROP VIEW attempt_periods;
CREATE VIEW attempt_periods AS
	SELECT a.id, p.scope, p.period FROM attempts a CROSS JOIN periods p
		WHERE a.price > 0 AND p.ends > a.counts_at AND p.begins <= a.counts_at AND p.account IN ('', a.account)
	UNION ALL
	SELECT id, 'run', run FROM attempts WHERE price > 0 AND run <> '';

DROP VIEW hold_periods;
CREATE VIEW hold_periods AS
	SELECT h.id, p.scope, p.period FROM holds h CROSS JOIN periods p
		WHERE p.ends > h.made_at AND p.begins <= h.made_at AND p.account IN ('', h.account)
	UNION ALL
	SELECT id, 'run', run FROM holds WHERE run <> '';
