-- When each plan was asked for last, to the day.

ALTER TABLE plans ADD COLUMN used_ms INTEGER NOT NULL DEFAULT 0;
-- When older ones were is not known.
UPDATE plans SET used_ms = CAST(strftime('%s', 'now') AS INTEGER) * 1000;
