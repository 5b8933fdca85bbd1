-- On whose behalf each task was opened, so that the queue can be divided among
-- callers.

ALTER TABLE tasks ADD COLUMN asked_by TEXT NOT NULL DEFAULT '';
CREATE INDEX open_tasks_by_caller ON tasks (asked_by)
  WHERE state IN ('pending', 'leased');
