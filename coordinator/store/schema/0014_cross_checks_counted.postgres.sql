-- Cross-checks and what devices measured of them are counted, so that coordinators
-- may keep them. Changed points are counted by whoever writes them, once for each
-- transaction and kind.

DROP TRIGGER measurements_added ON measurements;
DROP TRIGGER measurements_changed ON measurements;

CREATE FUNCTION cross_check_added() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  INSERT INTO changes VALUES ('cross_checks', NEW.kind, 1);
  RETURN NULL;
END $$;
CREATE TRIGGER cross_check_added AFTER INSERT ON controls
  FOR EACH ROW EXECUTE FUNCTION cross_check_added();
CREATE FUNCTION cross_check_measured() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  INSERT INTO changes
    SELECT 'cross_checks', kind, 1 FROM controls WHERE id = NEW.control;
  RETURN NULL;
END $$;
CREATE TRIGGER cross_check_measured AFTER INSERT OR UPDATE ON control_measurements
  FOR EACH ROW EXECUTE FUNCTION cross_check_measured();
