"""Random links: the draw, what a sweep tries, what runs say beside it, and the page, from made-up records."""

import tomllib
import unittest
from dataclasses import replace
from typing import cast

from lab.drawn import cases, draw, figures, oracle, shards
from lab.drawn.bars import bars
from lab.drawn.choice import Choice
from lab.drawn.page import page
from lab.grid.case import Case
from lab.grid.run import Cell
from lab.ground.results import Record
from lab.links.scenario import parsed, toml
from lab.links.schema import LinkPath, Scenario, Stage, Step
from lab.links.tables import Table
from lab.shard import Options, Shard
from lab.tests.records import made, whole

SECONDS = 30.0
MANY = [draw.link(7, i, f"many-{i}", SECONDS) for i in range(300)]
CHOICE = Choice(seed=3, links=4)
PIECE = shards.PIECES[0]
MBIT = 1_000_000


def kind(step: Step) -> str:
    told = {"rate": step.rate_bps, "rtt": step.rtt_s, "cap": step.network.worker_bps, "loss": step.loss}
    (name,) = (name for name, value in told.items() if value is not None)
    return name


def path(rate: int, stream: int, rtt_s: float = 0.01, loss: float = 0.0, read: int | None = None) -> Scenario:
    return Scenario("path", "", Stage(stream * MBIT), LinkPath(rate * MBIT, rtt_s, loss),
                    read=None if read is None else Stage(read * MBIT))


class Draw(unittest.TestCase):
    def test_each_link_is_drawn_by_numbers_of_its_own(self) -> None:
        self.assertEqual(draw.link(7, 299, "many-299", SECONDS), MANY[299])
        self.assertNotEqual(replace(MANY[0].scenario, name=""),
                            replace(draw.link(8, 0, "many-0", SECONDS).scenario, name=""))

    def test_each_is_a_scenario_within_the_bounds(self) -> None:
        for each in MANY:
            scenario = each.scenario
            self.assertEqual(parsed(Table("drawn", "", tomllib.loads(toml(scenario)))), scenario)
            for now in scenario.moments:
                link = now.link
                self.assertTrue(draw.RATE_BPS[0] <= link.rate_bps <= draw.RATE_BPS[1], scenario)
                self.assertTrue(draw.RTT_S[0] <= link.rtt_s <= draw.RTT_S[1], scenario)
                self.assertTrue(link.loss == 0 or draw.LOSS[0] <= link.loss <= draw.LOSS[1], scenario)
                self.assertTrue(not link.loss or link.rate_bps <= draw.LOSSY_BPS, scenario)
            queue_bytes = each.queue_s * scenario.link.rate_bps / 8
            self.assertLessEqual(queue_bytes, draw.MOST_QUEUE_BYTES * 1.01)
            self.assertGreaterEqual(queue_bytes, draw.LEAST_QUEUE_BYTES * 0.99)

    def test_one_thing_changes_in_the_middle_and_all_kinds_come(self) -> None:
        for each in MANY:
            (step,) = each.scenario.timeline
            self.assertEqual(step.at_s, SECONDS / 2)
        self.assertEqual({kind(each.scenario.timeline[0]) for each in MANY}, {"rate", "rtt", "cap", "loss"})

    def test_what_nothing_caps_stays_so_when_the_link_changes(self) -> None:
        capped = [each for each in MANY if each.scenario.network.worker_bps < draw.RATE_BPS[1]]
        self.assertTrue(0.55 < len(capped) / len(MANY) < 0.78)
        for each in MANY:
            ever = any(now.stream_bps is not None for now in each.scenario.moments)
            self.assertEqual(ever, each in capped, each.scenario.description)

    def test_files_last_longer_than_the_link_needs_and_all_workers_have_some(self) -> None:
        there = [each for each in MANY if each.file_bytes is not None]
        self.assertTrue(0.25 < len(there) / len(MANY) < 0.6)
        for each in there:
            found = each.files(SECONDS)
            assert found is not None
            plan, times = found
            self.assertGreater(plan.size * times * 8, SECONDS * each.fastest_bps)
            self.assertLessEqual(plan.size, draw.SET_BYTES)
            self.assertGreaterEqual(len(plan.files) * times, 2 * draw.MAX_WORKERS)
        self.assertTrue(all(each.scenario.read is each.scenario.write is None for each in MANY if each not in there))


class Needed(unittest.TestCase):
    def test_caps_loss_and_windows(self) -> None:
        self.assertEqual(oracle.needed(path(1000, 100), False), (10,))
        self.assertEqual(oracle.needed(path(1000, 3000), False), (1,))
        # 11584 bit / 0.1 s × 1.2247 / 0.1 = 1.42 Mbit/s a stream.
        self.assertEqual(oracle.needed(path(20, 3000, 0.1, 0.01), False), (14,))
        # 16 MiB each 0.2 s are 671 Mbit/s.
        self.assertEqual(oracle.needed(path(2000, 3000, 0.2), False), (3,))

    def test_the_slowest_stage_says_what_the_others_need(self) -> None:
        self.assertEqual(oracle.needed(path(1000, 100, read=50), True), (20, 10, 1))
        # 32 readers move 320 Mbit/s.
        self.assertEqual(oracle.needed(path(1000, 100, read=10), True), (32, 4, 1))

    def test_what_is_tried(self) -> None:
        self.assertEqual(oracle.tried((1,)), [(1,), (2,), (4,)])
        self.assertEqual(oracle.tried((10,)), [(10,), (15,), (25,)])
        self.assertEqual(oracle.tried((20, 1, 1)), [(20, 1, 1), (30, 2, 2), (32, 4, 4)])
        self.assertEqual(oracle.tried((32,)), [(22,), (32,)])

    def test_its_name_tells_the_workers(self) -> None:
        rule = oracle.rule((20, 1, 1))
        self.assertEqual((rule.name, rule.optimizer, oracle.workers(rule.name)), ("fixed 20,1,1", "fixed:20,1,1", 22))


class Chosen(unittest.TestCase):
    def test_the_environment_tells_a_part(self) -> None:
        told = Choice.told({"TIDEGATE_LAB_SEED": "5", "TIDEGATE_LAB_LINKS": "2", "TIDEGATE_LAB_SECONDS": "10",
                            "TIDEGATE_LAB_RULES": "auto fts3"})
        self.assertEqual((told.seed, told.links, told.seconds, told.own.name), (5, 2, 10.0, "auto"))
        self.assertEqual((told.name(1), told.sweep_s), ("seed5-02-10s", 4.0))
        self.assertEqual(Choice.told({}), Choice())
        with self.assertRaisesRegex(SystemExit, "no links"):
            Choice.told({"TIDEGATE_LAB_LINKS": "0"})
        with self.assertRaisesRegex(SystemExit, "are numbers: .*'many'"):
            Choice.told({"TIDEGATE_LAB_SEED": "many"})

    def test_rules_take_turns_and_the_sweep_sees_each_part(self) -> None:
        there = cases.links(CHOICE)
        self.assertEqual([link.index for link in there], [0, 1, 2, 3])
        self.assertEqual(cases.links(CHOICE, 2, 9), there[2:])
        first, second = (cases.cells([link], CHOICE.rules) for link in there[:2])
        self.assertEqual(names(first)[:2], ["auto", "universal"])
        self.assertEqual(names(second)[0], "universal")
        for link, cells in zip(there, (first, second)):
            run = [cell for cell in cells if cell.case is link.case]
            self.assertEqual(sorted(names(run)), sorted(rule.name for rule in CHOICE.rules))
            for part in link.parts:
                swept = [cell for cell in cells if cell.case is part.swept]
                self.assertEqual(names(swept), [rule.name for rule in part.tried])
                shrinks = oracle.shrinks(part.swept.scenario)
                self.assertEqual((part.swept.seconds, part.swept.scenario.timeline), (30.0 if shrinks else 12.0, ()))
                self.assertEqual(part.swept.name.endswith("-long"), shrinks)

    def test_runs_are_long_where_random_loss_makes_windows_shrink(self) -> None:
        parts = [part for link in cases.links(Choice(seed=7, links=60)) for part in link.parts]
        lossy = [part.swept.scenario for part in parts if oracle.shrinks(part.swept.scenario)]
        self.assertTrue(0 < len(lossy) < len(parts) / 2)
        for each in lossy:
            self.assertLess(oracle.stream_bps(each), min(each.network.worker_bps, each.carries_bps))

    def test_the_queue_keeps_its_bytes_when_the_rate_changes(self) -> None:
        for link in cases.links(Choice(seed=7, links=40)):
            held = [case.queue_s * case.scenario.link.rate_bps for case in (link.case, *(p.swept for p in link.parts))
                    if case.queue_s is not None]
            self.assertEqual(len(held), 3)
            self.assertAlmostEqual(min(held) / max(held), 1.0)


def names(cells: list[Cell]) -> list[str]:
    return [cell.contender.name for cell in cells]


def run(link: cases.Link, mover: str, early: float, late: float, streams: int = 4, shard: str = PIECE, repeat: int = 0,
        start: float | None = None) -> Record:
    """So many Mbit/s in each half, and in the first second."""
    rates = [early if start is None else start, *[early] * 14, *[late] * 15]
    return timed(link.case, mover, rates, streams, shard, repeat)


def timed(case: Case, mover: str, rates: list[float], streams: int, shard: str, repeat: int) -> Record:
    files = case.data is not None
    workers = [(1, streams, 1) if files else (0, streams, 0)] * len(rates)
    return made(shard, case.name, mover, rates, repeat, streams, workers, files=10 * files)


def sweep(link: cases.Link, early: float, late: float, shard: str = PIECE, repeat: int = 0) -> list[Record]:
    """The first number tried is as good as all others but for a percent."""
    def rates(part: cases.Part, bps: float, i: int) -> list[float]:
        half = int(part.swept.seconds / 2)
        return [bps / 2] * half + [bps * (0.99 if i == 0 else 1.0)] * half

    return [timed(part.swept, rule.name, rates(part, bps, i), oracle.workers(rule.name), shard, repeat)
            for part, bps in zip(link.parts, (early, late)) for i, rule in enumerate(part.tried)]


def everything(own: float, shard: str = PIECE, repeat: int = 0) -> list[Record]:
    """Four links; the default rule has that share of the best on the last one and all of it elsewhere."""
    there: list[Record] = []
    for link in cases.links(CHOICE):
        share = own if link.index == 3 else 1.0
        there += [*sweep(link, 100, 50, shard, repeat),
                  run(link, "auto", 100 * share, 50 * share, shard=shard, repeat=repeat),
                  run(link, "universal", 60, 30, shard=shard, repeat=repeat)]
    return there


class Figures(unittest.TestCase):
    def setUp(self) -> None:
        self.link = cases.links(CHOICE)[0]

    def judged(self, *records: Record) -> figures.Judged | None:
        return figures.judged(self.link, figures.merged({PIECE: records}), "auto")

    def test_the_oracle_is_the_best_late_rate_and_the_least_that_is_as_good(self) -> None:
        found = figures.merged({PIECE: sweep(self.link, 100, 50)})
        there = figures.oracles(self.link, found)
        assert there is not None
        self.assertEqual([round(each.bps / 1e6) for each in there], [100, 50])
        self.assertEqual([each.mover for each in there], [part.tried[0].name for part in self.link.parts])

    def test_the_oracle_moves_no_more_than_its_link_and_workers_can(self) -> None:
        def most(mover: str, **more: int) -> float:
            return round(oracle.most_bps(path(30, 4, **more), mover) / 1e6, 1)

        self.assertEqual([most("fixed 3"), most("fixed 9")], [12, 29.0])
        self.assertEqual([most("fixed 9,9,9"), most("fixed 2,9,9", read=8)], [29.0, 16])
        link = cases.links(CHOICE)[0]
        part = link.parts[0]
        least = oracle.most_bps(part.swept.scenario, part.tried[0].name) / 1e6
        there = figures.oracles(link, figures.merged({PIECE: sweep(link, 10 * least, 1)}))
        assert there is not None
        self.assertGreaterEqual(there[0].bps / 1e6, least)
        self.assertLessEqual(there[0].bps, part.swept.scenario.link.rate_bps)

    def test_nothing_is_judged_before_the_sweep_is_whole(self) -> None:
        own, there = run(self.link, "auto", 100, 50), sweep(self.link, 100, 50)
        self.assertIsNone(self.judged(own, *there[1:]))
        self.assertIsNone(self.judged(*there))
        self.assertIsNotNone(self.judged(own, *there))

    def test_shares_of_the_whole_of_the_change_and_of_late_halves(self) -> None:
        found = self.judged(run(self.link, "auto", 100, 40, start=25), *sweep(self.link, 100, 50))
        assert found is not None
        # (14 × 100 + 25 + 15 × 40) ÷ (15 × 100 + 15 × 50), and without the first half of each part.
        self.assertAlmostEqual(found.whole, 2025 / 2250, places=4)
        self.assertAlmostEqual(found.changed, 0.8, places=4)
        self.assertAlmostEqual(found.settled, (100 + 40) / 150, places=4)
        self.assertAlmostEqual(found.bps / 1e6, 2025 / 30, places=2)

    def test_workers_beside_the_oracles(self) -> None:
        found = self.judged(run(self.link, "auto", 100, 50, 6), *sweep(self.link, 100, 50))
        best = [oracle.workers(part.tried[0].name) for part in self.link.parts]
        assert found is not None
        mine = 8 if self.link.case.data is not None else 6
        self.assertAlmostEqual(found.workers, mine * 2 / sum(best))
        self.assertAlmostEqual(found.settled_workers, found.workers)

    def test_the_median_counts_where_a_link_is_run_again(self) -> None:
        first = [run(self.link, "auto", 50, 25), *sweep(self.link, 100, 50)]
        again = [run(self.link, "auto", share, share / 2, shard=shards.AGAIN, repeat=i)
                 for i, share in enumerate((90, 95))]
        found = figures.judged(self.link, figures.merged({PIECE: first, shards.AGAIN: again}), "auto")
        assert found is not None
        self.assertEqual((round(found.whole, 3), found.count), (0.9, 3))

    def test_the_worst_are_known_when_all_links_are_run(self) -> None:
        def worst(there: list[Record]) -> list[int]:
            return [link.index for link in shards.worst(CHOICE, figures.merged({PIECE: there}))]

        there = everything(0.5)
        self.assertEqual(worst(there), [3, 0, 1, 2])
        self.assertEqual(worst([record for record in there if record.contender != "auto"]), [])

    def test_twice_as_many_are_swept_while_the_most_are_the_best(self) -> None:
        part = next(part for link in cases.links(Choice(seed=7, links=60)) for part in link.parts
                    if [rule.name for rule in part.tried] == ["fixed 1", "fixed 2", "fixed 4"])
        full = oracle.full_bps(part.swept.scenario) / 1e6

        def further(*shares: float) -> list[str]:
            rules = [oracle.rule((2 ** i,)) for i in range(len(shares))]
            there = [timed(part.swept, rule.name, [full * share] * int(part.swept.seconds), 1, PIECE, 0)
                     for rule, share in zip(rules, shares)]
            return [rule.name for rule in figures.sweep(part, figures.merged({PIECE: there}))[3:]]

        self.assertEqual(further(0.3, 0.4), [], "the sweep is not whole")
        self.assertEqual(further(0.3, 0.4, 0.5), ["fixed 8"])
        self.assertEqual(further(0.3, 0.5, 0.505), [], "two are as good")
        self.assertEqual(further(0.3, 0.5, 0.99), [], "the link carries no more")
        self.assertEqual(further(0.3, 0.4, 0.5, 0.6), ["fixed 8", "fixed 16"])
        self.assertEqual(further(0.3, 0.4, 0.5, 0.45), ["fixed 8"])
        self.assertEqual(further(0.1, 0.2, 0.3, 0.4, 0.5, 0.6), ["fixed 8", "fixed 16", "fixed 32"], "no more")

    def test_a_shard_goes_on_while_what_was_measured_asks_for_more(self) -> None:
        wanted, runs = ["fixed 8"], []

        def asked() -> list[Cell]:
            return cast(list[Cell], list(wanted))

        def measure(_: Options) -> bool:
            runs.append(len(wanted))
            if len(wanted) < 3:
                wanted.append("twice as many")
            return True

        shard = Shard("made-up", "", 1, measure)
        self.assertTrue(shards.growing(shard, asked).measure(Options()))
        self.assertEqual(runs, [1, 2, 3])
        self.assertFalse(shards.growing(replace(shard, measure=lambda _: False), asked).measure(Options()))

    def test_what_a_sweep_is_to_have_besides_is_run(self) -> None:
        def swept(best: float) -> list[Record]:
            there = []
            for part in self.link.parts:
                full = best * oracle.full_bps(part.swept.scenario) / 1e6
                rates = [full * (i + 1) / len(part.tried) for i in range(len(part.tried))]
                there += [timed(part.swept, rule.name, [rate] * int(part.swept.seconds), 1, PIECE, 0)
                          for rule, rate in zip(part.tried, rates)]
            return there

        own = run(self.link, "auto", 1, 1)
        found = figures.merged({PIECE: [own, *swept(0.5)]})
        wanted = shards.further_cells([self.link], found)
        self.assertEqual({cell.case for cell in wanted}, {part.swept for part in self.link.parts})
        self.assertIsNone(figures.judged(self.link, found, "auto"))
        found = figures.merged({PIECE: [own, *swept(1.0)]})
        self.assertEqual(shards.further_cells([self.link], found), [])
        self.assertIsNotNone(figures.judged(self.link, found, "auto"))


class Page(unittest.TestCase):
    def test_nothing_measured(self) -> None:
        found = page({}, CHOICE)
        self.assertEqual(found.beside, {})
        self.assertIn("0 of 4 links run.", found.text)
        self.assertIn("Not measured yet.", found.text)

    def test_a_part_of_the_links(self) -> None:
        first = cases.links(CHOICE)[0]
        found = page({PIECE: [*sweep(first, 100, 50), run(first, "auto", 100, 50)]}, CHOICE)
        whole(self, found)
        self.assertIn("1 of 4 links run.", found.text)
        self.assertIn("| whole run: ÷ oracle, median | ≥ 0.98 | 1.000 | 1 of 4 | yes |", found.text)

    def test_all_links(self) -> None:
        broken = replace(everything(1.0)[-1], ok=False, error="it broke", repeat=1, notes={})
        again = [each for each in everything(0.5, shards.AGAIN) if each.set.startswith(CHOICE.name(3))]
        found = page({PIECE: [*everything(0.5), broken], shards.AGAIN: again}, CHOICE)
        whole(self, found)
        self.assertEqual(set(found.beside), {"beyond-random.svg", "beyond-random-late.svg", "beyond-random.csv",
                                             "beyond-random-runs.csv"})
        self.assertIn("the seed 3", found.text)
        self.assertIn("| whole run: ÷ oracle, 5th percentile | ≥ 0.9 | 0.500 | 4 of 4 | **no** |", found.text)
        self.assertIn("| `universal` | 0.600 (0.600) |", found.text)
        self.assertIn("So far: 4.", found.text)
        self.assertIn("it broke", found.text)
        self.assertEqual(found.beside["beyond-random.csv"].count("\n"), 1 + 2 * 4)

    def test_runs_of_another_seed_are_left_out(self) -> None:
        self.assertIn("0 of 4 links run.", page({PIECE: everything(1.0)}, replace(CHOICE, seed=4)).text)

    def test_bars(self) -> None:
        good = figures.Judged(0.99, 0.99, 1.0, 1.2, 1.0, 1e6, 1)
        self.assertEqual([bar.met for bar in bars([good] * 3, 4)], [True] * 6)
        self.assertEqual([bar.met for bar in bars([replace(good, whole=0.8, settled_workers=1.5)], 4)],
                         [False, False, True, True, True, False])
        self.assertEqual(bars([], 4), [])
