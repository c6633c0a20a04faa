"""The page about eight controllers, from invented runs; and what is said to a service in place of movers."""

import importlib
import tempfile
import unittest
from pathlib import Path
from typing import Any
from unittest import mock

from lab.eight import renewing
from lab.eight.cases import ALONE, COUNT, DIVIDED, FIXED, NAME, RULES, SHARDS, STREAM_BPS, SWEEP, TOGETHER, cells
from lab.ground.results import Record
from lab.tests.records import log, made, page_of, whole


def eight(rule: str, rates: list[float], streams: int) -> Record:
    """A run of a minute in which each has its rate from first to last."""
    seconds = int(TOGETHER.seconds)
    run = made(NAME, TOGETHER.name, rule, [sum(rates)] * seconds)
    run.notes["epochs"] = [log([rate] * seconds, [streams] * seconds) for rate in rates]
    return run


def one(case: str, rule: str, mbit: float, seconds: float) -> Record:
    return made(NAME, case, rule, [mbit] * int(seconds))


class Cases(unittest.TestCase):
    def test_the_link_needs_what_is_swept_and_each_rule_has_eight_transfers(self) -> None:
        self.assertIn(TOGETHER.scenario.link_bps / STREAM_BPS, FIXED)
        there = {cell.contender.name: len(cell.case.presence) for cell in cells() if cell.case is TOGETHER}
        self.assertEqual(there, {rule.name: COUNT for rule in RULES})
        self.assertLessEqual(SHARDS[0].minutes, 30)


class Pages(unittest.TestCase):
    def test_the_page_holds_eight_against_one_and_against_what_the_link_needs(self) -> None:
        page = importlib.import_module("lab.eight.page")
        runs = [one(ALONE.name, "auto", 380, ALONE.seconds), one(SWEEP.name, "fixed 16", 310, SWEEP.seconds),
                one(SWEEP.name, "fixed 20", 378, SWEEP.seconds), one(SWEEP.name, "fixed 24", 380, SWEEP.seconds),
                eight("auto", [47.0] * COUNT, 4), eight("aimd", [10.0] * 4 + [80.0] * 4, 6),
                eight(DIVIDED.name, [47.5] * COUNT, 3)]
        done = page_of(page, {NAME: runs})
        whole(self, done)
        for line in ("| `auto`: Jain's index | ≥ 0.95 | 1.000 | 1 | yes |",
                     "| `auto`: all together ÷ one `auto` alone | ≥ 0.97 | 0.99 | 1 | yes |",
                     "| `auto`: streams in all ÷ what the link needs | ≤ 1.5 | 1.60 | 1 | **no** |",
                     "| `aimd`: Jain's index | ≥ 0.95 | 0.623 | 1 | **no** |",
                     f"| `{DIVIDED.name}`: streams in all ÷ what the link needs | ≤ 1.5 | 1.20 | 1 | yes |",
                     "The link needs 20."):
            self.assertIn(line, done.text)
        self.assertIn("Not measured yet.", page_of(page, {}).text)


class Renewing(unittest.TestCase):
    def test_it_says_what_was_used_and_writes_what_may_be(self) -> None:
        said: list[tuple[str, Any]] = []

        def post(url: str, token: str, path: str, body: dict[str, Any]) -> dict[str, Any]:
            said.append((path, body))
            return {"lease": 7, "streams": len(said)}

        with tempfile.TemporaryDirectory() as held, mock.patch.object(renewing, "post", post):
            directory = Path(held)
            player = renewing.Player("http://there", "secret", directory, 3, "0.1.0")
            self.assertEqual((directory / "bounds3").read_text(), "1\n")
            player.renew()
            self.assertEqual(said[-1], ("/mover/renew", {"lease": 7, "streams": 0, "throughput_bps": 0, "bytes": 0}))
            line = '{"concurrency": {"network": 5}, "throughput_bps": {"network": 2500000.4}}\n'
            (directory / "epochs3.jsonl").write_text(line + '{"concurrency": {"ne')
            player.renew()
            self.assertEqual((said[-1][1]["streams"], said[-1][1]["throughput_bps"]), (5, 2500000))
            self.assertEqual((directory / "bounds3").read_text(), "3\n")
