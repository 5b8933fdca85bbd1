-- On whose behalf each job was registered, and its ranks, so that what one caller
-- stores is bounded.

ALTER TABLE jobs ADD COLUMN asked_by TEXT NOT NULL DEFAULT '';
ALTER TABLE jobs ADD COLUMN ranks INTEGER NOT NULL DEFAULT 0;
CREATE INDEX jobs_by_caller ON jobs (asked_by, created_ms);
