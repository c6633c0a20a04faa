"""Training as a shard: what is asked for, what is kept, and the tables; a stub stands for the program."""

import os
import tempfile
import tomllib
import unittest
from contextlib import redirect_stdout
from dataclasses import replace
from io import StringIO
from pathlib import Path
from unittest import mock

from lab import training
from lab.grid import policies
from lab.grid.engine import Rule
from lab.ground import places
from lab.links.scenario import read, toml
from lab.shard import Options, known
from lab.tests.records import record
from lab.training import Course, courses_in, curve_points, rows

# Converges with odd seeds only, fails with the sixth, and notes that it was called.
STUB = """#!/bin/sh
while [ $# -gt 0 ]; do
  case "$1" in
    --version) echo "{version}"; exit 0;;
    --seed) seed=$2; shift;;
    --output) output=$2; shift;;
    --curve) echo 'series,episodes,utility_share' > "$2"
             printf 'played,100,0.5\\npolicy,100,0.7\\nplayed,200,0.9\\n' >> "$2"; shift;;
  esac
  shift
done
echo "$seed" >> "{log}"
[ "$seed" = 6 ] && {{ echo "no memory" >&2; exit 2; }}
echo policy > "$output"
printf '{{"status":"complete","episodes":%s00,"duration_ms":%s000' $seed $seed
printf ',"episodes_per_second":50.0,"utility_share":0.95'
[ $((seed % 2)) = 1 ] && {{ printf ',"converged_episodes":%s0,"converged_ms":%s00}}' $seed $seed; exit 0; }}
printf ',"converged_episodes":null,"converged_ms":null}}'; exit 1
"""


class Program(unittest.TestCase):
    """Runs against a stub in a directory of its own."""

    def setUp(self) -> None:
        self.root = Path(self.enterContext(tempfile.TemporaryDirectory()))
        self.log = self.root / "log"
        self.built("tidegate 9")
        for patch in (mock.patch.dict(os.environ, {"TIDEGATE_BIN": str(self.root / "program")}),
                      mock.patch.object(places, "BUILD", self.root),
                      mock.patch.object(training, "quiet", mock.MagicMock()),
                      mock.patch.object(training, "alone", mock.MagicMock())):
            self.enterContext(patch)

    def built(self, version: str) -> None:
        program = self.root / "program"
        program.write_text(STUB.format(version=version, log=self.log))
        program.chmod(0o755)

    def courses(self, seeds: int = 3) -> list[Course]:
        return [Course("ldm", self.root / "path.toml", seeds, 1.0)]

    def run_all(self, options: Options = Options(), seeds: int = 3) -> tuple[bool, str]:
        out = StringIO()
        with redirect_stdout(out):
            good = training.run_all("some", self.courses(seeds), options)
        return good, out.getvalue()


class Running(Program):
    def test_each_seed_is_trained_once(self) -> None:
        self.assertTrue(self.run_all()[0])
        self.assertEqual(self.log.read_text().split(), ["1", "2", "3"])
        self.run_all()
        self.assertEqual(self.log.read_text().split(), ["1", "2", "3"])
        self.run_all(Options(repeats=4))
        self.assertEqual(self.log.read_text().split(), ["1", "2", "3", "4"])

    def test_a_criterion_that_was_not_met_is_a_result(self) -> None:
        self.run_all()
        found, = courses_in(known("some"), "some")
        self.assertEqual((len(found.runs), found.met), (3, 2))
        self.assertEqual(found.said("episodes"), [100, 200, 300])
        self.assertEqual(found.mean_sd("duration_ms", 1, 1e-3), "2.0 ± 1.0")
        self.assertEqual(found.mean_sd("converged_episodes"), "20 ± 14")

    def test_a_failure_is_kept_and_tried_again(self) -> None:
        good, said = self.run_all(seeds=6)
        self.assertFalse(good)
        self.assertIn("FAILED status 2: no memory", said)
        self.run_all(seeds=6)
        self.assertEqual(self.log.read_text().split().count("6"), 2)
        self.assertEqual(len(courses_in(known("some"), "some")[0].runs), 5)

    def test_another_build_begins_anew(self) -> None:
        self.run_all()
        self.built("tidegate 10")
        self.run_all()
        self.assertEqual(self.log.read_text().split(), ["1", "2", "3"] * 2)

    def test_the_curve_is_kept(self) -> None:
        self.run_all()
        self.assertEqual(known("some")[0].notes["curve"], [[100, 0.5], [200, 0.9]])

    def test_words_choose(self) -> None:
        self.run_all(Options(only=("path",)))
        with self.assertRaises(SystemExit) as stopped:
            self.run_all(Options(only=("lmd",)))
        self.assertIn("no path or recipe here is called lmd", str(stopped.exception))

    def test_a_shard_counts_what_is_there_and_what_can_be(self) -> None:
        shard = training.training("some", "some", self.courses)
        self.assertEqual((shard.minutes, shard.measured()), (1, (0, 3)))
        self.run_all(Options(repeats=2))
        self.assertEqual(shard.measured(), (2, 3))

    def test_a_program_that_is_not_built(self) -> None:
        (self.root / "program").unlink()
        with self.assertRaisesRegex(SystemExit, "is not built"):
            self.run_all()

    def test_rules_that_share_a_recipe_share_a_policy(self) -> None:
        path = read(places.REPOSITORY / "scenarios" / "ldm-1g.toml")
        drawn, mean = (Rule(name, name, recipe="ldm") for name in ("ldm", "policy"))
        with redirect_stdout(StringIO()):
            self.assertEqual(policies.trained(drawn, path, "1"), policies.trained(mean, path, "1"))
            self.assertNotEqual(policies.trained(drawn, path, "1"), policies.trained(drawn, path, "2"))
        self.assertIsNone(policies.trained(Rule("auto", "auto"), path, "1"))


class Tables(unittest.TestCase):
    def test_a_curve_is_what_was_played(self) -> None:
        text = "series,episodes,utility_share\n" + "".join(f"played,{i},0.1\npolicy,{i},0.2\n" for i in range(600))
        points = curve_points(text)
        self.assertEqual({share for _, share in points}, {0.1})
        self.assertLessEqual(len(points), 2 * training.CURVE_POINTS)

    def test_rows_without_any_that_converged(self) -> None:
        said = {"episodes": 5, "duration_ms": 10, "converged_episodes": None, "converged_ms": None,
                "episodes_per_second": 500.0, "utility_share": 0.2}
        good = record("some", "path", "ldm", version="", notes={"said": said})
        found = courses_in([good, replace(good, ok=False, repeat=1, seed=2)], "some")
        row, = rows(found)
        self.assertEqual((len(row), row[:4], row[7]), (len(training.HEADS), ["path", "ldm", "1", "0"], "–"))
        self.assertEqual(training.raw(found).splitlines()[1], "path,ldm,1,5,0.010,,,500.0,0.2,")


class Written(unittest.TestCase):
    def test_every_scenario_says_the_same_when_written_and_read(self) -> None:
        files = [*(places.REPOSITORY / "scenarios").glob("*.toml"), *(places.REPOSITORY / "lab").glob("*/*.toml")]
        self.assertGreater(len(files), 10)
        with tempfile.TemporaryDirectory() as scratch:
            again = Path(scratch) / "again.toml"
            for file in files:
                wanted = read(file)
                again.write_text(toml(wanted))
                self.assertEqual(read(again), wanted, file.name)

    def test_a_description_may_hold_quotes(self) -> None:
        path = replace(read(places.REPOSITORY / "scenarios" / "ldm-1g.toml"), description='a "b" \\ c')
        self.assertEqual(tomllib.loads(toml(path))["description"], 'a "b" \\ c')
