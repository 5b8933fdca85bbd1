-- Cross-checks and what devices measured of them are counted, so that coordinators
-- may keep them. Changed points are counted by whoever writes them, once for each
-- transaction and kind: a trigger for each point took as long as storing it.

DROP TRIGGER measurement_added;
DROP TRIGGER measurement_changed;

CREATE TRIGGER cross_check_added AFTER INSERT ON controls BEGIN
  INSERT INTO changes (what, name, n) VALUES ('cross_checks', NEW.kind, 1)
    ON CONFLICT (what, name) DO UPDATE SET n = n + 1;
END;
CREATE TRIGGER cross_check_measured AFTER INSERT ON control_measurements BEGIN
  INSERT INTO changes (what, name, n)
    SELECT 'cross_checks', kind, 1 FROM controls WHERE id = NEW.control
    ON CONFLICT (what, name) DO UPDATE SET n = n + 1;
END;
CREATE TRIGGER cross_check_measured_again AFTER UPDATE ON control_measurements
BEGIN
  INSERT INTO changes (what, name, n)
    SELECT 'cross_checks', kind, 1 FROM controls WHERE id = NEW.control
    ON CONFLICT (what, name) DO UPDATE SET n = n + 1;
END;
