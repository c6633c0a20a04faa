-- Fleets, version 1: what many hosts move together. One text for SQLite and PostgreSQL; times are milliseconds since 1970 by
-- the database's clock. A shard's state is 0 while it waits, 1 in a lease, 2 done, 3 set aside. Shards are found by their key
-- for every change, and by `fleet_ready` only to be claimed; a lease is narrow, as it is renewed often.

CREATE TABLE fleet_run (
    job {whole} PRIMARY KEY,
    token {bytes} NOT NULL UNIQUE,
    work TEXT NOT NULL,
    state TEXT NOT NULL,
    heard_ms {whole} NOT NULL,
    shards {whole} NOT NULL DEFAULT 0,
    files {whole} NOT NULL DEFAULT 0,
    bytes {whole} NOT NULL DEFAULT 0,
    ended_shards {whole} NOT NULL DEFAULT 0,
    done_files {whole} NOT NULL DEFAULT 0,
    done_bytes {whole} NOT NULL DEFAULT 0,
    failed_files {whole} NOT NULL DEFAULT 0
) {strict};
CREATE TABLE fleet_shard (
    id {id},
    run {whole} NOT NULL,
    place {whole} NOT NULL,
    state {whole} NOT NULL DEFAULT 0,
    lease {whole} NOT NULL DEFAULT 0,
    tries {whole} NOT NULL DEFAULT 0,
    source {whole} NOT NULL,
    files {whole} NOT NULL,
    bytes {whole} NOT NULL,
    names {bytes} NOT NULL
) {strict};
CREATE INDEX fleet_ready ON fleet_shard (run, place) WHERE state = 0;
CREATE INDEX fleet_leased ON fleet_shard (lease) WHERE lease > 0;
CREATE TABLE fleet_lease (
    id {id},
    run {whole} NOT NULL,
    mover TEXT NOT NULL,
    bytes {whole} NOT NULL DEFAULT 0,
    claimed_ms {whole} NOT NULL,
    until_ms {whole} NOT NULL
) {renewed};
CREATE INDEX fleet_lease_run ON fleet_lease (run);
CREATE TABLE fleet_mover (
    run {whole} NOT NULL,
    name TEXT NOT NULL,
    heard_ms {whole} NOT NULL,
    rate {whole} NOT NULL DEFAULT 0,
    streams {whole} NOT NULL DEFAULT 0,
    throughput_bps {whole} NOT NULL DEFAULT 0,
    shards {whole} NOT NULL DEFAULT 0,
    files {whole} NOT NULL DEFAULT 0,
    bytes {whole} NOT NULL DEFAULT 0,
    PRIMARY KEY (run, name)
) {renewed};
CREATE TABLE fleet_failure (
    id {id},
    run {whole} NOT NULL,
    path {bytes} NOT NULL,
    kind TEXT NOT NULL,
    message TEXT NOT NULL
) {strict};
CREATE INDEX fleet_failure_run ON fleet_failure (run, id);
