-- Counts that triggers keep, so that nobody has to count: the tasks of each kind in
-- each state, and how often what plans are made from changed. Each statement adds
-- rows, because writers that raised one row would wait for each other until they
-- commit; counts are sums, and coordinators put rows together now and then. Changed
-- points are counted by whoever writes them, once for each transaction and kind.

CREATE TABLE task_counts (
  kind TEXT COLLATE "C" NOT NULL,
  state TEXT NOT NULL,
  n BIGINT NOT NULL
);

-- `what` is kind or cross_checks, with a kind as `name`, or networks, steps or
-- deleted_plans, which have none.
CREATE TABLE changes (
  what TEXT NOT NULL,
  name TEXT COLLATE "C" NOT NULL,
  n BIGINT NOT NULL
);

-- Open tasks make no plan.
CREATE FUNCTION tasks_added() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  INSERT INTO task_counts
    SELECT kind, state, COUNT(*) FROM added GROUP BY kind, state;
  INSERT INTO changes SELECT DISTINCT 'kind', kind, 1 FROM added
    WHERE state IN ('done', 'failed', 'cancelled');
  RETURN NULL;
END $$;
CREATE FUNCTION tasks_changed() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  INSERT INTO task_counts
    SELECT kind, state, SUM(n) FROM
      (SELECT kind, state, 1 AS n FROM added
       UNION ALL SELECT kind, state, -1 FROM removed) AS moved
    GROUP BY kind, state HAVING SUM(n) <> 0;
  INSERT INTO changes SELECT DISTINCT 'kind', kind, 1 FROM
      (SELECT kind, state FROM added
       UNION ALL SELECT kind, state FROM removed) AS moved
    WHERE state IN ('done', 'failed', 'cancelled');
  RETURN NULL;
END $$;
CREATE FUNCTION tasks_deleted() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  INSERT INTO task_counts
    SELECT kind, state, -COUNT(*) FROM removed GROUP BY kind, state;
  INSERT INTO changes SELECT DISTINCT 'kind', kind, 1 FROM removed
    WHERE state IN ('done', 'failed', 'cancelled');
  RETURN NULL;
END $$;
CREATE TRIGGER tasks_added AFTER INSERT ON tasks
  REFERENCING NEW TABLE AS added
  FOR EACH STATEMENT EXECUTE FUNCTION tasks_added();
CREATE TRIGGER tasks_changed AFTER UPDATE ON tasks
  REFERENCING NEW TABLE AS added OLD TABLE AS removed
  FOR EACH STATEMENT EXECUTE FUNCTION tasks_changed();
CREATE TRIGGER tasks_deleted AFTER DELETE ON tasks
  REFERENCING OLD TABLE AS removed
  FOR EACH STATEMENT EXECUTE FUNCTION tasks_deleted();

CREATE FUNCTION kinds_changed() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  INSERT INTO changes SELECT DISTINCT 'kind', kind, 1 FROM moved;
  RETURN NULL;
END $$;
CREATE TRIGGER measured_batches_deleted AFTER DELETE ON measured_batches
  REFERENCING OLD TABLE AS moved
  FOR EACH STATEMENT EXECUTE FUNCTION kinds_changed();
CREATE TRIGGER device_models_added AFTER INSERT ON device_models
  REFERENCING NEW TABLE AS moved
  FOR EACH STATEMENT EXECUTE FUNCTION kinds_changed();
CREATE TRIGGER device_models_changed AFTER UPDATE ON device_models
  REFERENCING NEW TABLE AS moved
  FOR EACH STATEMENT EXECUTE FUNCTION kinds_changed();
CREATE TRIGGER devices_added AFTER INSERT ON devices
  REFERENCING NEW TABLE AS moved
  FOR EACH STATEMENT EXECUTE FUNCTION kinds_changed();

-- Which drivers are online tells which measurements are stale.
CREATE FUNCTION device_changed() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  INSERT INTO changes VALUES ('kind', OLD.kind, 1), ('kind', NEW.kind, 1);
  RETURN NULL;
END $$;
CREATE TRIGGER device_changed AFTER UPDATE ON devices FOR EACH ROW
  WHEN (OLD.kind <> NEW.kind OR OLD.driver <> NEW.driver
    OR (OLD.state = 'lost') <> (NEW.state = 'lost'))
  EXECUTE FUNCTION device_changed();

CREATE FUNCTION changed() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  INSERT INTO changes VALUES (TG_ARGV[0], '', 1);
  RETURN NULL;
END $$;
CREATE TRIGGER networks_changed AFTER INSERT OR DELETE ON network_revisions
  FOR EACH STATEMENT EXECUTE FUNCTION changed('networks');
CREATE TRIGGER steps_changed AFTER INSERT OR UPDATE OR DELETE ON steps
  FOR EACH STATEMENT EXECUTE FUNCTION changed('steps');
CREATE TRIGGER plans_deleted AFTER DELETE ON plans
  FOR EACH STATEMENT EXECUTE FUNCTION changed('deleted_plans');

CREATE FUNCTION cross_check_added() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  INSERT INTO changes VALUES ('cross_checks', NEW.kind, 1);
  RETURN NULL;
END $$;
CREATE TRIGGER cross_check_added AFTER INSERT ON cross_checks
  FOR EACH ROW EXECUTE FUNCTION cross_check_added();
CREATE FUNCTION cross_check_measured() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  INSERT INTO changes
    SELECT 'cross_checks', kind, 1 FROM cross_checks WHERE id = NEW.cross_check;
  RETURN NULL;
END $$;
CREATE TRIGGER cross_check_measured AFTER INSERT OR UPDATE ON cross_check_measurements
  FOR EACH ROW EXECUTE FUNCTION cross_check_measured();
