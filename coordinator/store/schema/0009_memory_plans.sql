-- The memory plans of a plan.

ALTER TABLE plans ADD COLUMN memory_plans TEXT NOT NULL DEFAULT '';
