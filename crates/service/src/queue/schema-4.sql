-- The queue, version 4: what learned rules decide by, once for all jobs that do.

CREATE TABLE policy (
    digest TEXT PRIMARY KEY,
    content {bytes} NOT NULL
) {strict};
ALTER TABLE job ADD COLUMN policy TEXT REFERENCES policy (digest);
CREATE INDEX job_policy ON job (policy) WHERE policy IS NOT NULL;
