-- One row for all points of a kind's problem at one batch, in `body`
-- (store/measured_batch.h), instead of one for each point. What lists count is
-- ahead of it, so that they need not read it. PackMeasurements moves the points
-- and drops their table.

CREATE TABLE measured_batches (
  kind TEXT COLLATE "C" NOT NULL,
  problem TEXT COLLATE "C" NOT NULL,
  batch BIGINT NOT NULL,
  points BIGINT NOT NULL,
  drivers BIGINT NOT NULL,
  driver TEXT NOT NULL,
  measured_ms BIGINT NOT NULL,
  body BYTEA NOT NULL,
  PRIMARY KEY (kind, problem, batch)
);

CREATE TRIGGER measured_batches_deleted AFTER DELETE ON measured_batches
  REFERENCING OLD TABLE AS moved
  FOR EACH STATEMENT EXECUTE FUNCTION kinds_changed();
