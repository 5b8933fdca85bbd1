-- The device model of each kind under each driver, and the order in which they
-- were taken in.

CREATE TABLE device_models (
  kind TEXT COLLATE "C" NOT NULL,
  driver TEXT COLLATE "C" NOT NULL,
  device TEXT NOT NULL,
  measured_ms BIGINT NOT NULL,
  sequence BIGINT NOT NULL,
  model TEXT NOT NULL,
  PRIMARY KEY (kind, driver)
);
