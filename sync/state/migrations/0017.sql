-- Whose search covered a video first: the number of its run, -1 while no search has that came
-- to its own end as the job's file has it, and 0 in rows of earlier versions, which say no
-- more than who saw the video first.
ALTER TABLE seen ADD COLUMN covered INTEGER NOT NULL DEFAULT 0;
