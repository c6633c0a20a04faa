"""What the hypervisor disturbed is made again, whoever's it is and however fast it was."""

import tempfile
import unittest
from contextlib import redirect_stdout
from dataclasses import replace
from io import StringIO
from pathlib import Path

from lab.ground.results import Record, load
from lab.ground.rotation import AGAIN, Rotation, disturbances
from lab.tests.records import record


def run(stolen: float, mbit: float = 100.0, ok: bool = True) -> Record:
    noise = {"other_cpus": 0.0, "stolen_cpus": stolen}
    return record("some", "link", "auto", ok=ok, rate_bps=mbit * 1e6, notes={"noise": noise})


class Disturbed(unittest.TestCase):
    def taken(self, *runs: Record) -> tuple[Record, int]:
        """What was kept of these, made one after the other, and how many were made."""
        coming = list(runs)
        with tempfile.TemporaryDirectory() as root, redirect_stdout(StringIO()):
            results = Path(root) / "some.jsonl"
            rotation = Rotation(results, 30.0)
            rotation.take(replace(runs[0], notes={}), 30.0, lambda: coming.pop(0))
            kept, = load(results)
        return kept, len(runs) - len(coming)

    def test_a_run_on_a_calm_host_is_made_once(self) -> None:
        kept, count = self.taken(run(0.01), run(0.0))
        self.assertEqual((kept.stolen_cpus, count), (0.01, 1))
        self.assertNotIn("set_aside", kept.notes)

    def test_a_disturbed_one_is_made_again_and_kept_in_mind(self) -> None:
        kept, count = self.taken(run(0.8, 200.0), run(0.02, 50.0), run(0.0))
        self.assertEqual((kept.rate_bps, count), (50e6, 2), "not the faster one")
        self.assertEqual(kept.notes["set_aside"], [{"stolen_cpus": 0.8, "rate_bps": 200e6}])

    def test_the_least_disturbed_counts_where_the_host_stays_busy(self) -> None:
        kept, count = self.taken(run(0.8), run(0.3), run(0.5), run(0.0))
        self.assertEqual((kept.stolen_cpus, count), (0.3, 1 + AGAIN))

    def test_a_failure_is_a_failure(self) -> None:
        kept, count = self.taken(run(0.8), run(0.8, ok=False), run(0.0))
        self.assertEqual((kept.ok, count), (False, 2))

    def test_a_page_says_so(self) -> None:
        self.assertEqual(disturbances([run(0.0), replace(run(0.0), notes={})]), "")
        again = replace(run(0.2), notes={**run(0.2).notes, "set_aside": [{"stolen_cpus": 0.5, "rate_bps": 1.0}]})
        said = disturbances([run(0.0), again, run(0.3), run(0.01)])
        self.assertIn("1 of 4", said)
        self.assertIn("2 of those were disturbed still", said)
