-- The tables, for both databases. Words between @ are what their dialects call it
-- (CMakeLists.txt): @KEY@ is a text that compares bytewise, @ID@ an ascending primary
-- key; @STRICT@ ends a table, @BY_KEY@ one that is kept in the order of its key. Times
-- are milliseconds since 1970. Requests, progress, layers and device models are
-- serialised messages of ucudnn.v1. A change raises kSchemaVersion (schema.h).

-- `epoch` tells the database from every other; coordinators raise `writes` to see
-- whether they can write.
CREATE TABLE identity (
  epoch TEXT NOT NULL,
  writes @INT@ NOT NULL
) @STRICT@;
INSERT INTO identity (epoch, writes) VALUES (@RANDOM_TEXT@, 0);

-- `beats` tells how often an agent, a job or a rank was heard of (pulse.h).
CREATE TABLE agents (
  id @KEY@ PRIMARY KEY,
  host TEXT NOT NULL,
  version TEXT NOT NULL,
  state TEXT NOT NULL CHECK (state IN ('online', 'draining', 'gone')),
  registered_ms @INT@ NOT NULL,
  last_seen_ms @INT@ NOT NULL,
  beats @INT@ NOT NULL DEFAULT 0,
  machine_id TEXT NOT NULL DEFAULT ''
) @STRICT@;

-- Nodes that take no more tasks.
CREATE TABLE holds (
  agent @KEY@ PRIMARY KEY REFERENCES agents (id),
  what TEXT NOT NULL CHECK (what IN ('cordon', 'drain')),
  who TEXT NOT NULL,
  reason TEXT NOT NULL,
  since_ms @INT@ NOT NULL,
  deadline_ms @INT@ NOT NULL
) @STRICT@;

CREATE TABLE kinds (
  key @KEY@ PRIMARY KEY,
  model TEXT NOT NULL,
  units @INT@ NOT NULL,
  memory_bytes @INT@ NOT NULL,
  library TEXT NOT NULL
) @STRICT@;

CREATE TABLE devices (
  id @KEY@ PRIMARY KEY,
  agent @KEY@ NOT NULL REFERENCES agents (id),
  kind @KEY@ NOT NULL REFERENCES kinds (key),
  driver TEXT NOT NULL,
  state TEXT NOT NULL
    CHECK (state IN ('idle', 'busy', 'lost', 'deviating')),
  reason TEXT NOT NULL,
  last_seen_ms @INT@ NOT NULL
) @STRICT@;
CREATE INDEX devices_by_agent ON devices (agent);
CREATE INDEX devices_by_kind ON devices (kind);

CREATE TABLE networks (
  name @KEY@ PRIMARY KEY,
  revision @INT@ NOT NULL
) @STRICT@;

CREATE TABLE network_revisions (
  name @KEY@ NOT NULL REFERENCES networks (name),
  revision @INT@ NOT NULL,
  format TEXT NOT NULL CHECK (format IN ('csv', 'onnx')),
  source @BYTES@ NOT NULL,
  layers @BYTES@ NOT NULL,
  hash TEXT NOT NULL,
  created_ms @INT@ NOT NULL,
  PRIMARY KEY (name, revision)
) @STRICT@;
CREATE INDEX networks_by_hash ON network_revisions (hash);

-- `content` is a step's JSON as it was put, `outline` a serialised Step without
-- what it recorded, for lists and people.
CREATE TABLE steps (
  name @KEY@ PRIMARY KEY,
  revision @INT@ NOT NULL,
  hash TEXT NOT NULL,
  put_by TEXT NOT NULL,
  updated_ms @INT@ NOT NULL,
  outline @BYTES@ NOT NULL,
  content @BYTES@ NOT NULL
) @STRICT@;

-- `goal` is base/goal.h's; `driver` that of the last completion; `asked_by` the
-- caller who opened it.
CREATE TABLE tasks (
  id @ID@,
  kind @KEY@ NOT NULL,
  problem @KEY@ NOT NULL,
  batch @INT@ NOT NULL,
  max_workspace_bytes @INT@ NOT NULL,
  priority @INT@ NOT NULL,
  state TEXT NOT NULL
    CHECK (state IN ('pending', 'leased', 'done', 'failed', 'cancelled')),
  attempts @INT@ NOT NULL,
  failures @INT@ NOT NULL,
  lease_token @INT@ NOT NULL,
  agent @KEY@ NOT NULL,
  device @KEY@ NOT NULL,
  lease_until_ms @INT@ NOT NULL,
  error TEXT NOT NULL,
  created_ms @INT@ NOT NULL,
  finished_ms @INT@ NOT NULL,
  goal @KEY@ NOT NULL DEFAULT '',
  driver TEXT NOT NULL DEFAULT '',
  asked_by TEXT NOT NULL DEFAULT '',
  UNIQUE (kind, problem, batch, goal)
) @STRICT@;
-- The order in which tasks are leased.
CREATE INDEX open_tasks ON tasks (kind, priority DESC, id)
  WHERE state IN ('pending', 'leased');
CREATE INDEX open_tasks_by_caller ON tasks (asked_by)
  WHERE state IN ('pending', 'leased');
CREATE INDEX leases_by_end ON tasks (kind, lease_until_ms)
  WHERE state = 'leased';
CREATE INDEX leases_by_agent ON tasks (agent) WHERE state = 'leased';

-- All points of a kind's problem at one batch are in `body` (measured_batch.h).
-- What lists count is ahead of it, so that they need not read it.
CREATE TABLE measured_batches (
  kind @KEY@ NOT NULL,
  problem @KEY@ NOT NULL,
  batch @INT@ NOT NULL,
  points @INT@ NOT NULL,
  drivers @INT@ NOT NULL,
  driver TEXT NOT NULL,
  measured_ms @INT@ NOT NULL,
  body @BYTES@ NOT NULL,
  PRIMARY KEY (kind, problem, batch)
) @STRICT@;

-- The device model of each kind under each driver, and the order in which they
-- were taken in.
CREATE TABLE device_models (
  kind @KEY@ NOT NULL,
  driver @KEY@ NOT NULL,
  device TEXT NOT NULL,
  measured_ms @INT@ NOT NULL,
  sequence @INT@ NOT NULL,
  model @BYTES@ NOT NULL,
  PRIMARY KEY (kind, driver)
) @BY_KEY@;

-- Cross-checks, which every device of a kind measures in several rounds, and the
-- measurements of each device, in the order of `sequence`.
CREATE TABLE cross_checks (
  id @ID@,
  kind @KEY@ NOT NULL,
  problem @KEY@ NOT NULL,
  batch @INT@ NOT NULL,
  algorithm TEXT NOT NULL,
  math TEXT NOT NULL,
  precision_name TEXT NOT NULL,
  workspace_bytes @INT@ NOT NULL,
  UNIQUE (kind, problem, batch)
) @STRICT@;

CREATE TABLE cross_check_measurements (
  cross_check @INT@ NOT NULL REFERENCES cross_checks (id),
  device @KEY@ NOT NULL,
  round @INT@ NOT NULL,
  driver TEXT NOT NULL,
  time_ns @INT@ NOT NULL,
  spread_ns @INT@ NOT NULL,
  throttle TEXT NOT NULL,
  measured_ms @INT@ NOT NULL,
  sequence @INT@ NOT NULL DEFAULT 0,
  PRIMARY KEY (cross_check, device, round)
) @BY_KEY@;

-- Requests for plans that had to be measured for.
CREATE TABLE campaigns (
  id @ID@,
  key @KEY@ NOT NULL,
  request @BYTES@ NOT NULL,
  network_revision @INT@ NOT NULL,
  ended_before @INT@ NOT NULL,
  progress @BYTES@ NOT NULL,
  created_ms @INT@ NOT NULL,
  updated_ms @INT@ NOT NULL,
  finished_ms @INT@ NOT NULL
) @STRICT@;
CREATE INDEX campaigns_by_key ON campaigns (key, id);
CREATE INDEX running_campaigns ON campaigns (updated_ms)
  WHERE finished_ms = 0;

-- `body` is a plan as a serialised ucudnn.v1.Plan without its id. What lists and
-- jobs read is ahead of it, so that they need not read it: `outline` is the same
-- without kernels and memory plans. `used_ms`: when it was asked for last, to the
-- day.
CREATE TABLE plans (
  id @ID@,
  key @KEY@ NOT NULL UNIQUE,
  predicted_ns @INT@ NOT NULL,
  created_ms @INT@ NOT NULL,
  used_ms @INT@ NOT NULL,
  outline @BYTES@ NOT NULL,
  body @BYTES@ NOT NULL
) @STRICT@;

-- `asked_by` registered the job; what one caller stores is bounded by `ranks`.
CREATE TABLE jobs (
  id @KEY@ PRIMARY KEY,
  name TEXT NOT NULL,
  state TEXT NOT NULL CHECK (state IN ('running', 'finished', 'lost')),
  request @BYTES@ NOT NULL,
  source TEXT NOT NULL,
  reason TEXT NOT NULL,
  revision @INT@ NOT NULL,
  created_ms @INT@ NOT NULL,
  seen_ms @INT@ NOT NULL,
  beats @INT@ NOT NULL DEFAULT 0,
  auto_replan INTEGER NOT NULL DEFAULT 0,
  asked_by TEXT NOT NULL DEFAULT '',
  ranks INTEGER NOT NULL DEFAULT 0
) @STRICT@;
CREATE INDEX jobs_by_time ON jobs (created_ms DESC, id);
CREATE INDEX jobs_by_sight ON jobs (seen_ms) WHERE state = 'running';
CREATE INDEX jobs_by_caller ON jobs (asked_by, created_ms);

-- `proposed` is 0: for the ranks to adopt; 1: awaits acceptance; 2: was replaced by
-- a later one before.
CREATE TABLE job_revisions (
  job @KEY@ NOT NULL REFERENCES jobs (id),
  revision @INT@ NOT NULL,
  plan @INT@ REFERENCES plans (id),
  reason TEXT NOT NULL,
  rejected TEXT NOT NULL,
  created_ms @INT@ NOT NULL,
  adopted_ms @INT@ NOT NULL,
  proposed INTEGER NOT NULL DEFAULT 0,
  PRIMARY KEY (job, revision)
) @STRICT@;
CREATE INDEX job_revisions_by_plan ON job_revisions (plan);

CREATE TABLE job_ranks (
  job @KEY@ NOT NULL REFERENCES jobs (id),
  rank @INT@ NOT NULL,
  device TEXT NOT NULL,
  kind TEXT NOT NULL,
  host TEXT NOT NULL,
  seen_ms @INT@ NOT NULL,
  beats @INT@ NOT NULL DEFAULT 0,
  PRIMARY KEY (job, rank)
) @STRICT@;

-- Step times by revision and rank. `recent` holds the kept times in nanoseconds,
-- separated by commas.
CREATE TABLE job_steps (
  job @KEY@ NOT NULL REFERENCES jobs (id),
  revision @INT@ NOT NULL,
  rank @INT@ NOT NULL,
  count @INT@ NOT NULL,
  recent TEXT NOT NULL,
  PRIMARY KEY (job, revision, rank)
) @STRICT@;

-- Who did what, when and why.
CREATE TABLE actions (
  id @ID@,
  made_ms @INT@ NOT NULL,
  who TEXT NOT NULL,
  what TEXT NOT NULL,
  object TEXT NOT NULL,
  reason TEXT NOT NULL,
  outcome TEXT NOT NULL
) @STRICT@;
