-- The queue, version 1. One text for SQLite and PostgreSQL. Times are milliseconds since 1970 in UTC. Every choice has its
-- index: pages by state and number, who is next between two sites, who is due again, who waits for whom, and who may be
-- forgotten.

CREATE TABLE pair (
    id {id},
    source TEXT NOT NULL,
    destination TEXT NOT NULL,
    UNIQUE (source, destination)
) {strict};
CREATE TABLE job (
    id {id},
    pair {whole} NOT NULL REFERENCES pair (id),
    state TEXT NOT NULL,
    reason TEXT NOT NULL,
    priority {whole} NOT NULL,
    attempts {whole} NOT NULL DEFAULT 0,
    failures {whole} NOT NULL DEFAULT 0,
    waits_for {whole} NOT NULL,
    submitted_ms {whole} NOT NULL,
    started_ms {whole},
    ended_ms {whole},
    not_before_ms {whole},
    request TEXT NOT NULL,
    progress TEXT,
    summary TEXT
) {strict};
CREATE TABLE dependency (
    needs {whole} NOT NULL,
    job {whole} NOT NULL,
    PRIMARY KEY (needs, job)
) {strict};
CREATE INDEX job_by_state ON job (state, id);
CREATE INDEX job_next ON job (pair, priority DESC, id) WHERE state = 'queued';
CREATE INDEX job_due ON job (not_before_ms) WHERE state = 'retrying';
CREATE INDEX job_ended ON job (ended_ms) WHERE ended_ms IS NOT NULL;
CREATE INDEX dependency_of ON dependency (job);
