-- Hits that a job's enrich.where does not admit keep their rows and are not ranked.
ALTER TABLE run_hits ADD COLUMN excluded INTEGER NOT NULL DEFAULT 0;
