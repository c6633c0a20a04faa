"""The seven rows: what is run on each, the bars and the page, from made-up records."""

import unittest

from lab.grid.engine import Engine
from lab.grid.figures import Found, found_in
from lab.grid.stretch import goodput, stages, workers
from lab.ground.results import Record
from lab.rows import bars, cases
from lab.rows.page import page
from lab.tests.records import made, whole

FILES, ONE, MANY, SHARED = (cases.ROWS[i] for i in (0, 2, 4, 6))


def run(row: cases.Row, mover: str, mbit: float, streams: int, repeat: int = 0, slow_s: int = 0) -> Record:
    rates = [mbit / 10] * slow_s + [mbit] * (round(row.case.seconds) - slow_s)
    files = row.case.data is not None
    counts = [(streams, streams, 8) if files else (0, streams, 0)] * len(rates)
    return made(cases.SHARD, row.case.name, mover, rates, repeat, streams, counts, files=10 * files)


def engines(row: cases.Row) -> list[Engine]:
    return [cell.contender for cell in row.cells() if isinstance(cell.contender, Engine)]


def found(*records: Record) -> Found:
    return found_in(records, cases.SHARD)


class Rows(unittest.TestCase):
    def test_everybody_is_in_one_rotation(self) -> None:
        for row in cases.ROWS:
            movers = [cell.contender.name for cell in row.cells()]
            self.assertEqual((movers[0], len(set(movers))), (cases.OWN.name, len(movers)))
        self.assertEqual([len(row.cells()) for row in cases.ROWS], [2, 4, 3, 2, 3, 2, 8])

    def test_only_our_own_rule_is_told_how_hard_to_push(self) -> None:
        told = {each.name: each.rule.arguments for each in engines(SHARED)}
        self.assertEqual([name for name, arguments in told.items() if arguments == cases.FULL], [cases.OWN.name])

    def test_limits_are_told_to_every_rule_of_the_first_row(self) -> None:
        self.assertEqual([each.more for each in engines(FILES)], [FILES.limits] * 2)
        assert FILES.case.data is not None and FILES.case.scenario.stream_bps is None
        self.assertGreater(FILES.case.data.size * 8, FILES.case.seconds * FILES.case.scenario.link_bps)

    def test_the_sixth_changes_twice(self) -> None:
        path = cases.ROWS[5].case.scenario
        self.assertEqual([now.link.rate_bps // 10**6 for now in path.moments], [900, 250, 650])


class Figures(unittest.TestCase):
    def test_files_count_by_what_was_written(self) -> None:
        record = run(FILES, "auto", 20, 31)
        (one,) = found(record)[FILES.case.name]["auto"]
        self.assertAlmostEqual(goodput(one, 0, 60), 20e6)
        one.record.notes["samples"] = [(0.0, 0, 0), (60.0, 10**9, 31)]
        self.assertAlmostEqual(goodput(one, 0, 60), 20e6)
        self.assertEqual((workers(one, 0, 60), stages(one, 30, 60)), (70, [31, 31, 8]))

    def test_from_memory_what_arrived_counts_and_streams_alone_are_workers(self) -> None:
        (one,) = found(run(MANY, "auto", 800, 12, slow_s=20))[MANY.case.name]["auto"]
        self.assertAlmostEqual(goodput(one, 0, 40) / 1e6, 440, places=3)
        self.assertAlmostEqual(goodput(one, 20, 40) / 1e6, 800, places=3)
        self.assertEqual((workers(one, 0, 40), stages(one, 0, 40)), (12, [12]))

    def test_the_best_fixed_is_the_least_that_is_as_good(self) -> None:
        there = found(run(MANY, "fixed 12", 790, 12), run(MANY, "fixed 16", 795, 16))[MANY.case.name]
        self.assertEqual(bars.best_fixed(MANY, there), "fixed 12")
        there = found(run(MANY, "fixed 12", 700, 12), run(MANY, "fixed 16", 795, 16))[MANY.case.name]
        self.assertEqual(bars.best_fixed(MANY, there), "fixed 16")
        self.assertIsNone(bars.best_fixed(MANY, found(run(MANY, "fixed 12", 790, 12))[MANY.case.name]))


class Bars(unittest.TestCase):
    def met(self, row: cases.Row, *records: Record) -> list[bool | None]:
        return [bar.met for bar in bars.row_bars(row, found(*records)[row.case.name])]

    def test_goodput_and_workers(self) -> None:
        fixed = [run(MANY, f"fixed {n}", 790, n, repeat) for n in (12, 16) for repeat in range(3)]
        self.assertEqual(self.met(MANY, *fixed, *(run(MANY, "auto", 780, 15, i) for i in range(3))), [True, True])
        self.assertEqual(self.met(MANY, *fixed, *(run(MANY, "auto", 700, 16, i) for i in range(3))), [False, False])

    def test_two_where_one_is_enough(self) -> None:
        fixed = [run(ONE, f"fixed {n}", 19, n) for n in (1, 2)]
        self.assertEqual(self.met(ONE, *fixed, run(ONE, "auto", 19, 2)), [True, True])
        self.assertEqual(self.met(ONE, *fixed, run(ONE, "auto", 19, 3)), [True, False])

    def test_the_first_row_has_a_least_of_its_own(self) -> None:
        self.assertEqual(self.met(FILES, run(FILES, "auto", 17, 31)), [False])
        self.assertEqual(self.met(FILES, run(FILES, "auto", 19, 31), run(FILES, "fixed 31,31,8", 19, 31)), [True] * 3)


class Page(unittest.TestCase):
    def test_nothing_measured(self) -> None:
        made = page({})
        self.assertEqual(made.beside, {})
        self.assertIn("0 of 7 rows run.", made.text)

    def test_what_is_there(self) -> None:
        shared = [run(SHARED, name, 100 + n, n) for n, name in enumerate(("auto", "aimd", "fts3"), 1)]
        made = page({cases.SHARD: [run(FILES, "auto", 17, 30), run(FILES, "fixed 31,31,8", 20, 31), *shared]})
        whole(self, made)
        self.assertEqual(set(made.beside), {"beyond-rows-row-1.svg", "beyond-rows-row-7.svg", "beyond-rows.csv"})
        self.assertIn("2 of 7 rows run.", made.text)
        self.assertIn("| **auto** | 17.0 | 17.0 | 30.0/30.0/8.0 | 30.0/30.0/8.0 | 1 |", made.text)
