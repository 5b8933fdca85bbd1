-- The device model of each kind under each driver, and the order in which they
-- were taken in.

CREATE TABLE device_models (
  kind TEXT NOT NULL,
  driver TEXT NOT NULL,
  device TEXT NOT NULL,
  measured_ms INTEGER NOT NULL,
  sequence INTEGER NOT NULL,
  model TEXT NOT NULL,
  PRIMARY KEY (kind, driver)
) STRICT, WITHOUT ROWID;
