-- The queue, version 3: since when an end of a job does not answer.

ALTER TABLE job ADD COLUMN outage_since_ms {whole};
