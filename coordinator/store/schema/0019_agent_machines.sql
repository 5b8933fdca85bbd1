-- Two machines may have one name.

ALTER TABLE agents ADD COLUMN machine_id TEXT NOT NULL DEFAULT '';
