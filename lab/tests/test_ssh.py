"""The page about copies over ssh, from invented runs; and what is measured for it."""

import tempfile
import time
import unittest
from pathlib import Path

from lab.grid.figures import found_in
from lab.ground.results import Record
from lab.runs.datasets import NAMES
from lab.runs.first_byte import FirstByte
from lab.ssh import bars
from lab.ssh.cases import FAR, LINKS, NEAR, OURS, RSYNC, SCP, SHARDS, case, cells, first_cells
from lab.tests.records import made

NAME = case(FAR, "A").name


class Cases(unittest.TestCase):
    def test_every_mover_is_on_every_link_and_told_of_many_connections_where_that_is_far(self) -> None:
        self.assertEqual(len(SHARDS), 1 + len(LINKS) * len(NAMES))
        self.assertTrue(all(shard.minutes <= 30 for shard in SHARDS))
        for link in LINKS:
            self.assertEqual(len({cell.contender.name for cell in cells(link, "A")}), 6)
            self.assertEqual(case(link, "A").setting.needs_streams, link != NEAR)
        self.assertTrue(all(cell.case.first_byte for cell in first_cells()))


class Bars(unittest.TestCase):
    def rivals(self, cpu_seconds: float) -> bars.Bar:
        records = [made("ssh", NAME, name, [rate] * 10) for name, rate in {OURS: 1000.0, RSYNC: 900.0, SCP: 150.0}.items()]
        busy = [Record(**{**vars(record), "cpu_seconds": cpu_seconds}) for record in records]
        bar, = bars.rival_bars(found_in(busy, "ssh"))
        return bar

    def test_more_is_wanted_where_the_best_rival_leaves_much_unused(self) -> None:
        idle, full = self.rivals(0.1), self.rivals(1e6)
        self.assertIn(f"the best rival, {RSYNC}, which uses 47% of the link", idle.what)
        self.assertEqual((idle.wanted, idle.met), ("≥ 1.5", False))
        self.assertEqual((full.wanted, full.met), ("≥ 0.97", True))

    def test_far_away_one_window_is_left_behind(self) -> None:
        records = [made("ssh", NAME, name, [rate] * 10) for name, rate in {OURS: 800.0, RSYNC: 170.0, SCP: 150.0}.items()]
        scp, rsync = bars.far_bars(found_in(records, "ssh"))
        self.assertEqual(((scp.met, scp.measured), (rsync.met, rsync.measured)), ((True, "5.33"), (False, "4.71")))

    def test_the_first_byte_may_come_two_round_trips_later(self) -> None:
        name = case(FAR, "first").name
        for ours, met in ((1.19, True), (1.21, False)):
            records = [made("ssh", name, mover, [1.0], first_byte_s=at) for mover, at in ((OURS, ours), (RSYNC, 1.0))]
            bar, = bars.first_bars(found_in(records, "ssh"))
            self.assertEqual((bar.wanted, bar.met), ("≤ 1200 ms", met))


class Watched(unittest.TestCase):
    def test_the_first_byte_is_seen_under_whatever_name(self) -> None:
        with tempfile.TemporaryDirectory() as held:
            source, destination = Path(held, "source"), Path(held, "destination")
            source.mkdir()
            (destination / ".work").mkdir(parents=True)
            (source / "tiny").write_bytes(b"content")
            with FirstByte(source, destination) as first:
                (destination / ".work" / "other").write_bytes(b"another")
                self.assertFalse(first.is_there())
                (destination / ".work" / "part").write_bytes(b"content")
                first.thread.join(timeout=60)
            self.assertIsNotNone(first.seconds)
            self.assertLess(first.began, time.monotonic())
