-- The host's time to enqueue a run, beside the device's; 0 where it was not
-- noted.

ALTER TABLE measurements ADD COLUMN enqueue_ns BIGINT NOT NULL DEFAULT 0;
