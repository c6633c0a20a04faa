"""The tables, from invented measurements; and the results file."""

import io
import tempfile
import unittest
from contextlib import redirect_stdout
from dataclasses import replace
from pathlib import Path
from typing import Any

from lab.movers import report
from lab.ground.results import Record, append, load, set_aside_if_outdated
from lab.tests import records


def record(contender: str, gbps: float, repeat: int = 0, name: str = "A", ok: bool = True, **more: Any) -> Record:
    return records.record("open", name, contender, repeat, ok, version="1", trust="t", files=2, bytes=2_000_000_000,
                          seconds=1.0, rate_bps=gbps * 1e9, cpu_seconds=3.0, error="" if ok else "it broke", **more)


PEER = "rsync daemon, two processes"


class Tables(unittest.TestCase):
    def test_a_cell_holds_median_range_and_cpu(self) -> None:
        cell = report.cells([record("wget2", rate, i) for i, rate in enumerate([5.0, 9.0, 7.0])])["A", "wget2"]
        self.assertEqual((cell.rate.median, cell.rate.low, cell.rate.high), (7.0, 5.0, 9.0))
        self.assertEqual(cell.cpu.median, 1.5)

    def test_a_run_measured_again_counts_once(self) -> None:
        found = report.cells([record("wget2", 5.0), record("wget2", 6.0)])
        self.assertEqual((found["A", "wget2"].rate.count, found["A", "wget2"].rate.median), (1, 6.0))

    def test_goals_compare_with_the_fastest_peer(self) -> None:
        found = report.cells([record("tidegate (c)", 12.0, level="c"), record("wget2", 10.0, level="c"),
                              record("rclone http", 12.5, level="c")])
        [row] = report.goal_rows(found, report.GOALS[-1])
        self.assertEqual(row, ["c, A: ÷ rclone http, the fastest named peer", "≥ 1", "0.96", "1, 1", "no"])

    def test_geometric_mean_needs_all_sets(self) -> None:
        runs = [record(who, rate, name=name) for name in "ABCD" for who, rate in (("tidegate (b)", 12.0), (PEER, 10.0))]
        rows = report.goal_rows(report.cells(runs), report.GOALS[2])
        self.assertEqual(rows[-1], [f"b, geometric mean: ÷ {PEER}", "≥ 1", "1.20", "", "yes"])
        self.assertEqual(rows[1][-1], "yes")
        self.assertEqual(len(report.goal_rows(report.cells(runs[:-1]), report.GOALS[2])), 3)

    def test_page_names_failures_and_leaves_out_small_trials(self) -> None:
        page = report.write([record(PEER, 10.0), record("iperf3 -P 1", 20.0, level="limit"),
                             record("wget2", 0.0, ok=False), record("aria2", 3.0, scale=0.01)])
        self.assertIn("| rsync daemon, two processes | b | t | 10.00 | 10.00–10.00 | 1.50 | 0.50 |", page)
        self.assertIn("- wget2 on A, repeat 0: it broke", page)
        self.assertNotIn("| aria2", page)
        self.assertIn("`python3 -m lab report copy`", page)

    def test_chosen_concurrency_is_shown(self) -> None:
        runs = [replace(record("tidegate (b)", 9.0, i), notes={"concurrency_mean": {"read": 1, "network": n}})
                for i, n in enumerate([2, 4, 3])]
        self.assertEqual(report.concurrency_lines(runs), "- tidegate (b), mean concurrency: read 1.0, network 3.0\n")

    def test_page_without_measurements(self) -> None:
        self.assertIn("Nothing has been measured yet.", report.write([]))


class ResultsFile(unittest.TestCase):
    def test_a_line_cut_short_is_left_out(self) -> None:
        with tempfile.TemporaryDirectory() as held:
            path = Path(held, "below", "results.jsonl")
            append(path, record("wget2", 5.0))
            append(path, record("wget2", 6.0, repeat=1))
            path.write_text(path.read_text()[:-20])
            self.assertEqual([found.rate_bps for found in load(path)], [5.0e9])
        self.assertEqual(load(Path("absent")), [])

    def test_another_build_starts_anew(self) -> None:
        with tempfile.TemporaryDirectory() as held, redirect_stdout(io.StringIO()) as said:
            path = Path(held, "results.jsonl")
            append(path, record("wget2", 5.0))
            append(path, replace(record("wget2", 5.0), scenario="long"))
            set_aside_if_outdated(path, "open", {"wget2": "1"})
            self.assertEqual(len(load(path)), 2)
            set_aside_if_outdated(path, "open", {"wget2": "2"})
            self.assertEqual([kept.scenario for kept in load(path)], ["long"])
            self.assertEqual(len(list(Path(held).iterdir())), 2)
            self.assertIn("wget2 was 1 and is 2", said.getvalue())
