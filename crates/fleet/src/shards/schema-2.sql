-- Fleets, version 2: the endpoints of a pool, through which of them a lease goes, and where movers run. A number of -1 is that of
-- no endpoint; an endpoint's rate is what a lease through it brought lately, in bytes a second.

CREATE TABLE fleet_endpoint (
    run {whole} NOT NULL,
    number {whole} NOT NULL,
    name TEXT NOT NULL,
    weight {whole} NOT NULL,
    rate {whole} NOT NULL DEFAULT 0,
    PRIMARY KEY (run, number)
) {renewed};
ALTER TABLE fleet_lease ADD COLUMN endpoint {whole} NOT NULL DEFAULT -1;
ALTER TABLE fleet_mover ADD COLUMN host TEXT NOT NULL DEFAULT '';
ALTER TABLE fleet_mover ADD COLUMN endpoint {whole} NOT NULL DEFAULT -1;
