-- Operators: cancelled tasks; nodes that take no more tasks; who did what, when and
-- why.

-- SQLite cannot change a table's checks: the table is copied to a new one.
CREATE TABLE new_tasks (
  id INTEGER PRIMARY KEY AUTOINCREMENT,
  kind TEXT NOT NULL,
  problem TEXT NOT NULL,
  batch INTEGER NOT NULL,
  max_workspace_bytes INTEGER NOT NULL,
  priority INTEGER NOT NULL,
  state TEXT NOT NULL
    CHECK (state IN ('pending', 'leased', 'done', 'failed', 'cancelled')),
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
INSERT INTO new_tasks SELECT * FROM tasks;
DROP TABLE tasks;
ALTER TABLE new_tasks RENAME TO tasks;
-- The order in which tasks are leased.
CREATE INDEX open_tasks ON tasks (kind, priority DESC, id)
  WHERE state IN ('pending', 'leased');
CREATE INDEX leases_by_end ON tasks (kind, lease_until_ms)
  WHERE state = 'leased';
CREATE INDEX leases_by_agent ON tasks (agent) WHERE state = 'leased';

CREATE TABLE holds (
  agent TEXT PRIMARY KEY REFERENCES agents (id),
  what TEXT NOT NULL CHECK (what IN ('cordon', 'drain')),
  who TEXT NOT NULL,
  reason TEXT NOT NULL,
  since_ms INTEGER NOT NULL,
  deadline_ms INTEGER NOT NULL
) STRICT;

CREATE TABLE actions (
  id INTEGER PRIMARY KEY AUTOINCREMENT,
  made_ms INTEGER NOT NULL,
  who TEXT NOT NULL,
  what TEXT NOT NULL,
  object TEXT NOT NULL,
  reason TEXT NOT NULL,
  outcome TEXT NOT NULL
) STRICT;
CREATE INDEX job_revisions_by_plan ON job_revisions (plan);
