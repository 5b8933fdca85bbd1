-- Requests for plans that had to be measured for.

CREATE TABLE campaigns (
  id INTEGER PRIMARY KEY AUTOINCREMENT,
  key TEXT NOT NULL,
  request TEXT NOT NULL,
  network_revision INTEGER NOT NULL,
  ended_before INTEGER NOT NULL,
  progress TEXT NOT NULL,
  created_ms INTEGER NOT NULL,
  updated_ms INTEGER NOT NULL,
  finished_ms INTEGER NOT NULL
) STRICT;
CREATE INDEX campaigns_by_key ON campaigns (key, id);
CREATE INDEX running_campaigns ON campaigns (updated_ms)
  WHERE finished_ms = 0;
