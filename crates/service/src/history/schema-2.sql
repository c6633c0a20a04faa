-- History, version 2: how a rate came to be. NULL where nothing is told of it, as in what older versions and others left.
-- conditions is JSON in one order of keys, so that the same conditions are the same text.

ALTER TABLE samples ADD COLUMN conditions TEXT;
ALTER TABLE samples ADD COLUMN beside_jobs BIGINT;
ALTER TABLE samples ADD COLUMN beside_bps BIGINT;
ALTER TABLE estimates ADD COLUMN conditions TEXT;
ALTER TABLE estimates ADD COLUMN beside_jobs BIGINT;
ALTER TABLE estimates ADD COLUMN beside_bps BIGINT;
ALTER TABLE transfers ADD COLUMN conditions TEXT;
ALTER TABLE transfers ADD COLUMN beside_jobs BIGINT;
ALTER TABLE transfers ADD COLUMN beside_bps BIGINT;
