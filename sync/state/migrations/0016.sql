-- A search counts the distinct hits that it has seen, and keeps what its own pages have
-- shown of what `from` counts. One that buys what another left refers to the first of them.
ALTER TABLE steps ADD COLUMN seen INTEGER NOT NULL DEFAULT 0;
ALTER TABLE steps ADD COLUMN reading TEXT NOT NULL DEFAULT '';
ALTER TABLE steps ADD COLUMN origin INTEGER REFERENCES steps (id);
UPDATE steps SET seen = hits;
CREATE INDEX steps_origin ON steps (origin) WHERE origin IS NOT NULL;

-- The run whose searches this one completes.
ALTER TABLE runs ADD COLUMN rest_of TEXT NOT NULL DEFAULT '';
CREATE INDEX runs_rest_of ON runs (rest_of) WHERE rest_of <> '';

-- Earlier versions took one odd page for a proof of what `from` counts: it is learned anew.
DELETE FROM paging;
ALTER TABLE paging ADD COLUMN evidence TEXT NOT NULL DEFAULT '';
