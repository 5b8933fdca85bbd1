-- The database's epoch, which tells it from every other database; how often agents
-- and jobs were heard of; and the order in which cross-checks were taken in.

CREATE TABLE identity (epoch TEXT NOT NULL) STRICT;
INSERT INTO identity (epoch) VALUES (lower(hex(randomblob(16))));

ALTER TABLE agents ADD COLUMN beats INTEGER NOT NULL DEFAULT 0;
ALTER TABLE jobs ADD COLUMN beats INTEGER NOT NULL DEFAULT 0;
ALTER TABLE control_measurements ADD COLUMN sequence INTEGER NOT NULL DEFAULT 0;
