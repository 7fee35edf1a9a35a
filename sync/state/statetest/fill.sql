-- The history of a large installation, ending at :now. ?1 is the number of answers,
-- ?2 the number of queued calls, ?3 now in microseconds. A run is 100 answers: ten
-- pages of five hits, then 90 data calls. 40 jobs take turns.
CREATE TEMP TABLE n AS
	WITH RECURSIVE n (id) AS (SELECT 1 UNION ALL SELECT id + 1 FROM n WHERE id < ?1)
	SELECT id, (id - 1) / 100 AS run, (id - 1) % 100 AS place,
		?3 - (?1 - id + 1) * 21600000 AS at -- one call each 21.6 s, 4000 a day
	FROM n;

CREATE TEMP TABLE calls AS SELECT id, run, at, place,
	printf('018f0000-0000-7000-8000-%012d', run) AS run_id,
	printf('job-%02d', run % 40) AS job,
	iif(place < 10, run + 1, 0) AS step,
	iif(place < 10, 'search', (CASE WHEN place % 10 < 4 THEN 'details' WHEN place % 10 < 7 THEN 'comments' ELSE 'transcript' END)) AS op,
	iif(place < 10, '', printf('v%010d', id)) AS entity,
	iif(place < 10, printf('from=%d&query=topic+%d&size=40', place, run), '') AS params,
	iif(place >= 10 AND id % 50 = 0, 404, 200) AS status
FROM n;

INSERT INTO runs (id, run, job, trigger, due, started, ended, status, plan, config, pages, hits, new_hits,
		requests, missing, failures, credits, refunded, waited, row_counts, error)
	SELECT run + 1, run_id, job, 'schedule', min(at), min(at), max(at) + 1000000, 'ok', '{"pages":10,"cap":60}', 'config',
		sum(place < 10), 5 * sum(place < 10), 4 * sum(place < 10), count(*), sum(status = 404), 0, 2 * sum(place < 10), 0, 0, '{}', ''
	FROM calls GROUP BY run;

INSERT INTO steps (id, run, ordinal, op, item, queries, seeds, params, window, next, pages, hits, new_hits, total, stop,
		watermark, scan, began, reused, left_pages)
	SELECT run + 1, run_id, 0, 'search', '', printf('["topic %d"]', run), 'null', printf('query=topic+%d', run), '', sum(place < 10), sum(place < 10),
		5 * sum(place < 10), 4 * sum(place < 10), 5 * sum(place < 10), 'pages', printf('search topic %d', run), '', min(at), 0, -1
	FROM calls GROUP BY run;

INSERT INTO watermarks (job, key, at, run, set_at)
	SELECT job, printf('search topic %d', run), min(at), run_id, max(at) FROM calls GROUP BY run;

INSERT INTO meta (key, value) SELECT 'due times noted: ' || job, strftime('"%FT%TZ"', max(due) / 1000000, 'unixepoch') FROM runs GROUP BY job;

INSERT INTO responses (id, run, job, step, op, entity, params, item, page, rank_base, sent_at, received_at, http_status,
		outcome, missing, retry_at, encoding, sum, body)
	SELECT id, run_id, job, step, op, entity, params, '', iif(place < 10, place, 0), iif(place < 10, 5 * place, 0), at, at + 400000, status,
		iif(status = 404, 'refunded', 'charged'), status = 404, iif(status = 404, at + 2592000000000, 0), '', statetest_sum(body), CAST(body AS BLOB)
	FROM (SELECT *, CASE
		WHEN status = 404 THEN '{"status":"error","error":{"message":"not found"}}'
		WHEN op = 'search' THEN (SELECT printf('{"pagination":{"total":50,"from":%d,"size":40},"hits":[%s]}', place, group_concat(printf(
			'{"id":"v%010d","kind":"video","snippet":{"channelId":"UC%022d","title":"Video %d"},"statistics":{"viewCount":%d,"zScore":%d.5}}',
			run * 50 + place * 5 + hit, run, hit, 1000 + id, hit)))
			FROM (SELECT value AS hit FROM json_each('[0,1,2,3,4]')))
		WHEN op = 'details' THEN printf('{"ids":["%s"],"items":[{"id":"%s","snippet":{"title":"Video %d"},"statistics":{"viewCount":%d}}]}', entity, entity, id, id)
		WHEN op = 'comments' THEN printf('{"ids":["%s"],"items":[{"id":"%s","comments":[{"text":"comment %d"}]}]}', entity, entity, id)
		ELSE printf('{"ids":["%s"],"items":[{"id":"%s","events":[{"startMs":1,"text":"word %d"}]}]}', entity, entity, id)
	END AS body FROM calls);

INSERT INTO attempts (id, run, job, account, step, op, entity, params, attempt, price, state, day, cycle, caps, reserved_at, counts_at,
		sent_at, settled_at, waited, http_status, bytes, error, response, page_from, page_size, page_total)
	SELECT id, run_id, job, iif(step, job, ''), step, op, entity, params, 1, iif(step, 2, 0), iif(status = 404, 'refunded', 'charged'),
		iif(step, strftime('%F', at / 1000000, 'unixepoch'), ''), iif(step, strftime('%Y-%m-01', at / 1000000, 'unixepoch'), ''), iif(step, '[]', ''),
		iif(step, at, 0), iif(step, at, 0), at, at + 400000, 0, status, 300, iif(status = 404, 'not_found', ''), id,
		iif(step, place, NULL), iif(step, 40, NULL), iif(step, 50, NULL)
	FROM calls;

-- One search in 500 was lost.
INSERT INTO attempts (run, job, account, step, op, entity, params, attempt, price, state, day, cycle, caps, reserved_at, counts_at,
		sent_at, settled_at, waited, http_status, bytes, error)
	SELECT run_id, job, job, step, op, '', params || '&lost', 1, 2, 'unknown', strftime('%F', at / 1000000, 'unixepoch'),
		strftime('%Y-%m-01', at / 1000000, 'unixepoch'), '[]', at, at, at, at, 0, 0, 0, 'lost'
	FROM calls WHERE place = 9 AND run % 50 = 0;

INSERT INTO run_hits (run, step, video, channel, value, page, rank, comments)
	SELECT run + 1, run + 1, printf('v%010d', run * 50 + place * 5 + hit), printf('UC%022d', run), hit + 0.5, place, place * 5 + hit + 1, 10
	FROM calls, (SELECT value AS hit FROM json_each('[0,1,2,3,4]')) WHERE place < 10;

INSERT INTO seen (video, run, covered) SELECT video, min(run), min(run) FROM run_hits GROUP BY video;

INSERT INTO freshness (op, entity, response, at, missing, retry_at)
	SELECT op, entity, id, at + 400000, status = 404, iif(status = 404, at + 2592000000000, 0) FROM calls WHERE place >= 10;

INSERT INTO meta (key, value) VALUES ('drift counted up to', ?1) ON CONFLICT DO UPDATE SET value = excluded.value;

-- What waits was wanted within the last six days, one call in ten by two jobs; one in
-- twenty has failed before.
INSERT INTO tasks (op, entity, value, max_age, attempts, not_before, wanted_at, failed_at, reason, since, rank)
	SELECT iif(id % 3, 'details', 'transcript'), printf('q%010d', id), value, 604800000000, failed, iif(failed, ?3 + id * 1000, 0), at,
		iif(failed, at, 0), iif(failed, 'server', ''), at, value - at / 86400e6
	FROM (SELECT id, 1 + id % 3 - id % 40 / 1e6 AS value, id % 20 = 0 AS failed, ?3 - id % 518400 * 1000000 AS at
		FROM (WITH RECURSIVE m (id) AS (SELECT 1 UNION ALL SELECT id + 1 FROM m WHERE id < ?2) SELECT id FROM m))
	WHERE ?2 > 0;

INSERT INTO wants (task, job, run)
	SELECT id, printf('job-%02d', id % 40), printf('018f0000-0000-7000-8000-%012d', max(0, ?1 / 100 - 40 + id % 40)) FROM tasks;

INSERT INTO wants (task, job, run)
	SELECT task, printf('job-%02d', (CAST(substr(job, 5) AS INTEGER) + 1) % 40), run FROM wants WHERE task % 10 = 0;

DROP TABLE calls;
DROP TABLE n;
