-- Jobs with their revisions, ranks and step times. No version has written the
-- first table of jobs.

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

-- Step times by revision and rank. `recent` holds the kept times in nanoseconds,
-- separated by commas.
CREATE TABLE job_steps (
  job TEXT NOT NULL REFERENCES jobs (id),
  revision INTEGER NOT NULL,
  rank INTEGER NOT NULL,
  count INTEGER NOT NULL,
  recent TEXT NOT NULL,
  PRIMARY KEY (job, revision, rank)
) STRICT;
