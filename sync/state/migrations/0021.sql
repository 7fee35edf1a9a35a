-- Jobs whose schedule a person has paused. until is 0 for a pause that only a person ends.
CREATE TABLE pauses (
	job   TEXT PRIMARY KEY,
	since INTEGER NOT NULL,
	until INTEGER NOT NULL,
	why   TEXT NOT NULL
) STRICT, WITHOUT ROWID;
