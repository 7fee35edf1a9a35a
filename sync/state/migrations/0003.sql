-- What waits grows more valuable with time, all of it at the same pace: so its order is
-- fixed when it is queued. Rank is the value less the days from 1970 to since.
ALTER TABLE queue ADD COLUMN since INTEGER NOT NULL DEFAULT 0;
ALTER TABLE queue ADD COLUMN rank REAL NOT NULL DEFAULT 0;
UPDATE queue SET since = wanted_at, rank = value - wanted_at / 86400e6;
DROP INDEX queue_order;
CREATE INDEX queue_order ON queue (rank DESC, op, entity);

-- How many there were of what changes only in number, such as a video's comments, when
-- it was wanted and when it was answered: the same number needs no other answer.
ALTER TABLE queue ADD COLUMN mark INTEGER;
ALTER TABLE freshness ADD COLUMN mark INTEGER;
ALTER TABLE run_hits ADD COLUMN comments INTEGER;

-- What a step costs follows from the ledger.
ALTER TABLE steps DROP COLUMN credits;
CREATE INDEX attempts_step ON attempts (step) WHERE price > 0;
