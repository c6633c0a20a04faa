-- Fleets, version 3: a large file that several movers move. Its shard becomes what completes it, in state 4 while ranges of it
-- are not done, and those are shards of their own. An extent is 0 for whole files, 1 for a range of one, 2 for what completes it.

ALTER TABLE fleet_shard ADD COLUMN extent {whole} NOT NULL DEFAULT 0;
ALTER TABLE fleet_shard ADD COLUMN range_start {whole} NOT NULL DEFAULT 0;
ALTER TABLE fleet_shard ADD COLUMN range_end {whole} NOT NULL DEFAULT 0;
ALTER TABLE fleet_shard ADD COLUMN completed_by {whole} NOT NULL DEFAULT 0;
ALTER TABLE fleet_shard ADD COLUMN open_ranges {whole} NOT NULL DEFAULT 0;
CREATE INDEX fleet_range ON fleet_shard (completed_by) WHERE completed_by > 0;
