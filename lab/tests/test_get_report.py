"""Downloads: who is repeated, what is asked, the page and its pictures."""

import signal
import subprocess
import sys
import tempfile
import time
import unittest
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any
from unittest import mock

from lab.ground import places, watch
from lab.ground.rotation import Rotation
from lab.get import bars, probes, report, rotation
from lab.get.cases import CAPPED, CASES, FIG6, LINK_ONLY
from lab.get.figures import grouped
from lab.get.probe_report import probe_bars, probes_section
from lab.runs.sampler import Sample
from lab.get.trial import FIXED
from lab.ground.results import Record
from lab.tests import records
from lab.tests.records import whole


def samples(seconds: float, size: int, connections: int) -> list[Sample]:
    steps = int(seconds * 4)
    return [(i / 4, size * i // steps, connections) for i in range(steps + 1)]


def record(contender: str, mbit: float, connections: int = 12, case: str = "capped", name: str = "H10",
           repeat: int = 0) -> Record:
    size = 4_000_000_000
    seconds = size * 8e-6 / mbit
    own = {"mean_connections": float(connections)} if contender == "tidegate" else {}
    notes = {"samples": samples(seconds, size, connections), "noise": {"other_cpus": 0.1, "stolen_cpus": 0.0}, **own}
    return records.record(case, name, contender, repeat, files=10, bytes=size, seconds=seconds, rate_bps=mbit * 1e6,
                          notes=notes)


def fixed(n: int, mbit: float, **more: Any) -> Record:
    return record(f"tidegate --fixed {n}", mbit, n, **more)


FULL = [record("tidegate", 1100), fixed(3, 300), fixed(8, 800), fixed(10, 1000), fixed(12, 1140), fixed(16, 1145),
        fixed(24, 1141), record("gradient, k = 1.02", 780), record("gradient, k = 1.01", 790),
        record("bayesian, k = 1.02", 600), record("aria2c -j16 -x16 -s16 -k1M", 1000), record("aria2c, default", 500),
        record("rclone 16 × 16", 1130), record("curl --parallel 16", 1050)]


class Turns(unittest.TestCase):
    def able(self) -> list[Any]:
        return rotation.contenders(CAPPED)

    def test_the_first_round_is_for_all(self) -> None:
        able = self.able()
        self.assertEqual(rotation.due(able, 0, []), able)

    def test_later_rounds_are_for_the_best_settings_and_those_that_bars_need(self) -> None:
        names = {contender.name for contender in rotation.due(self.able(), 1, FULL)}
        self.assertTrue({"tidegate", "gradient, k = 1.02", "tidegate --fixed 3", "tidegate --fixed 8",
                         "tidegate --fixed 12", "tidegate --fixed 16", "aria2c -j16 -x16 -s16 -k1M",
                         "rclone 16 × 16", "gradient, k = 1.01"} <= names)
        self.assertFalse({"tidegate --fixed 10", "tidegate --fixed 1", "aria2c -j4 -x4 -s4 -k1M"} & names)

    def test_what_no_bar_is_about_is_repeated_three_times(self) -> None:
        late = {contender.name for contender in rotation.due(self.able(), rotation.BESIDE, FULL)}
        self.assertFalse({"gradient, k = 1.01", "wget2, default", "rclone, default"} & late)
        self.assertTrue({"tidegate", "gradient, k = 1.02", "tidegate --fixed 3"} <= late)

    def test_fewer_connections_that_do_as_well_stay_in(self) -> None:
        ran = [fixed(n, mbit) for n, mbit in ((6, 1130), (8, 1131), (10, 1132), (12, 1140), (16, 1145), (3, 300))]
        family = [contender for contender in self.able() if contender.family == FIXED]
        chosen = rotation.finalists(family, {r.contender: r for r in ran})
        self.assertEqual(sorted(chosen), sorted(f"tidegate --fixed {n}" for n in (16, 12, 10, 6)))

    def test_when_time_is_short_every_bar_can_still_be_judged(self) -> None:
        names = {contender.name for contender in rotation.lean(CAPPED, self.able())}
        self.assertTrue({"tidegate", "gradient, k = 1.02", "tidegate --fixed 3", "tidegate --fixed 8",
                         "tidegate --fixed 12", "aria2c -j16 -x16 -s16 -k1M", "rclone 16 × 16"} <= names)
        self.assertFalse({"tidegate --fixed 1", "wget2, default", "rclone, default", "bayesian, k = 1.02"} & names)
        small = {contender.name for contender in rotation.lean(CASES["small-rtt"], rotation.contenders(CASES["small-rtt"]))}
        self.assertTrue({"tidegate, no ceiling", "aria2c -j16", "curl --parallel 16"} <= small)

    def test_words_choose_downloaders(self) -> None:
        def names(*words: str) -> list[str]:
            return [contender.name for contender in rotation.chosen(self.able(), words)]
        self.assertEqual(names("tidegate --fixed 2"), ["tidegate --fixed 2"])
        self.assertEqual(names("wget2"), ["wget2, default", "wget2 --max-threads=16"])
        self.assertEqual(names("tidegate"), ["tidegate"])

    def test_the_clock_learns_how_long_runs_take(self) -> None:
        clock = Rotation(Path("absent"), 600)
        clock.began, clock.spent_s = time.monotonic() - 120, 60
        self.assertAlmostEqual(clock.left_min, 18, places=0)


def named(found: Sequence[bars.Bar]) -> Mapping[str, bars.Bar]:
    """By what they are about, wherever that was."""
    return {bar.what.partition(": ")[2]: bar for bar in found}


class Bars(unittest.TestCase):
    def found(self, *records: Record) -> Mapping[str, bars.Bar]:
        return named(bars.bars(grouped(records)))

    def test_each_is_judged_by_medians(self) -> None:
        found = self.found(*FULL)
        self.assertEqual({what: bar.verdict for what, bar in found.items()}, {
            "÷ fixed 3": "yes", "÷ fixed 8": "yes", "÷ FastBioDL's rule": "yes",
            "÷ best aria2c (`aria2c -j16 -x16 -s16 -k1M`)": "yes", "÷ best rclone (`rclone 16 × 16`)": "no",
            "÷ best fixed (16)": "yes", "mean connections ÷ oracle's (12)": "yes"})
        self.assertEqual(found["÷ fixed 3"].wanted, "≥ 3.60")
        self.assertEqual(found["÷ best rclone (`rclone 16 × 16`)"].measured, "0.97")

    def test_too_many_connections_are_said(self) -> None:
        bar = self.found(record("tidegate", 1140, 20), *FULL[1:])["mean connections ÷ oracle's (12)"]
        self.assertEqual((bar.measured, bar.verdict), ("1.67 (20.0)", "no"))

    def test_only_settings_that_were_repeated_are_the_best(self) -> None:
        again = [*FULL, replace(fixed(12, 1138), repeat=1), replace(record("tidegate", 1100), repeat=1)]
        self.assertIn("÷ best fixed (12)", self.found(*again))

    def test_a_bar_nobody_can_meet_is_only_shown(self) -> None:
        there = [replace(r, scenario="link-only") for r in FULL]
        found = named(bars.case_bars(grouped(there), LINK_ONLY))
        self.assertEqual((found["÷ FastBioDL's rule"].verdict, "÷ fixed 3" in found), ("", False))

    def test_figure_six(self) -> None:
        case = FIG6[0]
        runs = [record("tidegate", 1800, 20, case.name, "F40"), fixed(5, 500, case=case.name, name="F40"),
                fixed(3, 700, case=case.name, name="F40")]
        found = named(bars.fig6_bars(grouped(runs)))
        self.assertEqual([found[f"÷ fixed {n}"].verdict for n in (5, 3)], ["yes", "no"])
        self.assertEqual(found["share of the link from 10 s on"].measured, "0.94")


PROBES: dict[str, dict[str, Any]] = {
    "million tiny": {"kind": "tiny", "urls": 1_000_000,
                     "few": {"urls": 1000, "peak_bytes": 20_000_000},
                     "all": {"urls": 1_000_000, "peak_bytes": 310_000_000, "seconds": 180.0, "status": 130,
                             "stopped": True, "files": 700_000}},
    "huge": {"bytes": 20_000_000_000,
             "small": {"bytes": 100_000_000, "runs": [{"status": 0, "seconds": 1.0, "peak_bytes": 60_000_000}]},
             "huge": {"refetched_bytes": 64_000_000, "runs": [
                 {"status": -9, "seconds": 9.0, "peak_bytes": 70_000_000},
                 {"status": 0, "seconds": 11.0, "peak_bytes": 75_000_000}]}},
    "resolve": {"accessions": 1000, "requests": 2, "seconds": 0.4}}


class Page(unittest.TestCase):
    def test_probes_have_bars(self) -> None:
        self.assertEqual([bar.verdict for bar in probe_bars(PROBES)], ["no", "yes", "yes", "yes"])
        text = "\n".join(probes_section(PROBES))
        self.assertIn("sent again at most 64 MB", text)
        self.assertIn("700,000 files in 180 s, then was stopped", text)

    def test_everything_is_written(self) -> None:
        failed = replace(record("wget2, default", 1), ok=False, error="it broke", notes={}, repeat=2)
        drawn = [record("tidegate", 1800, 20, "fig6-1", "F40"), fixed(5, 500, case="fig6-1", name="F40")]
        page = report.made([*FULL, *drawn, failed], PROBES)
        whole(self, page)
        self.assertEqual(set(page.beside), {"get-fig6-1.svg", "get.csv"})
        self.assertIn("FastBioDL figure 6, case 1", page.beside["get-fig6-1.svg"])
        self.assertIn("- H10, wget2, default, repeat 3: it broke", page.text)
        self.assertIn("11 of 13 bars are met.", page.text)
        self.assertEqual(len(page.beside["get.csv"].splitlines()), 1 + len(FULL) + len(drawn))

    def test_page_without_measurements(self) -> None:
        self.assertIn("Nothing has been measured yet.", report.page([], [], {}))

    def test_every_path_is_in_the_page_if_it_was_measured(self) -> None:
        for case in CASES.values():
            runs = [record("tidegate", 500, case=case.name, name=case.sets[0])]
            self.assertIn(f"## {case.name}: ", report.page(runs, [], {}))


class Probes(unittest.TestCase):
    def test_peak_memory_is_the_kernels(self) -> None:
        self.assertEqual(watch.peak("Name:\tx\nVmPeak:\t  9 kB\nVmHWM:\t  120 kB\n"), 122880)
        self.assertEqual(watch.peak("Name:\tx\nState:\tZ (zombie)\n"), 0)

    def test_a_program_is_watched_to_its_end(self) -> None:
        held = "import time; x = bytearray(50_000_000); time.sleep(0.5)"
        done = watch.watch(subprocess.Popen([sys.executable, "-c", held]), 30)
        self.assertEqual((done.status, done.stopped), (0, False))
        self.assertGreater(done.peak_bytes, 50_000_000)

    def test_a_program_is_stopped_when_it_is_time(self) -> None:
        began = time.monotonic()
        process = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"])
        done = watch.watch(process, 60, stop=lambda: time.monotonic() - began > 0.3, how=signal.SIGKILL)
        self.assertEqual((done.status, done.stopped), (-9, True))

    def test_a_sparse_file_differs_everywhere_and_takes_little_room(self) -> None:
        with tempfile.TemporaryDirectory(dir="/dev/shm" if Path("/dev/shm").is_dir() else None) as held:
            path = Path(held, "f")
            probes.sparse(path, 8 << 20)
            parts = {path.read_bytes()[i << 20:(i + 1) << 20] for i in range(8)}
            self.assertEqual((len(parts), path.stat().st_size), (8, 8 << 20))
            self.assertLess(path.stat().st_blocks * 512, 1 << 20)

    def test_outcomes_are_kept_side_by_side(self) -> None:
        with tempfile.TemporaryDirectory() as held, mock.patch.object(
                places, "tidegate_binary", return_value=Path(__file__).with_name("get_stub.py")):
            kept = Path(held, "below", "probes.json")
            probes.remember("huge", {"bytes": 1}, kept)
            probes.remember("resolve", {"accessions": 2}, kept)
            found = probes.recalled(kept)
        self.assertEqual((found["huge"]["bytes"], found["resolve"]["accessions"]), (1, 2))
        self.assertIn("0.0.0-stub", str(found["huge"]["version"]))
