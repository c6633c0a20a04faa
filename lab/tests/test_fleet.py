"""The page about many hosts, from invented runs; the set of each case, and commands as they run on a host."""

import importlib
import subprocess
import unittest

from lab.fleet.cases import CASES, NAME, PAYLOAD, Case
from lab.fleet.hosts import Host
from lab.tests.records import page_of, record, whole


def samples(case: Case, share: float, seconds: float) -> list[tuple[float, int]]:
    """What would have come over all links at that share of what they carry."""
    return [(at / 2, int(case.total_mbit * 1e6 / 8 * PAYLOAD * share * at / 2)) for at in range(1, int(seconds * 2))]


class Cases(unittest.TestCase):
    def test_a_case_has_data_for_so_long_at_the_sum_of_its_rates(self) -> None:
        for case in CASES:
            self.assertLess(abs(case.ideal_s - case.load_s), 1, case.name)
            self.assertEqual(len({path for path, _ in case.plan.files}), len(case.plan.files))
            self.assertLess(case.plan.size, 4e9, "it lies in memory, twice")

    def test_a_command_stays_what_it_is_on_a_host(self) -> None:
        words = ["printf", "%s|", "it's", "$(x)", "a b"]
        there = Host("n1", "lab", "10.78.0.10").argv(words)
        self.assertEqual(there[:7], ["ip", "netns", "exec", "lab", "unshare", "--uts", "--mount"])
        said = subprocess.run(["sh", "-c", there[-1].removeprefix("hostname n1; ")], capture_output=True, text=True)
        self.assertEqual(said.stdout, "it's|$(x)|a b|")


class Pages(unittest.TestCase):
    def test_the_page_holds_runs_against_the_links_and_counts_the_exact_ones(self) -> None:
        page = importlib.import_module("lab.fleet.page")
        runs = []
        for case in CASES:
            share = 0.97 if case.name != "movers-4" else 0.8
            seconds = case.ideal_s / share
            runs.append(record(NAME, case.name, "tidegate", seconds=seconds, bytes=case.plan.size,
                               notes={"ideal_s": case.ideal_s, "samples": samples(case, share, seconds), "summary": {}}))
        runs.append(record(NAME, "node-killed", "tidegate", repeat=1, ok=False, error="the copy is wrong"))
        made = page_of(page, {NAME: runs})
        whole(self, made)
        for line in ("| 2 movers at 150 Mbit/s: share of the links from the tenth second on | ≥ 0.95 | 0.97 | 1 | yes |",
                     "| 4 movers at 150 Mbit/s: share of the links from the tenth second on | ≥ 0.95 | 0.80 | 1 | **no** |",
                     "| one of four is slow: whole time ÷ ideal | ≤ 1.1 | 1.03 | 1 | yes |",
                     "of everything on the node: complete and exact | all | 1 of 2 | 2 | **no** |"):
            self.assertIn(line, made.text)
