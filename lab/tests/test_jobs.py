"""The page about jobs beside the same by hand, from invented runs."""

import importlib
import unittest

from lab.grid.figures import found_in
from lab.jobs import cases
from lab.tests.records import made, page_of, record, whole


def turns(shard: str, seconds: dict[str, list[float]]) -> list[object]:
    return [record(shard, "row", name, repeat, seconds=took) for name, those in seconds.items()
            for repeat, took in enumerate(those)]


class Jobs(unittest.TestCase):
    def setUp(self) -> None:
        self.page = importlib.import_module("lab.jobs.page")

    def test_each_bar_is_judged_by_pairs_of_a_turn(self) -> None:
        copies = turns(cases.COPY, {cases.BY_HAND: [5.0, 10.0, 5.0], cases.BY_JOB: [5.4, 10.8, 9.0]})
        little = turns(cases.GRIDFTP, {cases.ONE: [12.0], cases.AS_IT_IS: [6.0]})
        drives = [made(cases.POLICY, cases.READER, name, [rate] * 4)
                  for name, rate in ((cases.AUTO.name, 240.0), (cases.LDM.name, 140.0))]
        bars = self.page.bars({cases.COPY: copies, cases.GRIDFTP: little}, found_in(drives, cases.POLICY))
        self.assertEqual([(bar.measured[:4], bar.met) for bar in bars],
                         [("1.08", True), ("0.50", False), ("0.58", False)])

    def test_the_page_says_what_is_measured_and_what_is_not(self) -> None:
        some = turns(cases.COPY, {cases.BY_HAND: [5.0], cases.BY_JOB: [5.5]})
        made_of = page_of(self.page, {cases.COPY: some})
        whole(self, made_of)
        self.assertIn("| submit | 5.50 | 1 |", made_of.text)
        self.assertEqual(made_of.text.count("Not measured yet."), 2)
        self.assertIn("What this does not show", made_of.text)

    def test_a_drive_has_more_to_read_than_its_time_allows(self) -> None:
        case = cases.case()
        assert case.data is not None
        self.assertGreater(case.data.size * case.times * 8, case.scenario.link.rate_bps * case.seconds)
