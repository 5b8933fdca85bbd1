-- Adds the goals (base/goal.h) and drivers of tasks, and the fastest repeat, 90th
-- percentile and clocks of measurements.
-- SQLite cannot change a table's keys: the table is copied to a new one.

CREATE TABLE new_tasks (
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
  goal TEXT NOT NULL DEFAULT '',
  driver TEXT NOT NULL DEFAULT '',
  UNIQUE (kind, problem, batch, goal)
) STRICT;
INSERT INTO new_tasks SELECT *, '', '' FROM tasks;
DROP TABLE tasks;
ALTER TABLE new_tasks RENAME TO tasks;
-- The order in which tasks are leased.
CREATE INDEX open_tasks ON tasks (kind, priority DESC, id)
  WHERE state IN ('pending', 'leased');
CREATE INDEX leases_by_end ON tasks (kind, lease_until_ms)
  WHERE state = 'leased';
CREATE INDEX leases_by_agent ON tasks (agent) WHERE state = 'leased';

ALTER TABLE measurements ADD COLUMN min_ns INTEGER NOT NULL DEFAULT 0;
ALTER TABLE measurements ADD COLUMN p90_ns INTEGER NOT NULL DEFAULT 0;
ALTER TABLE measurements ADD COLUMN sm_clock_mhz INTEGER NOT NULL DEFAULT 0;
ALTER TABLE measurements ADD COLUMN memory_clock_mhz INTEGER NOT NULL DEFAULT 0;
ALTER TABLE measurements ADD COLUMN throttle TEXT NOT NULL DEFAULT '';
