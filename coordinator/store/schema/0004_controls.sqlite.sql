-- Cross-checks, which every device of a kind measures in several rounds, and the
-- measurements of each device.

CREATE TABLE controls (
  id INTEGER PRIMARY KEY AUTOINCREMENT,
  kind TEXT NOT NULL,
  problem TEXT NOT NULL,
  batch INTEGER NOT NULL,
  algorithm TEXT NOT NULL,
  math TEXT NOT NULL,
  precision_name TEXT NOT NULL,
  workspace_bytes INTEGER NOT NULL,
  UNIQUE (kind, problem, batch)
) STRICT;

CREATE TABLE control_measurements (
  control INTEGER NOT NULL REFERENCES controls (id),
  device TEXT NOT NULL,
  round INTEGER NOT NULL,
  driver TEXT NOT NULL,
  time_ns INTEGER NOT NULL,
  spread_ns INTEGER NOT NULL,
  throttle TEXT NOT NULL,
  measured_ms INTEGER NOT NULL,
  PRIMARY KEY (control, device, round)
) STRICT, WITHOUT ROWID;
