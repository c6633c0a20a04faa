"""The page about the control rules, from invented epochs; and what is asked of the program."""

import tempfile
import unittest
from contextlib import redirect_stdout
from dataclasses import replace
from io import StringIO
from pathlib import Path
from xml.etree import ElementTree

from lab.controllers import report
from lab.controllers.rules import DEMO, FIXED, Probe, measurements
from lab.ground.results import Record


def record(name: str, gbps: list[float], streams: list[int] | None = None, repeat: int = 0) -> Record:
    streams = streams or [10] * len(gbps)
    lines = [{"t_ms": 1000 * i, "interval_ms": 800,
              "concurrency": {"read": 13, "network": n, "write": 5},
              "throughput_bps": {"read": rate * 1e9, "network": rate * 1e9, "write": rate * 1e9}}
             for i, (rate, n) in enumerate(zip(gbps, streams), 1)]
    return Record(scenario="controllers", set="demo" if name == DEMO else "probe", contender=name, level="b",
                  repeat=repeat, seed=1, scale=1.0, ok=True, version="v", time="2026-01-01T00:00:00+00:00",
                  rate_bps=gbps[-1] * 1e9, cpu_seconds=2.0,
                  notes={"epochs": lines, "verified": True, "bytes_moved": 1_000_000_000})


FIXED_RUNS = [record("fixed:8", [1.6] * 9, [8] * 9), record("fixed:10", [1.0, 1.0, *[2.0] * 7])]
GRADIENT = record("gradient", [*[0.5] * 11, *[1.8] * 49], [*range(1, 12), *[9, 10, 11] * 16, 10])
AUTO = record("auto", [*[0.5] * 5, *[1.7] * 55, 9.9])


class Page(unittest.TestCase):
    def test_the_best_fixed_number_leaves_out_its_start(self) -> None:
        found = report.rivals(FIXED_RUNS)
        best = report.best_fixed(found)
        assert best is not None
        self.assertEqual(best.name, "fixed:10")
        self.assertAlmostEqual(best.gbps(3).median, 2.0)
        self.assertIsNone(report.best_fixed({}))

    def test_goals_look_at_their_own_epochs_and_at_sixty_at_most(self) -> None:
        found = report.rivals([*FIXED_RUNS, GRADIENT, AUTO, record(DEMO, [0.1, 0.1, 0.9, 0.8])])
        reached = {goal.what.split("`")[1] if "`" in goal.what else DEMO: goal.reached.median
                   for goal in report.goals(found)}
        self.assertEqual({name: round(value, 6) for name, value in reached.items()},
                         {"gradient": 0.9, "auto": 0.85, DEMO: 0.85})
        self.assertIn("| 0.850 | ≥ 0.9 | no |", report.goals_table(found))
        self.assertIn("| 0.850 | ≥ 0.85 | yes |", report.goals_table(found))

    def test_a_rule_that_never_gets_there_is_said_to(self) -> None:
        rows = report.rules_table(report.rivals([*FIXED_RUNS, GRADIENT, record("auto", [1.0] * 20, repeat=0),
                                                 record("auto", [2.0] * 20, repeat=1)]))
        self.assertIn("| `gradient` | 3 s |", rows)
        self.assertIn("| 0.900 | never | never | 10.0 | 9–11 |", rows)
        self.assertIn("| not always |", rows)

    def test_fixed_numbers_are_in_order(self) -> None:
        rows = report.fixed_table(report.rivals(FIXED_RUNS[::-1])).splitlines()[2:]
        self.assertEqual(rows, ["| 8 | 1.600 | 0.800 | 2.00 | 1 |", "| 10 (best) | 2.000 | 1.000 | 2.00 | 1 |"])

    def test_range_only_where_there_is_one(self) -> None:
        found = report.rivals([record("auto", [1.0]), record("auto", [3.0], repeat=1), record("auto", [2.0], repeat=2)])
        self.assertEqual(report.shown(found["auto"].gbps(1)), "2.00 (1.00–3.00)")
        self.assertEqual(report.shown(report.rivals([AUTO])["auto"].gbps(6, 60), 1), "1.7")

    def test_everything_is_written(self) -> None:
        failed = replace(record("aimd", [1.0]), ok=False, error="it broke")
        with tempfile.TemporaryDirectory() as held, redirect_stdout(StringIO()):
            page = Path(held, "below", "controllers.md")
            report.write([*FIXED_RUNS, GRADIENT, AUTO, record(DEMO, [0.5, 1.0]), failed], page)
            text = page.read_text()
            self.assertIn("](controllers.svg)", text)
            self.assertIn("| 1 | yes | 1.000 | 1.000 | 2 | 13, 10, 5 | 2.00 |", text)
            self.assertIn("- aimd, repeat 1: it broke", text)
            for name in ("controllers.svg", "controllers-demo.svg"):
                ElementTree.fromstring(page.with_name(name).read_text())
            self.assertEqual(len(page.with_name("controllers.csv").read_text().splitlines()), 1 + 18 + 60 + 61 + 2)

    def test_page_without_measurements(self) -> None:
        self.assertIn("Nothing has been measured yet.", report.page([]))


class Asked(unittest.TestCase):
    def test_every_rule_and_number_is_measured_and_the_demo(self) -> None:
        names = [each.name for each in measurements(10)]
        self.assertEqual(names, ["auto", "gradient", "falcon", "aimd", *(f"fixed:{n}" for n in FIXED), "demo"])
        lengths = {each.name: each.seconds for each in measurements(10)}
        self.assertGreater(lengths["gradient"], 180)
        self.assertEqual(lengths["fixed:8"], 10)

    def test_the_probe_as_the_page_prints_it(self) -> None:
        asked = " ".join(map(str, Probe("gradient", 180).shown("DST")[1:]))
        self.assertEqual(asked, report.PROBE.replace("tidegate ", "").replace("T --json", "180s --json")
                         .replace("X", "gradient"))
