"""The page about the control rules, from invented epochs; and what is asked of the program."""

import unittest

from lab.controllers import report
from lab.controllers.cells import DEMO, FIXED, LINK, SHOWN, cases, cells
from lab.grid.engine import MAX_WORKERS
from lab.grid.figures import Found, found_in
from lab.ground.results import Record
from lab.links.scenario import read
from lab.pages.html import bars as bars_in
from lab.tests import records
from lab.tests.records import epoch, whole


def record(name: str, gbps: list[float], streams: list[int] | None = None, repeat: int = 0) -> Record:
    streams = streams or [10] * len(gbps)
    lines = [epoch(i, (13, n, 5), rate * 1e3) for i, (rate, n) in enumerate(zip(gbps, streams), 1)]
    notes = {"epochs": [lines], "verified": True, "bytes_moved": 1_000_000_000, "samples": [[0.0, 0, 0]]}
    return records.record("controllers", "demo" if name == DEMO else "epochs-1s", name, repeat,
                          rate_bps=gbps[-1] * 1e9, notes=notes)


def found(*records: Record) -> Found:
    return found_in(records, "controllers")


FIXED_RUNS = [record("fixed 8", [1.6] * 12, [8] * 12), record("fixed 10", [1.0, 1.0, *[2.0] * 10])]
GRADIENT = record("gradient", [*[0.5] * 11, *[1.8] * 49], [*range(1, 12), *[9, 10, 11] * 16, 10])
AUTO = record("auto", [*[0.5] * 5, *[1.7] * 55, 9.9])
HALVES = record(DEMO, [*[0.1] * 10, *[0.9] * 5, *[0.8] * 5])


class Page(unittest.TestCase):
    def test_the_best_fixed_number_leaves_out_its_start(self) -> None:
        best = report.best_fixed(report.rivals(found(*FIXED_RUNS)))
        assert best is not None
        self.assertEqual(best.name, "fixed 10")
        self.assertAlmostEqual(best.gbps(3).median, 2.0)
        self.assertIsNone(report.best_fixed({}))

    def test_bars_look_at_their_own_epochs_and_at_sixty_at_most(self) -> None:
        made = report.bars(report.rivals(found(*FIXED_RUNS, GRADIENT, AUTO, HALVES)))
        self.assertEqual([(bar.measured, bar.wanted, bar.met) for bar in made],
                         [("0.900", "≥ 0.9", True), ("0.850", "≥ 0.9", False), ("0.850", "≥ 0.85", True)])

    def test_a_rule_that_never_gets_there_is_said_to(self) -> None:
        rows = report.rules_table(report.rivals(found(*FIXED_RUNS, GRADIENT, record("auto", [1.0] * 20, repeat=0),
                                                      record("auto", [2.0] * 20, repeat=1))))
        self.assertIn("| `gradient` | 3 s |", rows)
        self.assertIn("| 0.900 | 1.80 | never | never | 10.0 | 9–11 |", rows)
        self.assertIn("| not always |", rows)

    def test_fixed_numbers_are_in_order(self) -> None:
        rows = report.fixed_table(report.rivals(found(*FIXED_RUNS[::-1]))).split("\n")[2:4]
        self.assertEqual(rows, ["| 8 | 1.600 | 0.800 | 1.60 | 2.00 | 1 |",
                                "| 10 (best) | 2.000 | 1.000 | 2.00 | 2.00 | 1 |"])

    def test_a_run_cut_short_is_left_out(self) -> None:
        self.assertEqual(list(report.rivals(found(record("auto", [1.0] * 3), FIXED_RUNS[0]))), ["fixed 8"])

    def test_everything_is_written(self) -> None:
        page = report.made(found(*FIXED_RUNS, GRADIENT, AUTO, HALVES), [record("aimd", [1.0] * 12)])
        whole(self, page)
        self.assertEqual(set(page.beside), {"controllers.svg", "controllers-demo.svg", "controllers.csv"})
        self.assertIn("| 1 | yes | 0.800 | 0.850 | 20 | 13, 10, 5 | 2.00 |", page.text)
        self.assertIn("- aimd, repeat 1: ", page.text)
        self.assertEqual([row[-1] for row in bars_in(page.text)], ["yes", "**no**", "yes"])
        self.assertEqual(len(page.beside["controllers.csv"].splitlines()), 1 + 24 + 60 + 61 + 20)

    def test_page_without_measurements(self) -> None:
        self.assertIn("Nothing has been measured yet.", report.made({}).text)


class Asked(unittest.TestCase):
    def test_every_rule_and_number_is_measured_and_the_demo(self) -> None:
        there = [(cell.case.name, cell.contender.name) for cell in cells()]
        self.assertEqual(there, [("epochs-3s", "gradient"), ("epochs-3s", "falcon"), ("epochs-1s", "auto"),
                                 ("epochs-1s", "aimd"), *(("epochs-1s", f"fixed {n}") for n in FIXED), (DEMO, DEMO)])
        slow, quick, _ = cases()
        self.assertGreater(slow.seconds, 180)
        self.assertGreater(quick.seconds, 60)

    def test_the_link_is_the_one_of_issue_two(self) -> None:
        link = read(LINK)
        self.assertEqual((link.link_bps, link.stream_bps), (2_000_000_000, 200_000_000))
        self.assertIn(f"--max-workers {MAX_WORKERS}", SHOWN)
