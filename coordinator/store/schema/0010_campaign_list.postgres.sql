-- Requests for plans that had to be measured for.

CREATE TABLE campaigns (
  id BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  key TEXT COLLATE "C" NOT NULL,
  request TEXT NOT NULL,
  network_revision BIGINT NOT NULL,
  ended_before BIGINT NOT NULL,
  progress TEXT NOT NULL,
  created_ms BIGINT NOT NULL,
  updated_ms BIGINT NOT NULL,
  finished_ms BIGINT NOT NULL
);
CREATE INDEX campaigns_by_key ON campaigns (key, id);
CREATE INDEX running_campaigns ON campaigns (updated_ms)
  WHERE finished_ms = 0;
