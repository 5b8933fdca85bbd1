-- Counts that triggers keep, so that nobody has to count: the tasks of each kind in
-- each state, and how often what plans are made from changed. Changed points are
-- counted by whoever writes them, once for each transaction and kind: a trigger for
-- each point took as long as storing it.

CREATE TABLE task_counts (
  kind TEXT NOT NULL,
  state TEXT NOT NULL,
  n INTEGER NOT NULL,
  PRIMARY KEY (kind, state)
) STRICT, WITHOUT ROWID;

-- `what` is kind or cross_checks, with a kind as `name`, or networks, steps or
-- deleted_plans, which have none.
CREATE TABLE changes (
  what TEXT NOT NULL,
  name TEXT NOT NULL,
  n INTEGER NOT NULL,
  PRIMARY KEY (what, name)
) STRICT, WITHOUT ROWID;

CREATE TRIGGER task_added AFTER INSERT ON tasks BEGIN
  INSERT INTO task_counts (kind, state, n) VALUES (NEW.kind, NEW.state, 1)
    ON CONFLICT (kind, state) DO UPDATE SET n = n + 1;
END;
CREATE TRIGGER task_moved AFTER UPDATE OF state ON tasks
  WHEN OLD.state <> NEW.state BEGIN
  UPDATE task_counts SET n = n - 1 WHERE kind = OLD.kind AND state = OLD.state;
  INSERT INTO task_counts (kind, state, n) VALUES (NEW.kind, NEW.state, 1)
    ON CONFLICT (kind, state) DO UPDATE SET n = n + 1;
END;
CREATE TRIGGER task_deleted AFTER DELETE ON tasks BEGIN
  UPDATE task_counts SET n = n - 1 WHERE kind = OLD.kind AND state = OLD.state;
END;

-- Open tasks make no plan.
CREATE TRIGGER ended_task_added AFTER INSERT ON tasks
  WHEN NEW.state IN ('done', 'failed', 'cancelled') BEGIN
  INSERT INTO changes (what, name, n) VALUES ('kind', NEW.kind, 1)
    ON CONFLICT (what, name) DO UPDATE SET n = n + 1;
END;
CREATE TRIGGER ended_task_changed AFTER UPDATE ON tasks
  WHEN OLD.state IN ('done', 'failed', 'cancelled')
    OR NEW.state IN ('done', 'failed', 'cancelled') BEGIN
  INSERT INTO changes (what, name, n) VALUES ('kind', NEW.kind, 1)
    ON CONFLICT (what, name) DO UPDATE SET n = n + 1;
END;
CREATE TRIGGER ended_task_deleted AFTER DELETE ON tasks
  WHEN OLD.state IN ('done', 'failed', 'cancelled') BEGIN
  INSERT INTO changes (what, name, n) VALUES ('kind', OLD.kind, 1)
    ON CONFLICT (what, name) DO UPDATE SET n = n + 1;
END;

CREATE TRIGGER measured_batch_deleted AFTER DELETE ON measured_batches BEGIN
  INSERT INTO changes (what, name, n) VALUES ('kind', OLD.kind, 1)
    ON CONFLICT (what, name) DO UPDATE SET n = n + 1;
END;

CREATE TRIGGER device_model_added AFTER INSERT ON device_models BEGIN
  INSERT INTO changes (what, name, n) VALUES ('kind', NEW.kind, 1)
    ON CONFLICT (what, name) DO UPDATE SET n = n + 1;
END;
CREATE TRIGGER device_model_changed AFTER UPDATE ON device_models BEGIN
  INSERT INTO changes (what, name, n) VALUES ('kind', NEW.kind, 1)
    ON CONFLICT (what, name) DO UPDATE SET n = n + 1;
END;

-- Which drivers are online tells which measurements are stale.
CREATE TRIGGER device_added AFTER INSERT ON devices BEGIN
  INSERT INTO changes (what, name, n) VALUES ('kind', NEW.kind, 1)
    ON CONFLICT (what, name) DO UPDATE SET n = n + 1;
END;
CREATE TRIGGER device_changed AFTER UPDATE ON devices
  WHEN OLD.kind <> NEW.kind OR OLD.driver <> NEW.driver
    OR (OLD.state = 'lost') <> (NEW.state = 'lost') BEGIN
  INSERT INTO changes (what, name, n)
    VALUES ('kind', OLD.kind, 1), ('kind', NEW.kind, 1)
    ON CONFLICT (what, name) DO UPDATE SET n = n + 1;
END;

CREATE TRIGGER network_added AFTER INSERT ON network_revisions BEGIN
  INSERT INTO changes (what, name, n) VALUES ('networks', '', 1)
    ON CONFLICT (what, name) DO UPDATE SET n = n + 1;
END;
CREATE TRIGGER network_deleted AFTER DELETE ON network_revisions BEGIN
  INSERT INTO changes (what, name, n) VALUES ('networks', '', 1)
    ON CONFLICT (what, name) DO UPDATE SET n = n + 1;
END;
CREATE TRIGGER step_added AFTER INSERT ON steps BEGIN
  INSERT INTO changes (what, name, n) VALUES ('steps', '', 1)
    ON CONFLICT (what, name) DO UPDATE SET n = n + 1;
END;
CREATE TRIGGER step_changed AFTER UPDATE ON steps BEGIN
  INSERT INTO changes (what, name, n) VALUES ('steps', '', 1)
    ON CONFLICT (what, name) DO UPDATE SET n = n + 1;
END;
CREATE TRIGGER step_deleted AFTER DELETE ON steps BEGIN
  INSERT INTO changes (what, name, n) VALUES ('steps', '', 1)
    ON CONFLICT (what, name) DO UPDATE SET n = n + 1;
END;
CREATE TRIGGER plan_deleted AFTER DELETE ON plans BEGIN
  INSERT INTO changes (what, name, n) VALUES ('deleted_plans', '', 1)
    ON CONFLICT (what, name) DO UPDATE SET n = n + 1;
END;

CREATE TRIGGER cross_check_added AFTER INSERT ON cross_checks BEGIN
  INSERT INTO changes (what, name, n) VALUES ('cross_checks', NEW.kind, 1)
    ON CONFLICT (what, name) DO UPDATE SET n = n + 1;
END;
CREATE TRIGGER cross_check_measured AFTER INSERT ON cross_check_measurements BEGIN
  INSERT INTO changes (what, name, n)
    SELECT 'cross_checks', kind, 1 FROM cross_checks WHERE id = NEW.cross_check
    ON CONFLICT (what, name) DO UPDATE SET n = n + 1;
END;
CREATE TRIGGER cross_check_measured_again AFTER UPDATE ON cross_check_measurements
BEGIN
  INSERT INTO changes (what, name, n)
    SELECT 'cross_checks', kind, 1 FROM cross_checks WHERE id = NEW.cross_check
    ON CONFLICT (what, name) DO UPDATE SET n = n + 1;
END;
