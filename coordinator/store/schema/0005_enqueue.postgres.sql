-- The host's time to enqueue a run; 0 if it was not measured.

ALTER TABLE measurements ADD COLUMN enqueue_ns BIGINT NOT NULL DEFAULT 0;
