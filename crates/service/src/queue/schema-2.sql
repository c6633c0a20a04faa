-- The queue, version 2: what was submitted under a key, with the numbers of its jobs as a JSON array.

CREATE TABLE submission (
    key TEXT PRIMARY KEY,
    digest {bytes} NOT NULL,
    ids TEXT NOT NULL,
    submitted_ms {whole} NOT NULL
) {strict};
CREATE INDEX submission_age ON submission (submitted_ms);
