-- When each plan was asked for last, to the day.

ALTER TABLE plans ADD COLUMN used_ms INTEGER NOT NULL DEFAULT 0;
UPDATE plans SET used_ms = created_ms;
