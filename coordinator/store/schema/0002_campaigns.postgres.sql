-- Adds the goals (base/goal.h) and drivers of tasks, and the fastest repeat, 90th
-- percentile and clocks of measurements.

ALTER TABLE tasks ADD COLUMN goal TEXT COLLATE "C" NOT NULL DEFAULT '';
ALTER TABLE tasks ADD COLUMN driver TEXT NOT NULL DEFAULT '';
ALTER TABLE tasks DROP CONSTRAINT tasks_kind_problem_batch_key;
ALTER TABLE tasks ADD UNIQUE (kind, problem, batch, goal);

ALTER TABLE measurements ADD COLUMN min_ns BIGINT NOT NULL DEFAULT 0;
ALTER TABLE measurements ADD COLUMN p90_ns BIGINT NOT NULL DEFAULT 0;
ALTER TABLE measurements ADD COLUMN sm_clock_mhz BIGINT NOT NULL DEFAULT 0;
ALTER TABLE measurements ADD COLUMN memory_clock_mhz BIGINT NOT NULL DEFAULT 0;
ALTER TABLE measurements ADD COLUMN throttle TEXT NOT NULL DEFAULT '';
