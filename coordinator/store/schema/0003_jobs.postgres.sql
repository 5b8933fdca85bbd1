-- Jobs with their revisions, ranks and step times. No version has written the
-- first table of jobs.

DROP TABLE jobs;

CREATE TABLE jobs (
  id TEXT COLLATE "C" PRIMARY KEY,
  name TEXT NOT NULL,
  state TEXT NOT NULL CHECK (state IN ('running', 'finished', 'lost')),
  request TEXT NOT NULL,
  source TEXT NOT NULL,
  reason TEXT NOT NULL,
  revision BIGINT NOT NULL,
  created_ms BIGINT NOT NULL,
  seen_ms BIGINT NOT NULL
);
CREATE INDEX jobs_by_time ON jobs (created_ms DESC, id);
CREATE INDEX jobs_by_sight ON jobs (seen_ms) WHERE state = 'running';

CREATE TABLE job_revisions (
  job TEXT COLLATE "C" NOT NULL REFERENCES jobs (id),
  revision BIGINT NOT NULL,
  plan BIGINT REFERENCES plans (id),
  reason TEXT NOT NULL,
  rejected TEXT NOT NULL,
  created_ms BIGINT NOT NULL,
  adopted_ms BIGINT NOT NULL,
  PRIMARY KEY (job, revision)
);

CREATE TABLE job_ranks (
  job TEXT COLLATE "C" NOT NULL REFERENCES jobs (id),
  rank BIGINT NOT NULL,
  device TEXT NOT NULL,
  kind TEXT NOT NULL,
  host TEXT NOT NULL,
  seen_ms BIGINT NOT NULL,
  PRIMARY KEY (job, rank)
);

-- Step times by revision and rank. `recent` holds the kept times in nanoseconds,
-- separated by commas.
CREATE TABLE job_steps (
  job TEXT COLLATE "C" NOT NULL REFERENCES jobs (id),
  revision BIGINT NOT NULL,
  rank BIGINT NOT NULL,
  count BIGINT NOT NULL,
  recent TEXT NOT NULL,
  PRIMARY KEY (job, revision, rank)
);
