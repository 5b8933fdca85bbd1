-- Plans that the coordinator proposes to jobs by itself, and how often each rank was
-- heard of. `proposed` is 0: for the ranks to adopt; 1: awaits acceptance; 2: was
-- replaced by a later one before.

ALTER TABLE jobs ADD COLUMN auto_replan INTEGER NOT NULL DEFAULT 0;
ALTER TABLE job_revisions ADD COLUMN proposed INTEGER NOT NULL DEFAULT 0;
ALTER TABLE job_ranks ADD COLUMN beats INTEGER NOT NULL DEFAULT 0;
