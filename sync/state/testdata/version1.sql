-- What an earlier program may have left: a run that ended, one that is paused, an
-- answer of each kind, and a task that waits.
INSERT INTO meta VALUES ('service', 'https://service.test'), ('version', 'v1'), ('first seen: ideas', '2026-11-01T00:00:00Z');

INSERT INTO runs (run, job, cause, due, started, ended, status, plan, config, pages, hits, new_hits, requests, missing, failures,
	credits, refunded, waited, row_counts, error) VALUES
	('run-1', 'ideas', 'schedule', 1794000000000000, 1794000001000000, 1794000060000000, 'ok', x'7b7d', 'abc', 1, 2, 2, 3, 0, 0, 2, 0, 5000, '{"outliers":2}', ''),
	('run-2', 'ideas', 'manual', 0, 1794100000000000, 1794100060000000, 'paused_budget', x'7b7d', 'abc', 0, 0, 0, 1, 0, 0, 2, 2, 0, 'null', 'the cap');

INSERT INTO steps (run, ordinal, op, item, queries, seeds, params, window, next, pages, hits, new_hits, total, stop, credits) VALUES
	('run-1', 0, 'search', '', '["chess"]', 'null', 'query=chess', '2026-11-01..', 1, 1, 2, 2, 2, 'short page', 2),
	('run-2', 0, 'search', 'go', '["go"]', 'null', 'query=go', '', 0, 0, 0, 0, -1, '', 0);

INSERT INTO attempts (run, job, step, op, entity, params, attempt, price, state, day, cycle, caps, reserved_at, sent_at, settled_at, waited,
	http_status, bytes, error) VALUES
	('run-1', 'ideas', 1, 'search', '', 'from=0&query=chess&size=40', 1, 2, 'reserved', '2026-11-06', '2026-11-01', '[]', 1794000002000000, 0, 0, 0, 0, 0, ''),
	('run-2', 'ideas', 2, 'search', '', 'from=0&query=go&size=40', 1, 2, 'reserved', '2026-11-07', '2026-11-01', '[]', 1794100002000000, 0, 0, 0, 0, 0, ''),
	('run-2', 'ideas', 2, 'search', '', 'from=0&query=go&size=40', 2, 2, 'reserved', '2026-11-07', '2026-11-01', '[]', 1794100004000000, 0, 0, 0, 0, 0, ''),
	('run-1', 'ideas', 0, 'details', 'video-00001', '', 1, 0, 'refunded', '', '', '', 0, 1794000004000000, 1794000005000000, 0, 404, 50, 'not_found');

UPDATE periods SET max = 100 WHERE scope = 'month';
UPDATE attempts SET state = 'sending', sent_at = reserved_at + 1 WHERE price > 0;
UPDATE attempts SET state = 'charged', settled_at = sent_at + 1, http_status = 200, bytes = 11, response = 1, page_from = 0, page_size = 40, page_total = 2 WHERE id = 1;
UPDATE attempts SET state = 'unknown', settled_at = sent_at + 1, error = 'lost' WHERE id = 2;
UPDATE attempts SET state = 'refunded', settled_at = sent_at + 1, http_status = 429, error = 'limited' WHERE id = 3;

INSERT INTO responses (run, job, step, op, entity, params, item, page, rank_base, sent_at, received_at, http_status, outcome, encoding, sum, body) VALUES
	('run-1', 'ideas', 1, 'search', '', 'from=0&query=chess&size=40', '', 0, 0, 1794000002000001, 1794000002000002, 200, 'charged', '',
	x'723b75472cdd38d74a085a0d3839783a6009cf0b0ca8e7fbdbd6948c5aff0222', CAST('{"hits":[]}' AS BLOB));

INSERT INTO seen VALUES ('video-00001', 1);
INSERT INTO run_hits VALUES (1, 1, 'video-00001', 'channel', 2.5, 0, 1);
INSERT INTO queue (op, entity, run, job, value, max_age, not_before, wanted_at) VALUES ('comments', 'video-00001', 'run-1', 'ideas', 2.5, 0, 0, 4000000000000000);
INSERT INTO freshness VALUES ('details', 'video-00001', 0, 1794000005000000, 1, 1794600005000000);
INSERT INTO limits (observed_at, max_requests, window, remaining, reset_at, foreign_requests) VALUES (1794000005000000, 10, 60000000, 9, NULL, NULL);
