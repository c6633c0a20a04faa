"""LDM's page: sets and movers, what the headline ratios are made of, figures 3 and 4."""

import math
import unittest
from pathlib import Path
from unittest import mock

from lab import ldm
from lab.grid.engine import Engine
from lab.grid.figures import Run, found_in, found_of
from lab.ground.results import Record
from lab.ldm import bars, cases, paper, report
from lab.pages.published import quotient
from lab.runs.trial import Trial
from lab.tests.records import made, page_of, record, whole

SHARD = report.TABLE_TWO
BARE, LDM = bars.mover("Falcon", "A"), cases.LDM.name


def table_two() -> list[Record]:
    """Two repeats: LDM fills the link at once, Falcon climbs, and without chunks and pipelining has half of it."""
    records = []
    for repeat in range(2):
        for case, shard in SHARD.items():
            records += [made(shard, case, LDM, [900] * 20, repeat, workers=[(14, 14, 14)] * 20),
                        made(shard, case, "auto", [930] * 20, repeat, workers=[(14, 14, 14)] * 20),
                        made(shard, case, "falcon", [100] * 10 + [900] * 10, repeat, workers=[(9, 9, 9)] * 20),
                        made(shard, case, BARE, [50] * 10 + [400] * 10, repeat, workers=[(9, 9, 9)] * 20, streams=9),
                        made(shard, case, cases.globus(case)[0].name, [90] * 20, repeat, streams=128)]
    return records


class Cases(unittest.TestCase):
    def test_a_set_and_its_copy_fit_into_nine_gigabytes_and_take_half_a_minute(self) -> None:
        for dataset in "ABCD":
            case = cases.case(dataset)
            assert case.data is not None and case.goodput_bps is not None
            self.assertLess(case.data.size * (1 + case.times), 9e9)
            self.assertGreaterEqual(case.data.size * case.times * 8 / case.goodput_bps, 30)
            self.assertLessEqual(case.seconds, 120)

    def test_streams_needed_are_the_papers(self) -> None:
        throttled, open_ = cases.path_of("A"), cases.path_of("C")
        self.assertAlmostEqual(throttled.link.rate_bps / throttled.network.worker_bps, 40 / 3)
        self.assertEqual(throttled.link.rtt_s, paper.RTT_S)
        self.assertEqual((cases.case("A").setting.needs_streams, cases.case("C").setting.needs_streams), (True, False))
        self.assertEqual(open_.link, throttled.link)

    def test_policies_are_trained_for_what_exploring_finds_where_nothing_says_what_a_stream_moves(self) -> None:
        self.assertEqual([cases.case(each).explored_s for each in "ABCD"], [None, None, 120, 120])
        record = made(SHARD["C"], "C", LDM, [900] * 20)
        record.notes["trained_for"] = {"link_bps": 950_000_000, "stream_bps": 310_000_000}
        self.assertIn("found 950 Mbit/s on C's and D's link, and 310 Mbit/s a connection", report.explored([record]))
        self.assertEqual(report.explored([made(SHARD["C"], "C", LDM, [900] * 20)]), "")

    def test_a_file_takes_as_long_as_in_the_paper(self) -> None:
        assert (data := cases.case("A").data) is not None
        here = data.files[0][1] * 8 / cases.path_of("A").network.worker_bps
        self.assertAlmostEqual(here, 256e6 * 8 / 3e9, delta=0.1)

    def test_large_files_of_b_are_last_and_a_fifth(self) -> None:
        sizes = [size for _, size in cases.shape("B").files]
        self.assertEqual(sizes, sorted(sizes))
        self.assertAlmostEqual(sum(sizes[-4:]) / sum(sizes), 220 / 1024, delta=0.01)

    def test_what_is_bare_lacks_chunks_and_pipelining(self) -> None:
        rule = cases.bare(cases.FALCON)
        self.assertEqual(rule.arguments, ("--chunking", "off", "--pipelining", "off"))
        self.assertEqual((rule.name, rule.optimizer), ("falcon bare", "falcon"))
        self.assertEqual(cases.bare(cases.DRL).recipe, cases.DRL.recipe)

    def test_globus_is_told_what_the_table_says(self) -> None:
        trial = mock.Mock(spec=Trial)
        self.assertEqual(cases.globus("B")[0].options(trial), ["-cc", 32, "-p", 4])
        self.assertEqual(cases.globus("D")[1].options(trial), ["-cc", 64, "-fast", "-pp"])

    def test_the_tail_has_the_same_numbers_with_and_without_chunks_and_a_bound_it_does_not_meet(self) -> None:
        names = [cell.contender.name for cell in cases.tail_cells()]
        self.assertEqual(names[:2], ["fixed 14", "fixed 14 unchunked"])
        for rule, without in cases.TAILS:
            self.assertEqual(without.optimizer, rule.optimizer)
            self.assertEqual(without.arguments, (*rule.arguments, "--chunking", "off"))
        case = cases.tail_case()
        assert case.data is not None and case.goodput_bps is not None
        self.assertGreater(case.seconds, 3 * case.data.size * 8 / case.goodput_bps)

    def test_the_tails_large_files_are_among_the_small_ones(self) -> None:
        sizes = [size for _, size in sorted(cases.mixed_in().files)]
        large = [i for i, size in enumerate(sizes) if size == cases.B_LARGE[1]]
        self.assertEqual(large, [30, 61, 92, 123])
        self.assertEqual(sorted(sizes), sorted(size for _, size in cases.shape("B").files))

    def test_every_set_has_every_mover(self) -> None:
        for dataset in "ABCD":
            names = {cell.contender.name for cell in cases.cells(dataset)}
            self.assertTrue({LDM, BARE, "auto", "falcon", "drl", "drl bare", "ldm-gd"} <= names)
        for cell in [*cases.cells("ABCD"), *cases.tail_cells()]:
            if isinstance(cell.contender, Engine):
                self.assertIs(cell.contender.case, cell.case)

    def test_every_part_has_its_shard(self) -> None:
        self.assertEqual([shard.name for shard in ldm.SHARDS], [*report.GRIDS, report.EXPLORED, report.TRAINING])
        self.assertLessEqual(max(shard.minutes for shard in ldm.SHARDS), 50)


class Ratios(unittest.TestCase):
    def setUp(self) -> None:
        self.found = found_of(dict.fromkeys(SHARD.values(), table_two()))

    def test_a_headline_is_rule_times_engine(self) -> None:
        each = bars.headline(self.found, "A", "Falcon")
        assert each.measured and each.rule and each.engine and each.late and each.most
        self.assertAlmostEqual(each.measured.median, 900 / 225)
        self.assertAlmostEqual(each.rule.median * each.engine.median, each.measured.median)
        self.assertAlmostEqual(each.late, 900 / 400, delta=0.01)
        # 1.7 in the paper: the engine is what brings the rest.
        self.assertFalse(each.reached)
        self.assertEqual(each.reason, "above the paper's: the rule 1.80 times the engine 2.22")

    def test_a_ratio_is_judged_from_both_sides(self) -> None:
        published = paper.headline("Falcon", "A")
        self.assertAlmostEqual(published.value, 40.5 / 23.7)
        self.assertAlmostEqual(published.deviation, math.hypot(1.2 / 40.5, 1.4 / 23.7))
        there = [published.value * factor for factor in (0.97, 0.99, 1.0, 1.13, 1.14)]
        self.assertEqual([published.met(ratio) for ratio in there], [False, True, True, True, False])
        self.assertEqual([published.told(ratio) for ratio in there[-2:]], ["", "above the paper's"])
        # Where no deviation is printed, one is supposed.
        self.assertAlmostEqual(quotient((2.0, None), (1.0, None)).most, 2.0 * (1 + 2 * 0.08 * math.sqrt(2)))

    def test_what_the_link_does_not_allow_is_said(self) -> None:
        each = bars.headline(self.found, "C", "Falcon")
        self.assertFalse(each.reached)
        self.assertIn("the link allows 4.3 at most", each.reason)

    def test_nothing_is_claimed_of_what_was_not_measured(self) -> None:
        each = bars.headline(self.found, "A", "DRL")
        self.assertEqual((each.measured, each.rule, each.reached), (None, None, None))
        self.assertNotIn("set A: LDM ÷ DRL", [bar.what for bar in bars.bars(self.found)])
        self.assertEqual(len(bars.bars(self.found)), 2 * 4)

    def test_what_a_file_costs_a_connection(self) -> None:
        run = Run(made("any", "C", BARE, [400] * 20, workers=[(8, 8, 8)] * 20, streams=8, files=100, size=100_000_000))
        self.assertAlmostEqual(bars.file_s(run), 8 * 8e6 / 400e6, places=4)
        self.assertAlmostEqual(bars.paper_file_s("Falcon", "C", 0.55), 27.6 * 0.55 * 8 / 700, places=4)

    def test_the_tail_is_what_is_left_below_half(self) -> None:
        run = Run(made("any", "B", BARE, [900] * 10 + [300, 300, 200, 100], workers=[(4, 4, 4)] * 14))
        seconds, bps = bars.tail(run)
        self.assertAlmostEqual(seconds, 4)
        self.assertAlmostEqual(bps / 1e6, 225, delta=1)

    def test_without_parallelism_the_end_goes_down_in_steps(self) -> None:
        stream = 75
        steps = [950] * 10 + [3 * stream] * 5 + [2 * stream] * 6 + [stream] * 7
        whole_ = made(report.FOUR, cases.TAIL, cases.TAILS[0][1].name, steps)
        chunked = made(report.FOUR, cases.TAIL, cases.TAILS[0][0].name, [950] * 13 + [500])
        self.assertEqual(bars.left(Run(whole_)), [5, 6, 7])
        self.assertEqual(bars.left(Run(chunked)), [0, 0, 0])
        judged = bars.tail_bars(found_in([whole_, chunked], report.FOUR))
        self.assertEqual([(bar.measured, bar.met) for bar in judged], [("5, 6, 7", True), ("0 against 18", True)])
        text = page_of(report, {report.FOUR: [whole_, chunked]}).text
        self.assertIn("| fixed 14 unchunked | 18 (18–18) |", text)
        self.assertIn("](ldm-figure4.svg)", text)

    def test_figure_3_is_until_the_runs_own_mean(self) -> None:
        run = Run(made("any", "A", BARE, [100] * 10 + [500] * 10, workers=[(4, 4, 4)] * 20))
        self.assertEqual(bars.time_to_mean([run]), 11)
        self.assertIsNone(bars.time_to_mean([]))

    def test_the_default_is_held_against_the_best_of_each_row(self) -> None:
        text = page_of(report, {SHARD["A"]: table_two()}).text
        self.assertIn("`auto` ÷ the best other, ldm | reaches 0.98, median ≥ 0.95 | 1.03", text)


class Pages(unittest.TestCase):
    def test_before_anything_was_measured(self) -> None:
        page = page_of(report, {})
        self.assertIn("Not measured yet.", page.text)
        self.assertIn("Nothing has been measured yet.", page.text)
        self.assertNotIn("](ldm-figure", page.text)

    def test_each_part_is_there_and_each_picture_beside_it(self) -> None:
        failed = record(SHARD["B"], "B", "drl", ok=False, error="it fell over")
        learned = record(report.TRAINING, "throttled", "ldm", notes={"said": {
            "episodes": 9000, "duration_ms": 20000, "converged_episodes": 8000, "converged_ms": 15000,
            "episodes_per_second": 400.0, "utility_share": 0.95}})
        there = {shard: [r for r in table_two() if r.scenario == shard] for shard in SHARD.values()}
        there[SHARD["B"]].append(failed)
        page = page_of(report, {**there, report.TRAINING: [learned]})
        for heading in ("What was to be reached", "Table II", "Figure 3", "Figure 4", "Training", "Set D",
                        "What this does not show"):
            self.assertIn(f"## {heading}", page.text)
        self.assertIn("| Falcon | paper | 23.7 Gbit/s; 16.4 |", page.text)
        self.assertIn("- B, drl, repeat 1: it fell over", page.text)
        self.assertIn("| throttled | ldm | 1 | 1 | 9,000 |", page.text)
        self.assertIn("| set A: LDM ÷ Falcon | the paper's 1.71 (up to 1.93 by its deviation) | 4.00 (4.00–4.00); above the "
                      "paper's: the rule 1.80 times the engine 2.22 | 2 | **no** |", page.text)
        whole(self, page)
        self.assertEqual(len(page.beside["ldm.csv"].splitlines()), 1 + len(table_two()))
        self.assertNotIn("/tmp", page.text)

    def test_every_paper_number_has_a_mover(self) -> None:
        for row, there in paper.TABLE_II.items():
            self.assertEqual(set(there), set("ABCD"))
            for dataset in there:
                names = {cell.contender.name for cell in cases.cells(dataset)}
                self.assertIn(bars.mover(row, dataset), names)
        self.assertTrue(Path(cases.THROTTLED).exists())
