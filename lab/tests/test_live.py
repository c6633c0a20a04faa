"""Live paths: the figures, the rules a binary offers, what is asked of it, and the page."""

import tempfile
import tomllib
import unittest
from collections.abc import Sequence
from contextlib import redirect_stdout
from dataclasses import replace
from io import StringIO
from pathlib import Path
from xml.etree import ElementTree

from lab.live import figures
from lab.live import bars
from lab.live import report
from lab.live.experiments import CAPS, experiments, wanted
from lab.live.rules import Rule, offered
from lab.ground.results import Record
from lab.tests.test_epochs import made

HELP = """
      --optimizer <NAME>
          The rule that sets the numbers: auto, fixed:N, {more}aimd, falcon, gradient,
          marlin, or coupled:RULE

          [default: auto]

      --epoch <TIME>
          Length, as bayesian or universal rules have it
"""


class Figures(unittest.TestCase):
    def test_what_an_epoch_did_not_measure_counts_as_what_it_did(self) -> None:
        run = made([100, 200], measured=[0.8, 0.8])
        self.assertEqual((figures.lasted(run), figures.moved(run), figures.mean_bps(run)), ([1.0, 1.0], 300, 150))

    def test_the_first_epoch_with_enough(self) -> None:
        run = made([5, 9, 8, 9])
        self.assertEqual(figures.seconds_to(run, 9), 2.0)
        self.assertIsNone(figures.seconds_to(run, 10))

    def test_only_whole_epochs_lie_after_a_second(self) -> None:
        run = made([1, 2, 3, 4])
        self.assertEqual([e.goodput_bps for e in figures.since(run, 1.0, 3.0)], [2, 3])
        self.assertEqual([e.goodput_bps for e in figures.since(run, 1.5)], [3, 4])

    def test_workers(self) -> None:
        run = made([1, 1, 1, 1], workers=[6, 8, 6, 8])
        self.assertEqual(figures.deviations(run), (0, 1, 0))
        self.assertEqual(figures.usual(run), (1, 7, 1))
        self.assertAlmostEqual(figures.furthest((13, 9, 4), (13, 7, 5)), 2 / 7)

    def test_a_path_is_used_again_if_two_epochs_say_so(self) -> None:
        run = made([9, 9, 9, 1, 9, 1, 9, 9, 9])
        # The epoch from 2 to 3 holds the step at 2.5.
        self.assertEqual(figures.epochs_until(run, 2.5, 9, 9), 4)
        self.assertEqual(figures.epochs_until(run, 2.5, 9, 9, stays=1), 2)
        self.assertIsNone(figures.epochs_until(run, 2.5, 9, 7))
        self.assertEqual(figures.short(run, 2.5, 9, 9), 2)

    def test_jain(self) -> None:
        self.assertEqual(figures.jain([3, 3, 3]), 1)
        self.assertEqual(figures.jain([5, 0, 0, 0]), 0.25)
        self.assertEqual(figures.jain([0, 0]), 0)

    def test_a_transfer_that_joined_later(self) -> None:
        run = made([4, 8])
        self.assertEqual([figures.at(run, 10, s) for s in (9.5, 10.5, 11.5, 12.5)], [0, 4, 8, 0])
        self.assertEqual(figures.mean_between(run, 10, 10.5, 11.5), 6)
        self.assertEqual(figures.mean_between(run, 10, 11.5, 13.5), 2)

    def test_the_first_second_of_something(self) -> None:
        self.assertEqual(figures.first_second(10, 20, lambda s: s > 12), 3)
        self.assertIsNone(figures.first_second(10, 20, lambda s: s > 20))


class Rules(unittest.TestCase):
    def test_only_what_is_offered(self) -> None:
        names = [rule.name for rule in offered(HELP.format(more=""), "  copy  Copy\n")]
        self.assertEqual(names, ["auto", "marlin", "falcon", "gradient", "aimd"])

    def test_policies_need_training(self) -> None:
        text = HELP.format(more="policy, universal, bayesian, ")
        names = [rule.name for rule in offered(text, "  train  Learn a policy\n")]
        self.assertEqual(names, ["auto", "universal", "marlin", "falcon", "gradient", "aimd", "bayesian",
                                 "policy", "policy-ldm", "policy-automdt"])
        self.assertNotIn("policy", [rule.name for rule in offered(text, "  constrain  Learn\n")])

    def test_what_the_program_is_told(self) -> None:
        self.assertEqual(Rule("auto").argv(None), ["--optimizer", "auto"])
        self.assertEqual(Rule("policy-ldm", recipe="ldm").argv(Path("p")),
                         ["--optimizer", "policy", "--policy", Path("p")])

    def test_words_choose_paths_and_rules(self) -> None:
        rules = [Rule("auto"), Rule("marlin")]

        def names(words: list[str] | None) -> list[tuple[str, str]]:
            return [(experiment.name, rule.name) for experiment, rule in wanted(words, rules)]

        self.assertEqual(names(["read", "marlin"]), [("read", "marlin")])
        self.assertEqual(names(["marlin"]), [(name, "marlin") for name in CAPS])
        self.assertEqual(names(["share-2"]), [("share-2", "auto")])
        self.assertEqual(len(names(None)), 2 * len(CAPS) + 5)
        with self.assertRaises(SystemExit):
            wanted(["marlyn"], rules)


class Paths(unittest.TestCase):
    def test_transfers_join_before_the_first_leaves(self) -> None:
        for experiment in bars.shared():
            joins, leaves = zip(*experiment.visits)
            self.assertLess(max(joins) + bars.FAIR_WITHIN_S, min(leaves))
            self.assertEqual(max(leaves), experiment.seconds)

    def test_optima_are_those_of_the_caps(self) -> None:
        for caps in CAPS.values():
            for rate, n in zip((caps.read, caps.network, caps.write), caps.best):
                self.assertGreaterEqual(rate * n, 975)
                self.assertLess(rate * (n - 1), 1000)

    def test_a_path_to_train_on(self) -> None:
        told = tomllib.loads(CAPS["write"].scenario)
        self.assertEqual(told["write"], {"worker_rate": "70Mbit/s", "max_workers": 32})
        self.assertEqual(told["link"]["rate"], "1000Mbit/s")

    def test_steps_last_until_the_next(self) -> None:
        [first, second] = bars.steps_of(next(e for e in experiments() if e.link_steps))
        self.assertEqual((first.at_s, first.until_s, second.until_s), (25, 50, 75))
        self.assertAlmostEqual(first.carries_bps / 4e8, figures.CONTENT)


def lines(rates: Sequence[float], streams: Sequence[int], epoch_s: float = 1.0) -> list[dict[str, object]]:
    return [{"t_ms": 1000 * i * epoch_s, "interval_ms": 800, "loss": 0.0, "rtt_us": 1000,
             "concurrency": {"read": 13, "network": n, "write": 5},
             "throughput_bps": {"read": rate * 1e6, "network": rate * 1e6, "write": rate * 1e6}}
            for i, (rate, n) in enumerate(zip(rates, streams), 1)]


def record(name: str, rule: str, *logs: list[dict[str, object]], repeat: int = 0) -> Record:
    return Record(scenario="live", set=name, contender=rule, level="b", repeat=repeat, seed=1, scale=1.0, ok=True,
                  version="v", time="2026-01-01T00:00:00+00:00", notes={"logs": list(logs)})


READ = record("read", "auto", lines([100, 500, *[1000] * 58], [1, 4, *[7] * 58]))
MARLIN = record("read", "marlin", lines([500] * 20, [4, 12] * 10, 3.0))
STEP = record("link-step", "auto", lines([950] * 25 + [380] * 25 + [400] * 6 + [950] * 19, [10] * 75))


def two(first: float, second: float) -> Record:
    """The first leaves at 65 s, the second has joined at 25 s and has the whole link from 70 s on."""
    return record("share-2", "auto", lines([950.0] * 25 + [first] * 40, [10] * 65),
                  lines([second] * 45 + [940.0] * 10, [5] * 45 + [10] * 10))


class Page(unittest.TestCase):
    def bars(self, *records: Record) -> dict[str, str]:
        rows = report.bars_table(bars.runs(records), "auto").splitlines()[2:]
        return {row.split(" | ")[0].strip("| "): row.split(" | ")[-1].strip("| ") for row in rows}

    def test_bars_of_a_path(self) -> None:
        reached = self.bars(READ, MARLIN)
        self.assertEqual(set(reached.values()), {"yes"})
        self.assertIn("read is slow: mean ÷ that of `marlin`", reached)
        slow = replace(READ, repeat=1, notes=MARLIN.notes)
        self.assertEqual(self.bars(READ, slow)["read is slow: s to 90 % of 1 Gbit/s"], "in 1 of 2 runs")
        self.assertEqual(self.bars(slow)["read is slow: workers from the best, the most of a stage"], "yes")
        self.assertEqual(self.bars(slow)["read is slow: standard deviation of workers, the most of a stage"], "no")

    def test_bars_of_a_step(self) -> None:
        self.assertEqual(self.bars(STEP), {"link 400 Mbit/s: epochs to 90 %": "yes",
                                           "link 1000 Mbit/s: epochs to 90 %": "no"})

    def test_bars_of_a_share(self) -> None:
        fair, unfair = self.bars(two(500, 450)), self.bars(two(700, 250))
        self.assertEqual(list(fair.values()), ["yes", "yes"])
        self.assertEqual(list(unfair.values()), ["no", "yes"])
        [share] = bars.shares(bars.runs([two(500, 450)]), bars.shared()[0], "auto")
        self.assertEqual((share.fair_after_s, share.retaken_s), (5, [5]))

    def test_what_never_came_is_said(self) -> None:
        self.assertEqual(bars.counted([None, None]), "never")
        self.assertEqual(bars.counted([2.0, None, 4.0]), "3 (2–4), 1 never")

    def test_everything_is_written(self) -> None:
        failed = replace(MARLIN, repeat=1, ok=False, error="it broke", notes={})
        with tempfile.TemporaryDirectory() as held, redirect_stdout(StringIO()):
            page = Path(held, "below", "live.md")
            report.made([READ, MARLIN, STEP, two(500, 450), failed]).write(page.parent)
            text = page.read_text()
            for name in ("read", "link-step", "share-2"):
                self.assertIn(f"](live-{name}.svg)", text)
                ElementTree.fromstring(page.with_name(f"live-{name}.svg").read_text())
            self.assertNotIn("live-write.svg", text)
            self.assertIn("- read, marlin, repeat 2: it broke", text)
            self.assertEqual(len(page.with_suffix(".csv").read_text().splitlines()), 1 + 60 + 20 + 75 + 65 + 55)

    def test_page_without_measurements(self) -> None:
        self.assertIn("Nothing has been measured yet.", report.page([], []))
