-- The tables behind the ports of coordinator/store. Times are milliseconds since
-- 1970; keys compare bytewise.

CREATE TABLE agents (
  id TEXT COLLATE "C" PRIMARY KEY,
  host TEXT NOT NULL,
  version TEXT NOT NULL,
  state TEXT NOT NULL CHECK (state IN ('online', 'draining', 'gone')),
  registered_ms BIGINT NOT NULL,
  last_seen_ms BIGINT NOT NULL
);

CREATE TABLE kinds (
  key TEXT COLLATE "C" PRIMARY KEY,
  model TEXT NOT NULL,
  units BIGINT NOT NULL,
  memory_bytes BIGINT NOT NULL,
  library TEXT NOT NULL
);

CREATE TABLE devices (
  id TEXT COLLATE "C" PRIMARY KEY,
  agent TEXT COLLATE "C" NOT NULL REFERENCES agents (id),
  kind TEXT COLLATE "C" NOT NULL REFERENCES kinds (key),
  driver TEXT NOT NULL,
  state TEXT NOT NULL
    CHECK (state IN ('idle', 'busy', 'lost', 'deviating')),
  reason TEXT NOT NULL,
  last_seen_ms BIGINT NOT NULL
);
CREATE INDEX devices_by_agent ON devices (agent);
CREATE INDEX devices_by_kind ON devices (kind);

CREATE TABLE networks (
  name TEXT COLLATE "C" PRIMARY KEY,
  revision BIGINT NOT NULL
);

CREATE TABLE network_revisions (
  name TEXT COLLATE "C" NOT NULL REFERENCES networks (name),
  revision BIGINT NOT NULL,
  format TEXT NOT NULL CHECK (format IN ('csv', 'onnx')),
  source BYTEA NOT NULL,
  layers TEXT NOT NULL,
  hash TEXT NOT NULL,
  created_ms BIGINT NOT NULL,
  PRIMARY KEY (name, revision)
);

CREATE TABLE tasks (
  id BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  kind TEXT COLLATE "C" NOT NULL,
  problem TEXT COLLATE "C" NOT NULL,
  batch BIGINT NOT NULL,
  max_workspace_bytes BIGINT NOT NULL,
  priority BIGINT NOT NULL,
  state TEXT NOT NULL
    CHECK (state IN ('pending', 'leased', 'done', 'failed')),
  attempts BIGINT NOT NULL,
  failures BIGINT NOT NULL,
  lease_token BIGINT NOT NULL,
  agent TEXT COLLATE "C" NOT NULL,
  device TEXT COLLATE "C" NOT NULL,
  lease_until_ms BIGINT NOT NULL,
  error TEXT NOT NULL,
  created_ms BIGINT NOT NULL,
  finished_ms BIGINT NOT NULL,
  UNIQUE (kind, problem, batch)
);
-- The order in which tasks are leased.
CREATE INDEX open_tasks ON tasks (kind, priority DESC, id)
  WHERE state IN ('pending', 'leased');
CREATE INDEX leases_by_end ON tasks (kind, lease_until_ms)
  WHERE state = 'leased';
CREATE INDEX leases_by_agent ON tasks (agent) WHERE state = 'leased';

CREATE TABLE measurements (
  kind TEXT COLLATE "C" NOT NULL,
  problem TEXT COLLATE "C" NOT NULL,
  batch BIGINT NOT NULL,
  algorithm TEXT COLLATE "C" NOT NULL,
  math TEXT COLLATE "C" NOT NULL,
  precision_name TEXT COLLATE "C" NOT NULL,
  workspace_bytes BIGINT NOT NULL,
  time_ns BIGINT NOT NULL,
  spread_ns BIGINT NOT NULL,
  repeats BIGINT NOT NULL,
  device TEXT NOT NULL,
  driver TEXT NOT NULL,
  measured_ms BIGINT NOT NULL,
  PRIMARY KEY (kind, problem, batch, algorithm, math, precision_name,
               workspace_bytes)
);

CREATE TABLE plans (
  id BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  revision BIGINT NOT NULL,
  key TEXT COLLATE "C" NOT NULL UNIQUE,
  request TEXT NOT NULL,
  body TEXT NOT NULL,
  created_ms BIGINT NOT NULL
);

CREATE TABLE jobs (
  id TEXT COLLATE "C" PRIMARY KEY,
  name TEXT NOT NULL,
  plan BIGINT REFERENCES plans (id),
  revision BIGINT NOT NULL,
  state TEXT NOT NULL,
  body TEXT NOT NULL,
  created_ms BIGINT NOT NULL,
  updated_ms BIGINT NOT NULL
);
CREATE INDEX jobs_by_time ON jobs (created_ms DESC, id);
