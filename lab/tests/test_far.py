"""The page about far links, from invented runs; and what is measured for it."""

import unittest

from lab.far import bars
from lab.far.cases import FAR, HUGE, NEAR, SEQUENTIAL, TUNED, case, cells
from lab.grid.figures import found_in
from lab.tests.records import made

FULL = (case(HUGE).goodput_bps or 0.0) / 1e6


class Cases(unittest.TestCase):
    def test_rivals_are_told_to_use_many_connections(self) -> None:
        for name in (HUGE, NEAR, FAR):
            self.assertTrue(case(name).setting.needs_streams, name)
            names = [cell.contender.name for cell in cells(name)]
            self.assertEqual(len(set(names)), len(names), "each has a name of its own")

    def test_a_link_that_two_cores_do_not_carry_says_so(self) -> None:
        self.assertIn("1.25 times slower", case(FAR).title)


class Bars(unittest.TestCase):
    def test_full_counts_from_the_start(self) -> None:
        for late, met in ((3, True), (6, False)):
            runs = found_in([made("far-huge", HUGE, "auto", [*[100.0] * late, *[0.95 * FULL] * 9])], "far-huge")
            bar = bars.huge_bars(runs)[0]
            self.assertEqual((bar.measured, bar.met), (f"{late + 1} s", met))

    def test_small_files_are_held_against_the_best_of_each_kind(self) -> None:
        rates = {"auto": 1000.0, TUNED[NEAR][0].name: 1010.0, TUNED[NEAR][1].name: 500.0, SEQUENTIAL[0].name: 100.0}
        runs = found_in([made("far-near", NEAR, name, [rate] * 4) for name, rate in rates.items()], "far-near")
        tuned, sequential = bars.small_bars(runs)
        self.assertIn(TUNED[NEAR][0].name, tuned.what)
        self.assertEqual((tuned.met, sequential.met), (True, True))

    def test_nothing_measured_makes_no_bars(self) -> None:
        self.assertEqual([*bars.huge_bars({}), *bars.small_bars({})], [])
