"""The catalogue: names, what each chapter is made from, and the command around it."""

import io
import os
import subprocess
import sys
import tempfile
import unittest
from argparse import Namespace
from contextlib import redirect_stdout
from dataclasses import replace
from pathlib import Path
from unittest import mock

from lab import __main__ as command
from lab import catalogue, install, shard
from lab.ground import places
from lab.ground.results import Record, append
from lab.ground.shell import CommandFailed
from lab.grid.case import Case
from lab.grid.engine import Engine, fixed
from lab.grid.run import Cell
from lab.links.check import found_files
from lab.links.scenario import read
from lab.movers import shards as movers
from lab.runs.setting import OPEN
from lab.shard import NotHere, Options, Page, Shard, named


def invented(name: str, measured: list[str], good: bool = True) -> Shard:
    def measure(options: Options) -> bool:
        measured.append(f"{name} {options.repeats}")
        return good
    return Shard(name, "invented", 10, measure, lambda: (0, 1))


class Names(unittest.TestCase):
    def test_names_are_unique_and_no_shard_is_longer_than_two_hours(self) -> None:
        every = [shard for chapter in catalogue.CHAPTERS if chapter.page != "fastbiodl" for shard in chapter.shards]
        self.assertEqual(len({shard.name for shard in every}), len(every))
        self.assertEqual([shard.name for shard in every if not 0 < shard.minutes <= 120], [])
        self.assertEqual((catalogue.pages()["movers"], catalogue.pages()["get-fig6-1"]), ("copy", "get"))

    def test_a_page_stands_for_its_shards_and_all_for_everything(self) -> None:
        self.assertEqual([shard.name for shard in catalogue.asked(["copy"])], [shard.name for shard in movers.SHARDS])
        self.assertEqual([shard.name for shard in catalogue.asked(["eos-load", "movers", "eos-load"])],
                         ["movers", "eos-load"])
        self.assertEqual(catalogue.asked(["all"]), list(catalogue.shards().values()))
        with self.assertRaisesRegex(SystemExit, "nothing here is called nonsense"):
            catalogue.asked(["movers", "nonsense"])

    def test_pages_are_found_by_their_shards(self) -> None:
        self.assertEqual([chapter.page for chapter in catalogue.chapters(["get-fig6-1"])], ["get", "fastbiodl"])
        self.assertEqual(len(catalogue.chapters([])), len(catalogue.CHAPTERS))
        with self.assertRaisesRegex(SystemExit, "no page or shard"):
            catalogue.chapters(["nonsense"])

    def test_words_choose_sets_levels_and_tools(self) -> None:
        sets, there = movers.wanted(OPEN, "ABCD", ("C", "b"))
        self.assertEqual(sets, "C")
        self.assertEqual({each.level for each in there}, {"b", "limit"})
        self.assertEqual([each.name for each in movers.wanted(OPEN, "A", ("rclone sftp",))[1]], ["rclone sftp"])
        with self.assertRaisesRegex(SystemExit, "no set, level or tool"):
            movers.wanted(OPEN, "A", ("B",))


class Run(unittest.TestCase):
    def asked(self, shards: list[Shard], **more: object) -> tuple[int, str]:
        with redirect_stdout(io.StringIO()) as said:
            status = command.measure(shards, Namespace(**{"n": None, "budget": None, "only": [], **more}))
        return status, said.getvalue()

    def test_a_failure_does_not_keep_the_rest_from_being_measured(self) -> None:
        measured: list[str] = []
        status, said = self.asked([invented("one", measured, good=False), invented("two", measured)], n=3)
        self.assertEqual((status, measured), (1, ["one 3", "two 3"]))
        self.assertIn("one (1 of 2)", said)
        self.assertIn("some runs FAILED", said)

    def test_no_shard_begins_when_the_time_is_over(self) -> None:
        measured: list[str] = []
        status, said = self.asked([invented("one", measured)], budget=0.0)
        self.assertEqual((status, measured), (0, []))
        self.assertIn("are over before one", said)

    def test_words_that_another_shard_knows_leave_this_one_out(self) -> None:
        def unknown(options: Options) -> bool:
            raise NotHere("no mover here is called auto")
        measured: list[str] = []
        strange = Shard("strange", "", 1, unknown)
        status, said = self.asked([strange, invented("one", measured)], only=["auto"])
        self.assertEqual((status, measured), (0, ["one None"]))
        self.assertIn("left out: no mover here is called auto", said)
        with self.assertRaises(NotHere):
            self.asked([strange], only=["auto"])

    def test_bad_input_is_one_line(self) -> None:
        for line in ("run nonsense", "run movers --only nonsense", "run get-fig6-1 --only nonsense", "report nonsense",
                     "report far --output /proc/none", "run movers --n 0", "run movers --n x"):
            done = subprocess.run([sys.executable, "-m", "lab", *line.split()], capture_output=True, text=True,
                                  cwd=places.REPOSITORY)
            self.assertNotEqual(done.returncode, 0)
            self.assertNotIn("Traceback", done.stderr)

    def test_names_with_commas_are_told_apart(self) -> None:
        with self.assertRaisesRegex(NotHere, "no tool here is called z; there are a; cp, two processes; x$"):
            named("tool", ("a", "z"), ("x",), ("cp, two processes", "a"))
        self.assertEqual(named("tool", ("a",), ("x", "y"), ("b", "a")), [{"x", "y"}, {"a"}])


class Amounts(unittest.TestCase):
    def test_a_grid_counts_what_it_can_measure(self) -> None:
        case = Case("c", "a case", read(found_files(["ten-streams"])[0]), 1.0)
        done = Record("g", "c", "fixed 2", "b", 0, 1, 1.0, True)
        with tempfile.TemporaryDirectory() as held, mock.patch.object(places, "BUILD", Path(held)), \
                mock.patch.object(Engine, "missing", return_value=None):
            made = shard.grid("g", "a grid", 1, lambda: [Cell(case, Engine(fixed(n), case)) for n in (1, 2)], 3)
            self.assertEqual(made.measured(), (0, 6))
            for record in (done, done, replace(done, contender="fixed 1", ok=False), replace(done, contender="gone")):
                append(shard.results("g"), record)
            self.assertEqual(made.measured(), (1, 6))

    def test_what_cannot_be_told_is_unknown(self) -> None:
        def fails() -> tuple[int, int]:
            raise CommandFailed("no such program")
        self.assertIsNone(Shard("s", "", 1, lambda options: True, fails).measured())
        self.assertEqual(command.amount(Shard("s", "", 1, lambda options: True)), "unknown")


class Report(unittest.TestCase):
    def report(self, held: str, names: list[str], known: int) -> str:
        measured = Shard("known", "", 1, lambda options: True, lambda: (known, 2))
        chapters = (catalogue.Chapter("known", (measured,), lambda: Page("known", "# New\n", {"known.csv": "a\n"})),)
        Path(held, "known.md").write_text("# Old\n")
        with mock.patch.object(catalogue, "CHAPTERS", chapters), redirect_stdout(io.StringIO()), \
                mock.patch.object(command.html, "write"):
            command.report(Namespace(names=names, output=Path(held), html=Path(held, "report.html")))
        return Path(held, "known.md").read_text()

    def test_a_page_of_which_nothing_is_known_stays_unless_it_is_named(self) -> None:
        with tempfile.TemporaryDirectory() as held:
            self.assertEqual(self.report(held, [], 0), "# Old\n")
            self.assertEqual(self.report(held, [], 1), "# New\n")
            self.assertEqual(self.report(held, ["known"], 0), "# New\n")
            self.assertTrue(Path(held, "known.csv").exists())

    def test_every_page_can_be_made_of_nothing(self) -> None:
        program = ("from lab import catalogue\nfor c in catalogue.CHAPTERS:\n    page = c.made()\n"
                   "    assert page.name == c.page and page.text.startswith('# ')")
        with tempfile.TemporaryDirectory() as held:
            done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True,
                                  cwd=places.REPOSITORY, env={**os.environ, "CARGO_TARGET_DIR": held})
        self.assertEqual((done.returncode, done.stderr), (0, ""))


class Install(unittest.TestCase):
    def test_one_line_a_package(self) -> None:
        def apt(argv: list[str], check: bool = True) -> str:
            if argv[-1] == "bbcp":
                raise CommandFailed("apt-get: status 100:\nReading\nE: Unable to locate package bbcp\n")
            return ""
        with mock.patch.multiple(install, installed=lambda package: False, run=apt, exists=lambda program: True), \
                mock.patch.object(os, "geteuid", return_value=0), \
                redirect_stdout(io.StringIO()) as said:
            self.assertFalse(install.outcomes(["rsync", "bbcp"]))
        self.assertEqual(said.getvalue().splitlines(),
                         ["bbcp: not installable: Unable to locate package bbcp", "rsync: installed"])
