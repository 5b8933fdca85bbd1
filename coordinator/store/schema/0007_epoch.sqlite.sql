-- The database's epoch, which tells it from every other database, and a number that
-- coordinators raise to see whether they can write; how often agents
-- and jobs were heard of; and the order in which cross-checks were taken in.

CREATE TABLE identity (
  epoch TEXT NOT NULL,
  writes INTEGER NOT NULL
) STRICT;
INSERT INTO identity (epoch, writes)
  VALUES (lower(hex(randomblob(16))), 0);

ALTER TABLE agents ADD COLUMN beats INTEGER NOT NULL DEFAULT 0;
ALTER TABLE jobs ADD COLUMN beats INTEGER NOT NULL DEFAULT 0;
ALTER TABLE control_measurements ADD COLUMN sequence INTEGER NOT NULL DEFAULT 0;
