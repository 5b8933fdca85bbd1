-- The number of repeats of a measurement that were discarded as disturbed.

ALTER TABLE measurements ADD COLUMN outliers INTEGER NOT NULL DEFAULT 0;
