"""AutoMDT's page: paths and sets, workers, bars, figures, and learning."""

import unittest
from pathlib import Path
from unittest import mock

from lab import automdt
from lab.automdt import bars, cases, pictures, report
from lab.automdt.paper import FIGURE_5
from lab.grid import exploring
from lab.grid.engine import Engine
from lab.grid.figures import Run, found_in, runs_of
from lab.grid.policies import argv
from lab.ground.results import Record
from lab.runs.trial import Trial
from lab.training import courses_in
from lab.tests.records import made, page_of, record, whole

AUTO, MARLIN, AUTOMDT = "auto", "marlin, 1 GiB of staging", "automdt"


def figure5() -> list[Record]:
    """A minute: the default at once with the best numbers, Marlin after 40 s with too many writers."""
    records = []
    for path, published in FIGURE_5.items():
        read, network, write = published.best
        for repeat in range(2):
            records += [made(report.FIVE, path, AUTO, [950] * 60, repeat, workers=[(read, network, write)] * 60),
                        made(report.FIVE, path, AUTOMDT, [940] * 60, repeat, workers=[(read, network, write)] * 60),
                        made(report.FIVE, path, MARLIN, [300] * 40 + [900] * 20, repeat,
                             workers=[(4, 4, 4)] * 40 + [(read, network, 2 * write)] * 20)]
    return records


def sets() -> list[Record]:
    records = []
    for name in ("large", "mixed"):
        for repeat in range(2):
            ramp = [(2, 2, 2), (9, 12, 9), *[(10, 20, 10)] * 28]
            records += [made(report.ONE, name, AUTOMDT, [900] * 30, repeat, workers=ramp),
                        made(report.ONE, name, AUTO, [920] * 30, repeat, workers=ramp),
                        made(report.ONE, name, MARLIN, [600] * 45, repeat, workers=[(5, 12, 5)] * 45),
                        made(report.ONE, name, cases.GLOBUS.name, [700] * 40, repeat, streams=32)]
    return records


def online() -> list[Record]:
    return [made(report.TUNE, "online", rule.name, [mbit] * 20, repeat, workers=[(n, 7, 5)] * 20)
            for repeat in range(2) for rule, mbit, n in ((cases.STEADY, 900, 13), (cases.ONLINE, 891, 12))]


def explored() -> list[Record]:
    """On the first link, a stream's rate was found too high, and that of a writer not at all."""
    told = {"link_bps": 950_000_000, "stream_bps": 200_000_000, "read_bps": 82_000_000}
    return [made(report.EXPLORED, "read", name, [mbit] * 20, repeat, workers=[(9, 7, 5)] * 20, **more)
            for repeat in range(2)
            for name, mbit, more in (("auto", 950, {}), (exploring.TOLD.name, 940, {}),
                                     (exploring.found_rule(60).name, 855, {"trained_for": told}))]


def learned(recipe: str, seed: int, share: float) -> Record:
    said = {"episodes": 9000 + seed, "duration_ms": 60000, "converged_episodes": None, "converged_ms": None,
            "episodes_per_second": 150.0, "utility_share": share}
    return record(report.TRAIN, "automdt-read", recipe, seed - 1, seed=seed,
                  notes={"said": said, "curve": [[100.0, -2.0], [5000.0, share], [9000.0, share]]})


class Cases(unittest.TestCase):
    def test_optima_are_those_of_the_rates(self) -> None:
        for path, published in FIGURE_5.items():
            scenario = cases.path_case(path).scenario
            assert scenario.read and scenario.write
            there = tuple(round(stage.worker_bps / 1e6) for stage in (scenario.read, scenario.network, scenario.write))
            self.assertEqual(there, published.rates)
            for rate, n in zip(published.rates, published.best):
                self.assertGreaterEqual(rate * n, 975)
                self.assertLess(rate * (n - 1), 1000)

    def test_data_outlasts_a_minute_and_fits_into_nine_gigabytes(self) -> None:
        for case in (*map(cases.path_case, FIGURE_5), cases.online_case()):
            assert case.data is not None and case.goodput_bps is not None
            arrives = case.goodput_bps * case.seconds / 8
            self.assertGreater(case.data.size * case.times, arrives)
            self.assertLess(case.data.size + arrives, 9e9)
        for name in ("large", "mixed"):
            case = cases.set_case(name)
            assert case.data is not None
            self.assertLess(case.data.size * (1 + case.times), 9e9)
            self.assertGreater(case.data.size * case.times * 8 / 1e9, 30)

    def test_mixed_files_are_of_every_order_of_magnitude(self) -> None:
        sizes = [size for _, size in cases.mixed().files]
        self.assertTrue(100_000 <= min(sizes) < 1_000_000 and 10_000_000 < max(sizes) <= 80_000_000)
        self.assertEqual(cases.mixed(), cases.mixed())

    def test_twenty_streams_fill_the_link_of_figure_3(self) -> None:
        scenario = cases.set_case("large").scenario
        self.assertEqual(scenario.link.rate_bps / scenario.network.worker_bps, 20)

    def test_learning_online_lasts_as_many_episodes_as_the_papers(self) -> None:
        self.assertEqual(cases.online_case().seconds, 600)
        for cell in cases.online():
            assert isinstance(cell.contender, Engine)
            self.assertIn("500ms", cell.contender.more)
            # A probe has one reader and one writer: there would be nothing to learn.
            self.assertTrue(cell.contender.moves_files)

    def test_every_part_has_its_shard(self) -> None:
        self.assertEqual({shard.name for shard in automdt.SHARDS}, {*report.GRIDS, report.EXPLORED, report.TRAIN})

    def test_readers_and_writers_are_explored_by_copying_files(self) -> None:
        case = cases.path_case("read")
        engine = Engine(exploring.found_rule(60), case)
        with mock.patch.object(Engine, "ticket", lambda self, trial: "tg://there/"):
            trial = mock.Mock(spec=Trial, scratch=Path("s"))
            words = [str(word) for word in argv(engine, trial, 60, Path("f.toml"), Path("source"))]
        self.assertEqual(words[1:5], ["explore", "tg://there/explored/", "--files", "source/"])
        self.assertEqual(words[words.index("--limit-read") + 1], "80Mbit/s")
        self.assertIn("--limit-write", words)

    def test_globus_has_the_papers_numbers(self) -> None:
        self.assertEqual(cases.GLOBUS.flags, ["-cc", 4, "-p", 8])


class Bars(unittest.TestCase):
    def setUp(self) -> None:
        self.found = found_in(figure5(), report.FIVE)

    def test_the_default_reaches_what_is_asked_of_it(self) -> None:
        made_ = {bar.what: bar for bar in bars.path_bars(self.found, "read")}
        self.assertEqual(len(made_), 5)
        self.assertTrue(all(bar.met for bar in made_.values()), made_)
        self.assertEqual(made_["read is slow: `auto`, s to 90 % of the link"].measured, "1")

    def test_too_many_writers_are_seen(self) -> None:
        marlin = runs_of(self.found, "write", MARLIN)
        self.assertEqual(bars.astray(marlin, "write"), [1.0, 1.0])
        self.assertGreater(min(bars.unsteady(marlin)), 1)
        self.assertEqual(bars.soon(marlin, "write"), [41.0, 41.0])

    def test_a_default_that_never_gets_there_fails(self) -> None:
        found = found_in([made(report.FIVE, "read", AUTO, [500] * 60, workers=[(20, 20, 20)] * 60)], report.FIVE)
        self.assertEqual([bar.met for bar in bars.path_bars(found, "read")], [False, True, False])
        self.assertEqual(bars.path_bars({}, "read"), [])

    def test_table_1_and_figure_3(self) -> None:
        found = found_in(sets(), report.ONE)
        made_ = {bar.what: bar for bar in bars.table_bars(found)}
        self.assertTrue(made_["large: AutoMDT ÷ Marlin"].met)
        globus = made_["large: AutoMDT ÷ Globus"]
        self.assertFalse(globus.met)
        self.assertIn("the link allows 1.37 at most", globus.measured)
        figure3, = bars.figure3_bars(found)
        self.assertFalse(figure3.met)
        self.assertTrue(figure3.measured.startswith("1.50 (1.50–1.50); short of it; AutoMDT takes 0.90 times as long"))

    def test_learning_online_is_compared_in_second_halves(self) -> None:
        speed, count = bars.online_bars(found_in(online(), report.TUNE))
        self.assertEqual((speed.measured, speed.met), ("0.990", True))
        self.assertEqual((count.measured, count.met), ("0.960", True))
        self.assertEqual(bars.online_bars({}), [])

    def test_a_run_that_ended_early_has_nothing_steady(self) -> None:
        run = Run(made(report.FIVE, "read", AUTO, [900] * 10, workers=[(13, 7, 5)] * 10))
        self.assertEqual(bars.unsteady([run]), [])


class Pages(unittest.TestCase):
    def test_before_anything_was_measured(self) -> None:
        page = page_of(report, {})
        self.assertIn("Not measured yet.", page.text)
        self.assertNotIn(".svg", page.text)

    def test_each_part_is_there_and_each_picture_beside_it(self) -> None:
        three = [Record(**{**vars(r), "scenario": report.THREE}) for r in sets() if r.set == "large"]
        train = [learned("automdt", 1, 0.96), learned("automdt", 2, 0.95), learned("automdt_discrete", 1, 0.4)]
        page = page_of(report, {report.FIVE: figure5(), report.THREE: three, report.ONE: sets(),
                                report.TUNE: online(), report.TRAIN: train, report.EXPLORED: explored()})
        for name in (*FIGURE_5, "figure3", "figure4", "online"):
            self.assertIn(f"](automdt-{name}.svg)", page.text)
        whole(self, page)
        self.assertIn("automdt-read: 0 of 1 seeds came to the criterion", page.text)
        self.assertIn("| Marlin | paper | 18,067 | 13,722 |", page.text)
        self.assertIn("| read | read | 82 | 80 | +2.5 % |", page.text)
        self.assertIn("| read | write | no limit seen | 200 |  |", page.text)
        self.assertIn("| read | policy of what was explored | 855 |", page.text)
        self.assertIn("| within 5 % | link -0.7 %, stream +25.0 %, read +2.5 % | 1 | **no** |", page.text)
        self.assertIn("read: policy of what was explored ÷ auto | ≥ 0.98 | 0.90 (0.90–0.90) | 2 | **no** |", page.text)
        self.assertIn("| 2, 2, 2 | 18 of 20 after 2.0 s; at most 20 |", page.text)
        # Who begins with the best numbers has not converged in no time.
        self.assertIn("| 13, 7, 5 | none: it begins there | 2 |", page.text)
        self.assertIn("| 4, 4, 4 | 40 | 2 |", page.text)
        self.assertNotIn("Not measured", page.text)

    def test_one_recipe_alone_is_no_picture_of_two(self) -> None:
        self.assertEqual(pictures.learning(courses_in([learned("automdt", 1, 0.9)], report.TRAIN)), {})

    def test_long_runs_are_drawn_by_means(self) -> None:
        points = [(float(i), float(i % 2)) for i in range(1, 31)]
        self.assertEqual(pictures.thinned(points), [(10.0, 0.5), (20.0, 0.5), (30.0, 0.5)])
