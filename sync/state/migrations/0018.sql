-- Hits of a search that could not be stored.
ALTER TABLE steps ADD COLUMN unread INTEGER NOT NULL DEFAULT 0;

-- Earlier versions took an answer for good that had no row of what was asked about: those
-- that they knew are judged when somebody relies on them.
ALTER TABLE freshness ADD COLUMN judged INTEGER NOT NULL DEFAULT 0;
