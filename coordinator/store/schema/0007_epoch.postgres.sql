-- The database's epoch, which tells it from every other database, and a number that
-- coordinators raise to see whether they can write; how often agents
-- and jobs were heard of; and the order in which cross-checks were taken in.

CREATE TABLE identity (
  epoch TEXT NOT NULL,
  writes BIGINT NOT NULL
);
INSERT INTO identity (epoch, writes)
  VALUES (md5(CAST(random() AS TEXT) || CAST(clock_timestamp() AS TEXT)), 0);

ALTER TABLE agents ADD COLUMN beats BIGINT NOT NULL DEFAULT 0;
ALTER TABLE jobs ADD COLUMN beats BIGINT NOT NULL DEFAULT 0;
ALTER TABLE control_measurements ADD COLUMN sequence BIGINT NOT NULL DEFAULT 0;
