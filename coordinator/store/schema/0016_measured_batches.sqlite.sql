-- One row for all points of a kind's problem at one batch, in `body`
-- (store/measured_batch.h), instead of one for each point. What lists count is
-- ahead of it, so that they need not read it. PackMeasurements moves the points
-- and drops their table.

CREATE TABLE measured_batches (
  kind TEXT NOT NULL,
  problem TEXT NOT NULL,
  batch INTEGER NOT NULL,
  points INTEGER NOT NULL,
  drivers INTEGER NOT NULL,
  driver TEXT NOT NULL,
  measured_ms INTEGER NOT NULL,
  body BLOB NOT NULL,
  PRIMARY KEY (kind, problem, batch)
) STRICT;

CREATE TRIGGER measured_batch_deleted AFTER DELETE ON measured_batches BEGIN
  INSERT INTO changes (what, name, n) VALUES ('kind', OLD.kind, 1)
    ON CONFLICT (what, name) DO UPDATE SET n = n + 1;
END;
