"""AIMD's figure 1: the sweep, the controllers, the bars and the page, from made-up records."""

import unittest
from collections.abc import Callable, Sequence

from lab.aimd import bars, cases, figures, shards
from lab.aimd.page import page
from lab.grid.figures import found_in
from lab.ground.results import Record
from lab.links.background import has_background
from lab.tests import records
from lab.tests.records import epoch, whole


def record(shard: str, external: int, mover: str, mbit: Callable[[float], float], seconds: float,
           streams: Sequence[int] = (), repeat: int = 0) -> Record:
    """A transfer that joins at 5 s and moves so many Mbit/s at each second since; one epoch a second."""
    samples, moved = [(0.0, 0, 0)], 0.0
    for quarter in range(1, int(seconds * 4) + 1):
        since = quarter / 4 - cases.JOINS_S
        moved += mbit(since) * 1e6 / 8 / 4 if since > 0 else 0.0
        samples.append((quarter / 4, int(moved), 1))
    log = [epoch(i, (1, n, 1), mbit(float(i))) for i, n in enumerate(streams, 1)]
    notes = {"samples": samples, "epochs": [log] if log else [], "noise": {"other_cpus": 0.0}, "bytes_moved": moved}
    return records.record(shard, cases.name(external), mover, repeat, seconds=seconds, rate_bps=moved * 8 / seconds,
                          notes=notes)


def swept(external: int, n: int, mbit: float, prefix: str = "fixed ", repeat: int = 0) -> Record:
    return record(shards.SWEEP, external, f"{prefix}{n}", lambda _: mbit, cases.JOINS_S + cases.SWEEP_S, repeat=repeat)


def equal(n: int, external: int) -> float:
    return 960 * n / (n + external)


SWEEP = [swept(external, n, 960.0 - 30 * (n > 32) if external == 0 else equal(n, external))
         for external in (0, 4) for n in cases.STREAMS]
CONTROL = "aimd-controllers-middle"
# One stream more a second up to sixteen, each bringing its share.
CLIMB = record(CONTROL, 4, "aimd", lambda t: equal(min(int(t) + 1, 16), 4), 95.0, [min(i, 16) for i in range(1, 91)])
BESIDE = record(CONTROL, 4, "fixed 64", lambda _: 900.0, 95.0, [64] * 90)


class Cases(unittest.TestCase):
    def test_external_streams_are_those_of_the_scenario(self) -> None:
        self.assertEqual([cases.link(external).others.streams for external in cases.EXTERNAL], list(cases.EXTERNAL))
        self.assertFalse(has_background(cases.link(0)))
        self.assertEqual((cases.link(8).link_bps, cases.link(8).stream_bps), (1_000_000_000, None))

    def test_the_transfer_joins_after_the_others(self) -> None:
        on = cases.case(4, 15.0)
        self.assertEqual((on.visits, on.seconds), (((5.0, 20.0),), 20.0))

    def test_every_cell_of_the_sweep_is_one(self) -> None:
        names = [(cell.case.name, cell.contender.name) for cell in shards.sweep_cells()]
        self.assertEqual(len(names), len(set(names)))
        self.assertEqual(len(names), shards.swept())


class Figures(unittest.TestCase):
    def test_a_level_of_the_sweep(self) -> None:
        alone, beside = figures.sweep(SWEEP, shards.SWEEP)
        self.assertAlmostEqual(beside.bps(4) / 1e6, 480, delta=1)
        self.assertEqual((beside.external, beside.best, beside.enough), (4, 64, 64))
        self.assertEqual(alone.enough, 1)
        gain = beside.gain(20)
        assert gain is not None
        self.assertAlmostEqual(gain, (equal(32, 4) / equal(16, 4) - 1) / 16, places=3)
        self.assertAlmostEqual(beside.doubled(20) or 0, equal(32, 4) / equal(16, 4) - 1, places=3)
        self.assertIsNone(beside.gain(64))

    def test_epochs_of_a_climb(self) -> None:
        [run] = found_in([CLIMB], CONTROL)[cases.name(4)]["aimd"]
        self.assertEqual((figures.epochs_to_streams(run, 8), figures.epochs_to_streams(run, 17)), (8, None))
        self.assertEqual(figures.late_streams(run), 16)
        self.assertAlmostEqual(figures.late(run) / 1e6, equal(16, 4), delta=1)

    def test_never_is_later_than_any(self) -> None:
        self.assertEqual(figures.usual([3, None, 5]), 5)
        self.assertIsNone(figures.usual([3, None, None]))


class Page(unittest.TestCase):
    def test_claims_of_the_paper(self) -> None:
        met = [bar.met for bar in bars.claims(figures.sweep(SWEEP, shards.SWEEP))]
        # One level of others: its needed number cannot grow, and nothing falls.
        self.assertEqual(met, [True, True, True, False, False])

    def test_a_controller_is_held_against_its_own_rotation(self) -> None:
        levels = figures.sweep(SWEEP, shards.SWEEP)
        [bar] = bars.reached(levels, found_in([CLIMB, BESIDE], CONTROL))
        self.assertEqual((bar.measured, bar.met), ("0.85", False))
        [bar] = bars.reached(levels, found_in([CLIMB], CONTROL))
        self.assertEqual(bar.measured.split()[0], f"{equal(16, 4) / equal(64, 4):.2f}")

    def test_nothing_measured(self) -> None:
        made = page([], [])
        self.assertIn("Not measured yet.", made.text)
        self.assertEqual(made.beside, {})

    def test_everything_is_there(self) -> None:
        globus = [swept(4, n, 300.0 * n, "globus-url-copy -p ") for n in (1, 2)]
        made = page([*SWEEP, *globus], [CLIMB, BESIDE])
        whole(self, made)
        self.assertEqual(set(made.beside), {"aimd-streams.svg", "aimd-external-4.svg", "aimd.csv"})
        self.assertEqual(len(made.beside["aimd.csv"].splitlines()), 1 + len(SWEEP) + 2 + 2)
        self.assertIn("| 4 | 1 | 300 | 192 | 0.64 | 1 |", made.text)
        self.assertIn("Controllers were run beside 4 external streams; not yet beside 0, 1, 2, 8, 16, 32.", made.text)
        self.assertIn("Where `aimd` stopped, one more stream adds less than the 2 %", made.text)

    def test_a_tool_that_gets_more_is_looked_into_when_several_runs_say_so(self) -> None:
        for repeats, told in ((3, False), (4, True)):
            globus = [swept(4, 1, 300.0, "globus-url-copy -p ", repeat) for repeat in range(repeats)]
            ours = [swept(4, 1, 190.0, repeat=repeat) for repeat in range(repeats)]
            text = page([*ours, *globus], []).text
            self.assertEqual("by the third second, when they bring 300 and 190 Mbit/s" in text, told)

    def test_each_level_has_its_controllers_once_and_no_shard_takes_an_hour(self) -> None:
        levels = [level for some in shards.CONTROLS.values() for level in some]
        self.assertEqual(sorted(levels), list(cases.EXTERNAL))
        self.assertLess(max(shard.minutes for shard in shards.SHARDS if shard.name in shards.CONTROLS), 60)

    def test_a_failed_run_is_said(self) -> None:
        broken = records.record(shards.SWEEP, cases.name(1), "fixed 2", ok=False, error="it broke")
        self.assertIn("- external 1, fixed 2, repeat 1: it broke", page([broken], []).text)
