-- Jobs that tell how they do: nothing has written the table of the first
-- version. Times ending in _ms are milliseconds since 1970.

DROP TABLE jobs;

CREATE TABLE jobs (
  id TEXT PRIMARY KEY,
  name TEXT NOT NULL,
  state TEXT NOT NULL CHECK (state IN ('running', 'finished', 'lost')),
  request TEXT NOT NULL,
  source TEXT NOT NULL,
  reason TEXT NOT NULL,
  revision INTEGER NOT NULL,
  created_ms INTEGER NOT NULL,
  seen_ms INTEGER NOT NULL
) STRICT;
CREATE INDEX jobs_by_time ON jobs (created_ms DESC, id);
CREATE INDEX jobs_by_sight ON jobs (seen_ms) WHERE state = 'running';

CREATE TABLE job_revisions (
  job TEXT NOT NULL REFERENCES jobs (id),
  revision INTEGER NOT NULL,
  plan INTEGER REFERENCES plans (id),
  reason TEXT NOT NULL,
  rejected TEXT NOT NULL,
  created_ms INTEGER NOT NULL,
  adopted_ms INTEGER NOT NULL,
  PRIMARY KEY (job, revision)
) STRICT;

CREATE TABLE job_ranks (
  job TEXT NOT NULL REFERENCES jobs (id),
  rank INTEGER NOT NULL,
  device TEXT NOT NULL,
  kind TEXT NOT NULL,
  host TEXT NOT NULL,
  seen_ms INTEGER NOT NULL,
  PRIMARY KEY (job, rank)
) STRICT;

-- How long steps took, by the plan under which they ran. `recent` are the last
-- of them in nanoseconds, with commas.
CREATE TABLE job_steps (
  job TEXT NOT NULL REFERENCES jobs (id),
  revision INTEGER NOT NULL,
  rank INTEGER NOT NULL,
  count INTEGER NOT NULL,
  recent TEXT NOT NULL,
  PRIMARY KEY (job, revision, rank)
) STRICT;
