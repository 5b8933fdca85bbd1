-- How many repeats of a measurement were thrown away as disturbed.

ALTER TABLE measurements ADD COLUMN outliers INTEGER NOT NULL DEFAULT 0;
