-- Cross-checks, which every device of a kind measures in several rounds, and the
-- measurements of each device.

CREATE TABLE controls (
  id BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  kind TEXT COLLATE "C" NOT NULL,
  problem TEXT COLLATE "C" NOT NULL,
  batch BIGINT NOT NULL,
  algorithm TEXT NOT NULL,
  math TEXT NOT NULL,
  precision_name TEXT NOT NULL,
  workspace_bytes BIGINT NOT NULL,
  UNIQUE (kind, problem, batch)
);

CREATE TABLE control_measurements (
  control BIGINT NOT NULL REFERENCES controls (id),
  device TEXT COLLATE "C" NOT NULL,
  round BIGINT NOT NULL,
  driver TEXT NOT NULL,
  time_ns BIGINT NOT NULL,
  spread_ns BIGINT NOT NULL,
  throttle TEXT NOT NULL,
  measured_ms BIGINT NOT NULL,
  PRIMARY KEY (control, device, round)
);
