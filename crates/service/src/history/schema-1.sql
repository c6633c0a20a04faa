-- History, version 1. One text for SQLite and PostgreSQL. Times are milliseconds since 1970 in UTC; units end
-- the names; lists and maps are JSON. identity is a digest of the record, so that importing twice changes nothing.

CREATE TABLE samples (
    id {id},
    identity BIGINT NOT NULL UNIQUE,
    source TEXT NOT NULL,
    destination TEXT NOT NULL,
    at_ms BIGINT NOT NULL,
    method TEXT NOT NULL,
    streams BIGINT NOT NULL,
    throughput_bps BIGINT NOT NULL,
    bytes BIGINT NOT NULL,
    duration_ms BIGINT NOT NULL
);
CREATE INDEX samples_of_pair ON samples (source, destination, at_ms, id);
CREATE INDEX samples_in_time ON samples (at_ms, id);

CREATE TABLE estimates (
    id {id},
    identity BIGINT NOT NULL UNIQUE,
    source TEXT NOT NULL,
    destination TEXT NOT NULL,
    at_ms BIGINT NOT NULL,
    method TEXT NOT NULL,
    streams BIGINT NOT NULL,
    throughput_bps BIGINT NOT NULL,
    model TEXT,
    coefficients TEXT,
    fallback TEXT,
    samples TEXT NOT NULL,
    cost_bytes BIGINT NOT NULL,
    cost_ms BIGINT NOT NULL
);
CREATE INDEX estimates_of_pair ON estimates (source, destination, at_ms, id);
CREATE INDEX estimates_in_time ON estimates (at_ms, id);

CREATE TABLE transfers (
    id {id},
    identity BIGINT NOT NULL UNIQUE,
    source TEXT NOT NULL,
    destination TEXT NOT NULL,
    at_ms BIGINT NOT NULL,
    origin TEXT NOT NULL,
    job TEXT,
    bytes BIGINT NOT NULL,
    files BIGINT NOT NULL,
    concurrency_read DOUBLE PRECISION,
    concurrency_network DOUBLE PRECISION,
    concurrency_write DOUBLE PRECISION,
    optimizer TEXT,
    goodput_bps BIGINT NOT NULL,
    duration_ms BIGINT NOT NULL,
    loss DOUBLE PRECISION,
    rtt_us BIGINT,
    retransmits BIGINT,
    outcome TEXT NOT NULL,
    reason TEXT
);
CREATE INDEX transfers_of_pair ON transfers (source, destination, at_ms, id);
CREATE INDEX transfers_in_time ON transfers (at_ms, id);
CREATE INDEX transfers_of_job ON transfers (job);

CREATE TABLE decisions (
    id {id},
    identity BIGINT NOT NULL UNIQUE,
    source TEXT NOT NULL,
    destination TEXT NOT NULL,
    at_ms BIGINT NOT NULL,
    job TEXT,
    state TEXT NOT NULL,
    action TEXT NOT NULL,
    reason TEXT NOT NULL
);
CREATE INDEX decisions_of_pair ON decisions (source, destination, at_ms, id);
CREATE INDEX decisions_in_time ON decisions (at_ms, id);
CREATE INDEX decisions_of_job ON decisions (job);
