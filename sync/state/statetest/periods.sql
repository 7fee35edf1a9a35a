-- The periods of those calls, which the database counts itself.
INSERT INTO periods (scope, period, begins, ends)
	SELECT DISTINCT 'day', day, unixepoch(day) * 1000000, unixepoch(day, '+1 day') * 1000000 FROM attempts WHERE price > 0;
INSERT INTO periods (scope, period, begins, ends)
	SELECT DISTINCT 'month', cycle, unixepoch(cycle) * 1000000, unixepoch(cycle, '+1 month') * 1000000 FROM attempts WHERE price > 0;
INSERT INTO periods (scope, period, account, begins, ends)
	SELECT DISTINCT 'job_month', account || '/' || cycle, account, unixepoch(cycle) * 1000000, unixepoch(cycle, '+1 month') * 1000000
	FROM attempts WHERE price > 0;
INSERT INTO periods (scope, period) SELECT DISTINCT 'run', run FROM attempts WHERE price > 0;
