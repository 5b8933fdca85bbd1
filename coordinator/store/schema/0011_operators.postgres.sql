-- Operators: cancelled tasks; nodes that take no more tasks; who did what, when and
-- why.

ALTER TABLE tasks DROP CONSTRAINT tasks_state_check;
ALTER TABLE tasks ADD CHECK
  (state IN ('pending', 'leased', 'done', 'failed', 'cancelled'));

CREATE TABLE holds (
  agent TEXT COLLATE "C" PRIMARY KEY REFERENCES agents (id),
  what TEXT NOT NULL CHECK (what IN ('cordon', 'drain')),
  who TEXT NOT NULL,
  reason TEXT NOT NULL,
  since_ms BIGINT NOT NULL,
  deadline_ms BIGINT NOT NULL
);

CREATE TABLE actions (
  id BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  made_ms BIGINT NOT NULL,
  who TEXT NOT NULL,
  what TEXT NOT NULL,
  object TEXT NOT NULL,
  reason TEXT NOT NULL,
  outcome TEXT NOT NULL
);
CREATE INDEX job_revisions_by_plan ON job_revisions (plan);
