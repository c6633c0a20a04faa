"""Links beyond the papers: steps, shares, harm, the bars and the page, from made-up records."""

import unittest
from collections.abc import Sequence
from dataclasses import replace

from lab.beyond import bars, cases, figures, rules, shards, tables
from lab.beyond.page import page
from lab.beyond.pictures import pictures
from lab.grid.figures import Run, found_in
from lab.ground.results import Record
from lab.links.background import has_background
from lab.tests.records import log, made, whole

def record(shard: str, link: str, mover: str, rates: Sequence[float], logs: Sequence[object] = (), repeat: int = 0,
           **more: object) -> Record:
    return made(shard, link, mover, rates, repeat, 1, epochs=list(logs), **more)


def steady(mover: str, mbit: float, streams: int, repeat: int = 0, late_s: int = 0) -> Record:
    rates = [100.0] * late_s + [mbit] * (60 - late_s)
    return record("beyond-links-rtt", "rtt-20", mover, rates, [log(rates, [streams] * 60)], repeat)


RTT = [*(steady("auto", 940 + r, 11, r, 2) for r in range(3)), *(steady("fixed 10", 945 + r, 10, r) for r in range(3)),
       *(steady("gradient", 700 + r, 8, r, 30) for r in range(3))]
SWEEP = [record(shards.SWEEP, "rtt-20", f"fixed {n}", [rate] * 20)
         for n, rate in ((8, 760.0), (10, 945.0), (16, 950.0), (32, 940.0))]
STEP_RATES = [950.0] * 20 + [380.0] * 20 + [400.0] * 6 + [950.0] * 14
STEP = record(shards.STEPS, "link-step", "auto", STEP_RATES, [log(STEP_RATES, [10] * 60)])


def two(first: float, second: float) -> Record:
    """The first leaves at 65 s, the second has joined at 25 s and has the whole link from 70 s on."""
    return record(shards.SHARES, "share-2", "auto", [950.0] * 80,
                  [log([950.0] * 25 + [first] * 40, [10] * 65),
                   log([second] * 45 + [940.0] * 10, [5] * 45 + [10] * 10)])


def beside(flow: float, ours: float, mover: str = "auto", name: str = "harm-open") -> Record:
    """The flows have 900 Mbit/s for 20 s, then less."""
    others, moved = [(0.0, 0)], 0.0
    for second in range(1, 61):
        moved += (900.0 if second <= 20 else flow) * 1e6 / 8
        others.append((float(second), int(moved)))
    rates = [0.0] * 20 + [ours] * 40
    return record(shards.HARM, name, mover, rates, [log(rates[20:], [4] * 40)], others=others)


class Cases(unittest.TestCase):
    def test_every_link_is_in_one_shard(self) -> None:
        there = [link for links in shards.LINKS.values() for link in links]
        self.assertEqual(sorted(there), sorted(cases.LINKS))

    def test_each_kind_of_link_sees_all_rules(self) -> None:
        for kind in (cases.RTT, cases.LOSS, cases.CROSS, cases.DISKS):
            self.assertTrue(set(kind) & set(rules.SEES_ALL))

    def test_automdt_has_the_three_stages_it_needs(self) -> None:
        for link in cases.LINKS:
            path = cases.scenario(link)
            whole = path.read is not None and path.write is not None
            self.assertEqual(rules.AUTOMDT in rules.rules_for(link), whole, link)

    def test_transfers_join_before_the_first_leaves(self) -> None:
        for count in cases.TRANSFERS:
            of = cases.share(count)
            joins, leaves = zip(*of.visits)
            self.assertLess(max(joins) + figures.FAIR_WITHIN_S, min(leaves))
            self.assertEqual((max(leaves), len(joins)), (of.seconds, count))

    def test_slow_disks_move_files_enough_for_a_minute(self) -> None:
        made = cases.case("slow-reader")
        assert made.data is not None
        self.assertGreater(made.data.size * made.times * 8, made.seconds * made.scenario.link_bps)

    def test_steps_are_those_of_the_scenario(self) -> None:
        down, up = cases.steps(cases.case("link-step"))
        self.assertEqual((down.what, down.at_s, down.until_s, up.until_s), ("link 400 Mbit/s", 20, 40, 60))
        self.assertAlmostEqual(down.carries_bps / up.carries_bps, 0.4)
        self.assertEqual([step.what for step in cases.steps(cases.case("cap-step"))],
                         ["stream 50 Mbit/s", "stream 100 Mbit/s"])

    def test_harm_has_foreign_streams_and_a_cap_on_ours_or_none(self) -> None:
        paths = {name: cases.harm(name).scenario for name in cases.HARM}
        self.assertTrue(all(has_background(path) for path in paths.values()))
        self.assertEqual([path.others.streams for path in paths.values()], [1, 1, 4, 16])
        self.assertEqual([path.stream_bps for path in paths.values()], [None, *[100_000_000] * 3])
        self.assertEqual([cases.fills_alone(name) for name in paths], [1, 10, 10, 10])
        fixed = {rule.name for rule in rules.HARMING}
        self.assertTrue({f"fixed {cases.fills_alone(name)}" for name in paths} <= fixed)


class Figures(unittest.TestCase):
    def test_the_best_fixed_is_the_least_that_is_as_good(self) -> None:
        self.assertEqual(figures.best_fixed(found_in(SWEEP, shards.SWEEP)), {"rtt-20": 10})

    def test_traffic_that_comes_and_goes_is_told_part_by_part(self) -> None:
        rates = [950.0] * 10 + [500.0] * 15 + [900.0] * 10 + [300.0] * 15 + [800.0] * 10
        run = record("beyond-links-cross", "cross-traffic", "auto", rates,
                     [log(rates, [5] * 10 + [8] * 15 + [6] * 10 + [9] * 15 + [16] * 10)])
        found = found_in([run], "beyond-links-cross")
        told = tables.parts_table(found, "cross-traffic")
        self.assertIn("| 10 to 25 s, beside 4 | 25 to 35 s, alone | 35 to 50 s, beside 16 |", told)
        self.assertIn("| `auto` | 950 (5.0) | 500 (8.0) | 900 (6.0) | 300 (9.0) | 800 (16.0) |", told)
        self.assertEqual(tables.parts_table(found, "rtt-20"), "")

    def test_workers_are_those_of_the_stage_that_has_most(self) -> None:
        self.assertAlmostEqual(figures.workers(Run(RTT[0])), 11)

    def test_epochs_after_a_step(self) -> None:
        down, up = cases.steps(cases.case("link-step"))
        self.assertEqual((figures.again(Run(STEP), down), figures.again(Run(STEP), up)), (1, 7))
        self.assertEqual(figures.streams_after(Run(STEP), up), 10)

    def test_a_share(self) -> None:
        found = figures.share(cases.share(2), Run(two(500, 450)))
        self.assertEqual((found.fair_after_s, found.retaken_s, found.is_fair), (5, [5], True))
        self.assertEqual([round(rate / 1e6) for rate in found.rates], [500, 450])
        self.assertEqual(found.streams, [10, 5])
        self.assertFalse(figures.share(cases.share(2), Run(two(800, 150))).is_fair)

    def test_harm(self) -> None:
        found = figures.harm(Run(beside(300, 600)))
        self.assertAlmostEqual(found.harm, 2 / 3, places=3)
        self.assertAlmostEqual(found.share, 2 / 3, places=3)
        self.assertAlmostEqual(found.ours_bps / 1e6, 600, places=1)
        # Of five equal shares the four flows have four fifths: 720 of 900.
        self.assertAlmostEqual(figures.harm(Run(beside(300, 600, name="harm-capped-4"))).share, 300 / 720, places=3)


class Bars(unittest.TestCase):
    def row(self, records: Sequence[Record]) -> list[bool | None]:
        return [bar.met for bar in bars.row_bars(found_in(records, "beyond-links-rtt"), ["rtt-1", "rtt-20"])]

    def test_a_row(self) -> None:
        self.assertEqual(self.row(RTT), [False, True])
        # Without its slow start it is within a percent.
        quick = [steady("auto", 940 + r, 11, r) for r in range(3)]
        self.assertEqual(self.row([*quick, *RTT[3:]]), [True, True])
        self.assertEqual(self.row(quick), [])

    def test_against_the_best_fixed(self) -> None:
        made = bars.fixed_bars(found_in(RTT, "beyond-links-rtt"), cases.case("rtt-20"), 10)
        self.assertEqual([bar.met for bar in made], [True, True])
        self.assertEqual(made[1].measured, "1.10")
        full = [steady("auto, full", 960 + r, 14, r) for r in range(3)]
        made = bars.full_bars(found_in([*RTT, *full], "beyond-links-rtt"), cases.case("rtt-20"), 10)
        self.assertEqual([bar.met for bar in made], [True, False])
        self.assertEqual(made[1].what, "rtt-20, auto, full: workers ÷ those of fixed 10")
        self.assertEqual(bars.fixed_bars(found_in(RTT, "beyond-links-rtt"), cases.case("rtt-20"), 12), [])

    def test_steps_and_shares(self) -> None:
        self.assertEqual([bar.met for bar in bars.step_bars(found_in([STEP], shards.STEPS))], [True, False])
        self.assertEqual([bar.met for bar in bars.share_bars(found_in([two(500, 450)], shards.SHARES))], [True, True])
        self.assertEqual([bar.met for bar in bars.share_bars(found_in([two(800, 150)], shards.SHARES))], [False, True])

    def test_harm(self) -> None:
        runs = [beside(300, 600), beside(340, 500, "fixed 1"), beside(850, 50, "auto, background")]
        made = bars.harm_bars(found_in(runs, shards.HARM))
        self.assertEqual([(bar.measured, bar.met) for bar in made], [("1.20", True), ("0.06", True)])
        runs = [beside(300, 700), beside(340, 500, "fixed 1"), beside(700, 50, "auto, background")]
        self.assertEqual([bar.met for bar in bars.harm_bars(found_in(runs, shards.HARM))], [False, False])
        # Where ten fill the link alone, one is no measure.
        runs = [beside(300, 600, name="harm-capped"), beside(340, 500, "fixed 1", "harm-capped")]
        self.assertEqual(bars.harm_bars(found_in(runs, shards.HARM)), [])


class Page(unittest.TestCase):
    def test_nothing_measured(self) -> None:
        made = page({})
        self.assertEqual(made.beside, {})
        self.assertIn("Not measured yet.", made.text)
        for link in cases.LINKS:
            self.assertIn(f"### {link}\n", made.text)

    def test_everything_is_there(self) -> None:
        broken = replace(STEP, repeat=1, ok=False, error="it broke", notes={})
        made = page({"beyond-links-rtt": RTT, shards.SWEEP: SWEEP, shards.STEPS: [STEP, broken],
                     shards.SHARES: [two(500, 450)], shards.HARM: [beside(300, 600)]})
        whole(self, made)
        self.assertEqual(set(made.beside), {"beyond-rtt-20.svg", "beyond-link-step.svg", "beyond-share-2.svg",
                                            "beyond-harm-open.svg", "beyond.csv", "beyond-sweep.csv"})
        self.assertIn("- link-step, auto, repeat 2: it broke", made.text)
        self.assertIn("best is 10, the least within 1 %", made.text)
        self.assertIn("| 0.67 | 0.67 | 4.0 |", made.text)

    def test_a_link_with_one_mover_needs_no_picture(self) -> None:
        self.assertEqual(pictures(found_in(RTT[:3], "beyond-links-rtt"), ["rtt-20"]), {})
