"""The page about small buffers, from invented runs."""

import importlib
import unittest

from lab.buffers import cases
from lab.tests.records import page_of, record, whole


class Buffers(unittest.TestCase):
    def test_small_ones_are_held_against_usual_ones(self) -> None:
        page = importlib.import_module("lab.buffers.page")
        runs = [record(cases.SHARD, row, "one stream", repeat, rate_bps=bps, notes={
                    "late_bps": bps, "streams": 1, "wmem_max": 4 << 20, "rmem_max": 4 << 20, "noise": {"other_cpus": 0.1}})
                for row, rates in ((cases.SMALL, (5e6, 6e6)), (cases.USUAL, (180e6, 190e6))) for repeat, bps in enumerate(rates)]
        self.assertEqual([(bar.measured, bar.met) for bar in page.bars(runs)], [("0.03", False)])
        made_of = page_of(page, {cases.SHARD: runs})
        whole(self, made_of)
        self.assertIn("`wmem_max` was 4096 KiB", made_of.text)
        self.assertIn("| 64 KiB at most | one stream | 6 | 5–6 | 2 |", made_of.text)
        self.assertIn("Not measured yet.", page_of(page, {}).text)
