"""The page about a million files, from invented runs; and the trees that are made for it."""

import importlib
import tempfile
import unittest
from dataclasses import replace
from pathlib import Path

from lab.grid.figures import found_in
from lab.many import bars
from lab.many.cases import CLEAR, FIRST, FIRST_FEW, IDLE, RCLONE, RSYNC, SHAPES, SHARDS, TRUSTED, WHOLE, WIDE
from lab.many.idle import OURS, RsyncLocal
from lab.runs.verify import sizes
from lab.tests.records import made, page_of, record, whole

MB = 1_000_000


class Trees(unittest.TestCase):
    def test_a_tree_has_so_many_files_of_a_kilobyte_that_take_no_room(self) -> None:
        for shape in SHAPES:
            small = replace(shape, files=25, per_directory=10)
            with tempfile.TemporaryDirectory() as held:
                made_there = small.make(Path(held))
                self.assertEqual(list(sizes(made_there.root).values()), [1000] * 25)
                self.assertEqual(sum(path.stat().st_blocks for path in Path(held).rglob("*.dat")), 0)
        self.assertEqual((WHOLE.files, WIDE.files, WIDE.per_directory), (1_000_000, 500_000, 500_000))
        self.assertTrue(all(shard.minutes <= 30 for shard in SHARDS))


class Bars(unittest.TestCase):
    def test_seconds_and_memory_where_nothing_is_to_be_done(self) -> None:
        for seconds, peak, met in ((3.0, 200, [True, True]), (4.0, 400, [False, False])):
            runs = [record(IDLE, WHOLE.name, name, seconds=took, notes={"peak_bytes": peak * MB})
                    for name, took in ((OURS.name, seconds), (RsyncLocal.name, 4.5))]
            self.assertEqual([bar.met for bar in bars.idle_bars(runs)], met)

    def test_first_copies_are_held_against_the_daemon_and_rclone(self) -> None:
        there = {(FIRST, CLEAR): 150.0, (FIRST, RSYNC): 100.0, (FIRST_FEW, TRUSTED): 90.0, (FIRST_FEW, RCLONE): 10.0}
        runs = [made("many", case, mover.name, [rate] * 4, peak_bytes=100 * MB) for (case, mover), rate in there.items()]
        self.assertEqual([(bar.measured, bar.met) for bar in bars.first_bars(found_in(runs, "many"))],
                         [("1.50", True), ("100 MB", True), ("9.00", False), ("100 MB", True)])

    def test_the_page_says_what_is_measured_and_what_is_not(self) -> None:
        page = importlib.import_module("lab.many.page")
        runs = [record(IDLE, WIDE.name, OURS.name, seconds=2.0, files=WIDE.files, notes={"peak_bytes": 90 * MB})]
        made_of = page_of(page, {IDLE: runs})
        whole(self, made_of)
        self.assertIn("| tidegate (a) | 2.00 | 2.00 | 90 |", made_of.text)
        self.assertIn("Not measured yet.", made_of.text)
