-- The tables behind the ports of coordinator/store. Times are milliseconds since
-- 1970; keys compare bytewise.

CREATE TABLE agents (
  id TEXT PRIMARY KEY,
  host TEXT NOT NULL,
  version TEXT NOT NULL,
  state TEXT NOT NULL CHECK (state IN ('online', 'draining', 'gone')),
  registered_ms INTEGER NOT NULL,
  last_seen_ms INTEGER NOT NULL
) STRICT;

CREATE TABLE kinds (
  key TEXT PRIMARY KEY,
  model TEXT NOT NULL,
  units INTEGER NOT NULL,
  memory_bytes INTEGER NOT NULL,
  library TEXT NOT NULL
) STRICT;

CREATE TABLE devices (
  id TEXT PRIMARY KEY,
  agent TEXT NOT NULL REFERENCES agents (id),
  kind TEXT NOT NULL REFERENCES kinds (key),
  driver TEXT NOT NULL,
  state TEXT NOT NULL
    CHECK (state IN ('idle', 'busy', 'lost', 'deviating')),
  reason TEXT NOT NULL,
  last_seen_ms INTEGER NOT NULL
) STRICT;
CREATE INDEX devices_by_agent ON devices (agent);
CREATE INDEX devices_by_kind ON devices (kind);

CREATE TABLE networks (
  name TEXT PRIMARY KEY,
  revision INTEGER NOT NULL
) STRICT;

CREATE TABLE network_revisions (
  name TEXT NOT NULL REFERENCES networks (name),
  revision INTEGER NOT NULL,
  format TEXT NOT NULL CHECK (format IN ('csv', 'onnx')),
  source BLOB NOT NULL,
  layers TEXT NOT NULL,
  hash TEXT NOT NULL,
  created_ms INTEGER NOT NULL,
  PRIMARY KEY (name, revision)
) STRICT;

CREATE TABLE tasks (
  id INTEGER PRIMARY KEY AUTOINCREMENT,
  kind TEXT NOT NULL,
  problem TEXT NOT NULL,
  batch INTEGER NOT NULL,
  max_workspace_bytes INTEGER NOT NULL,
  priority INTEGER NOT NULL,
  state TEXT NOT NULL
    CHECK (state IN ('pending', 'leased', 'done', 'failed')),
  attempts INTEGER NOT NULL,
  failures INTEGER NOT NULL,
  lease_token INTEGER NOT NULL,
  agent TEXT NOT NULL,
  device TEXT NOT NULL,
  lease_until_ms INTEGER NOT NULL,
  error TEXT NOT NULL,
  created_ms INTEGER NOT NULL,
  finished_ms INTEGER NOT NULL,
  UNIQUE (kind, problem, batch)
) STRICT;
-- The order in which tasks are leased.
CREATE INDEX open_tasks ON tasks (kind, priority DESC, id)
  WHERE state IN ('pending', 'leased');
CREATE INDEX leases_by_end ON tasks (kind, lease_until_ms)
  WHERE state = 'leased';
CREATE INDEX leases_by_agent ON tasks (agent) WHERE state = 'leased';

CREATE TABLE measurements (
  kind TEXT NOT NULL,
  problem TEXT NOT NULL,
  batch INTEGER NOT NULL,
  algorithm TEXT NOT NULL,
  math TEXT NOT NULL,
  precision_name TEXT NOT NULL,
  workspace_bytes INTEGER NOT NULL,
  time_ns INTEGER NOT NULL,
  spread_ns INTEGER NOT NULL,
  repeats INTEGER NOT NULL,
  device TEXT NOT NULL,
  driver TEXT NOT NULL,
  measured_ms INTEGER NOT NULL,
  PRIMARY KEY (kind, problem, batch, algorithm, math, precision_name,
               workspace_bytes)
) STRICT, WITHOUT ROWID;

CREATE TABLE plans (
  id INTEGER PRIMARY KEY AUTOINCREMENT,
  revision INTEGER NOT NULL,
  key TEXT NOT NULL UNIQUE,
  request TEXT NOT NULL,
  body TEXT NOT NULL,
  created_ms INTEGER NOT NULL
) STRICT;

CREATE TABLE jobs (
  id TEXT PRIMARY KEY,
  name TEXT NOT NULL,
  plan INTEGER REFERENCES plans (id),
  revision INTEGER NOT NULL,
  state TEXT NOT NULL,
  body TEXT NOT NULL,
  created_ms INTEGER NOT NULL,
  updated_ms INTEGER NOT NULL
) STRICT;
CREATE INDEX jobs_by_time ON jobs (created_ms DESC, id);
