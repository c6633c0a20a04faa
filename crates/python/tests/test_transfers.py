"""Transfers in this process: what they bring, how they are stopped, and what they raise."""

import array
import asyncio
import collections
import contextlib
import copy
import dataclasses
import enum
import errno
import inspect
import io
import json
import os
import pickle
import signal
import subprocess
import sys
import tempfile
import threading
import time
import unittest
import warnings
from datetime import UTC, date, datetime, timedelta, timezone
from fractions import Fraction
from pathlib import Path
from typing import get_type_hints

import tidegate

# Slow enough to be stopped before it is over, on any machine.
SLOW = {"limit_link": "1Mbit/s", "max_workers": 2}


class TransferTest(unittest.TestCase):
    # Where its directory is made; None for where others are.
    beneath = None

    def setUp(self):
        directory = tempfile.TemporaryDirectory(dir=self.beneath)
        self.addCleanup(directory.cleanup)
        self.home = Path(directory.name)
        before = os.environ.get("TIDEGATE_STATE")
        os.environ["TIDEGATE_STATE"] = str(self.home / "state")
        self.addCleanup(lambda: os.environ.pop("TIDEGATE_STATE") if before is None else os.environ.update(TIDEGATE_STATE=before))
        self.data = self.home / "data"
        self.data.write_bytes(os.urandom(3 << 20))

    def names(self, directory):
        return [path.name for path in (self.home / directory).glob("*") if path.name != ".tidegate"]

    def serve(self, *more):
        """The address of an endpoint, run by the package's own program."""
        (self.home / "root").mkdir()
        command = [sys.executable, "-m", "tidegate", "endpoint", "--root", self.home / "root", "--listen", "127.0.0.1:0"]
        process = subprocess.Popen([*command, "--state", self.home / "endpoint", *more], stdout=subprocess.PIPE, text=True)
        self.addCleanup(lambda: (process.terminate(), process.wait(), process.stdout.close()))
        return process.stdout.readline().strip()


class SyncTest(TransferTest):
    def test_a_copy_arrives_and_tells_of_it(self):
        seen = []
        result = tidegate.copy(self.data, self.home / "there", progress=seen.append)
        self.assertEqual((self.home / "there").read_bytes(), self.data.read_bytes())
        self.assertEqual((result.status, result.verified, result.files.ok, result.bytes), ("complete", True, 1, 3 << 20))
        self.assertEqual((seen[-1].bytes, seen[-1].total_bytes, seen[-1].total_files), (3 << 20, 3 << 20, 1))
        self.assertEqual(tidegate.copy(self.data, self.home / "there").files.skipped, 1)
        self.assertEqual(tidegate.hash(self.data), tidegate.hash(self.home / "there"))

    def test_options_are_those_of_the_command(self):
        for name in ("a.txt", "b.tmp", "c.log"):
            (self.home / "tree").mkdir(exist_ok=True)
            (self.home / "tree" / name).write_text(name)
        tidegate.copy(f"{self.home}/tree/", self.home / "there", exclude=["*.tmp", "*.log"], no_memory=True, checksum=False)
        self.assertEqual(self.names("there"), ["a.txt"])

    def test_an_endpoint_is_pushed_to_pulled_from_and_estimated(self):
        address = self.serve()
        address = address.rstrip("/")
        self.assertEqual(tidegate.copy(self.data, f"{address}/in/").status, "complete")
        self.assertEqual(tidegate.copy(f"{address}/in/data", self.home / "back").bytes, 3 << 20)
        estimate = tidegate.estimate(self.data, address)
        self.assertEqual((estimate.bytes, estimate.source), (3 << 20, "local"))
        self.assertNotIn(address.split("@")[0], repr(estimate))

    def test_results_have_the_names_of_the_json(self):
        tree, there = self.home / "tree", self.home / "there"
        for directory in (tree, there):
            directory.mkdir()
            (directory / f"in-{directory.name}").write_text("x")
        program = [sys.executable, "-m", "tidegate"]
        for words, of in (
            (["copy", "--json", "--delete", f"{tree}/", f"{there}/"], tidegate.TransferResult),
            (["ls", "--json", tree], tidegate.ListedFile),
            (["get", "--json", "--dry-run", self.data.as_uri()], tidegate.RemoteFile),
        ):
            told = json.loads(subprocess.run([*program, *words], capture_output=True, check=True).stdout.splitlines()[-1])
            self.assertEqual(set(told) - {field.name for field in dataclasses.fields(of)}, set(), of)
            if "files" in told:
                self.assertEqual(told["files"]["deleted"], 1)
                self.assertLessEqual(set(told["files"]), {field.name for field in dataclasses.fields(tidegate.Files)})

    def test_what_differs_is_told_by_its_name(self):
        other = self.home / "other"
        other.write_bytes(self.data.read_bytes()[:-1] + b"\0")
        with self.assertRaises(tidegate.IncompleteError) as raised:
            tidegate.verify(self.data, other)
        self.assertEqual((raised.exception.exit_code, raised.exception.result.files.failed), (1, 1))
        self.assertEqual(raised.exception.path, raised.exception.result.failures[0].path)

    def test_files_are_got_by_their_urls(self):
        result = tidegate.get(self.data.as_uri(), self.home / "got", no_sidecars=True)
        self.assertEqual((result.files.ok, self.names("got")), (1, ["data"]))

    def test_what_names_come_to_is_told_without_getting_it(self):
        (self.home / "list.jsonl").write_text('{"urls": ["https://h/x", "https://m/x"], "path": "d/x", "bytes": 7, "checksums": {"md5": "%s"}}\n' % ("0" * 32))
        (one,), (url,) = tidegate.resolve(str(self.home / "list.jsonl")), tidegate.resolve("https://h/a%20b.txt")
        self.assertEqual((one.path, one.bytes, one.checksums, len(one.urls)), ("d/x", 7, {"md5": "0" * 32}, 2))
        self.assertEqual((url.path, url.bytes, url.checksums), ("a b.txt", None, {}))
        with self.assertRaises(tidegate.UsageError):
            tidegate.resolve("-")

    def test_warnings_are_in_the_result_and_go_to_the_logger(self):
        (self.home / "tree").mkdir()
        os.mkfifo(self.home / "tree" / "pipe")
        (self.home / "tree" / "file").write_text("x")
        for call in (tidegate.copy, lambda *words: asyncio.run(tidegate.aio.copy(*words))):
            with self.assertLogs("tidegate", "WARNING") as logged:
                result = call(self.home / "tree", self.home / f"there {call}")
            self.assertEqual((result.status, len(result.warnings)), ("complete", 1), result)
            self.assertIn("pipe", result.warnings[0])
            self.assertEqual([record.getMessage() for record in logged.records], list(result.warnings))
        self.assertEqual(tidegate.copy(self.data, self.home / "quiet").warnings, ())

    def test_what_a_rule_raises_is_warned_of_and_nothing_is_printed(self):
        (self.home / "mine.py").write_text("def mine(seen, bounds):\n    return 1 // (not seen.at_ms)\n")
        code = f"""if True:
            import tidegate
            result = tidegate.copy('data', 'there', optimizer='python:mine:mine', limit_link='8Mbit/s')
            print([line for line in result.warnings if 'ZeroDivisionError' in line])
            print([line for line in result.warnings if 'its last set-point stands' in line])
        """
        ran = subprocess.run(
            [sys.executable, "-W", "ignore", "-c", f"import logging; logging.disable()\n{code}"], cwd=self.home,
            env=os.environ | {"PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"}, capture_output=True, text=True,
        )
        self.assertEqual((ran.returncode, ran.stderr), (0, ""), ran)
        raised, stands = ran.stdout.splitlines()
        self.assertIn("python:mine:mine: ZeroDivisionError", raised)
        self.assertIn("stands to the end", stands)

    def test_what_failed_is_no_warning_besides(self):
        with self.assertRaises(tidegate.IncompleteError) as raised:
            tidegate.verify(self.data, self.home / "none")
        self.assertEqual(raised.exception.result.warnings, ())

    def test_each_refusal_has_its_class(self):
        for call, kind, error in [
            (lambda: tidegate.copy(self.home / "none", self.home / "x"), tidegate.NotFoundError, "not_found"),
            (lambda: tidegate.copy(self.data, self.home / "x", nonsense=1), tidegate.UsageError, "usage"),
            (lambda: tidegate.copy(self.data, "no-such-name:/x"), ValueError, "usage"),
            (lambda: tidegate.copy(self.data, "ftp://localhost/x"), tidegate.UsageError, "usage"),
            (lambda: tidegate.get("-", self.home / "x"), tidegate.UsageError, "usage"),
            (lambda: tidegate.get(self.data.as_uri(), self.home, pipe=True), tidegate.UsageError, "usage"),
            (lambda: tidegate.get(self.data.as_uri(), self.home, dry_run=True), tidegate.UsageError, "usage"),
            (lambda: tidegate.put(self.data, "ftp://localhost/x"), tidegate.UsageError, "usage"),
            (lambda: tidegate.estimate(self.home, "nowhere:/x"), tidegate.UsageError, "usage"),
            (lambda: tidegate.hash(self.home), tidegate.UsageError, "usage"),
            (lambda: tidegate.hash(self.home / "none"), FileNotFoundError, "not_found"),
        ]:
            with self.assertRaises(kind) as raised:
                call()
            self.assertEqual(raised.exception.kind, error)
            self.assertNotIn("\n", str(raised.exception))


class Named(str, enum.Enum):
    CFG = "*.cfg"


class TypesTest(TransferTest):
    """A value of the wrong type is a TypeError before anything runs: as a text it would mean something else."""

    def setUp(self):
        super().setUp()
        self.tree, self.there = self.home / "tree", self.home / "there"
        for directory, names in ((self.tree, ("a.txt", "b.cfg")), (self.there, ("local.cfg", "old.txt"))):
            directory.mkdir()
            for name in names:
                (directory / name).write_text(name)

    def mirror(self, **options):
        return tidegate.copy(f"{self.tree}/", f"{self.there}/", delete=True, no_memory=True, **options)

    def test_any_iterable_of_texts_is_several_options(self):
        texts = ["*.cfg", "none"]
        for given in (
            "*.cfg", Named.CFG, texts, tuple(texts), set(texts), frozenset(texts), dict.fromkeys(texts).keys(),
            (text for text in texts), iter(texts), map(str, texts), collections.deque(texts), {1: "*.cfg"}.values(),
        ):
            self.mirror(exclude=given)
            self.assertEqual(sorted(self.names("there")), ["a.txt", "local.cfg"], repr(given))
        self.mirror(filter={"- *.cfg"})
        self.mirror(exclude=[], exclude_from=iter([]))
        self.assertEqual(sorted(self.names("there")), ["a.txt", "b.cfg"])

    def test_everything_else_is_a_type_error_and_nothing_is_removed(self):
        texts = ["*.cfg"]
        wrong = {
            "exclude": [
                b"*.cfg", bytearray(b"*.cfg"), memoryview(b"*.cfg"), [b"*.cfg"], [1], 1, 1.5, True, False, None, [None], [True],
                [texts], {"*.cfg": 1}, Path("*.cfg"), [Path("*.cfg")], object(), io.StringIO("*.cfg\n"), array.array("b", b"x"),
                range(3), str, timedelta(1),
            ],
            "filter": [{"- *.cfg", "+ *"}, {"- *.cfg": 1}, None],
            "exclude_from": [b"x", 3, [None], True],
            "files_from": [True, None, ["a"], b"a", 0, {"a"}],
            "delete_excluded": [1, 0, "no", "", None, [True]],
            "max_delete": ["1", True, False, 1.0, None, [1], b"1"],
            "min_size": [True, None, ["1"], b"1", timedelta(1)],
            "newer_than": [1, True, 1.5, None, date(2026, 1, 1), b"7d"],
            "limit_link": [True, None, [1e6]],
            "retry_for": [True, None, b"3s"],
            "optimizer": [1, None, True, b"auto"],
            "utility_k": ["1.02", True, None],
            "links": [True, None, 1, ["keep"]],
            "state": [True, None, 1, b"state"],
        }
        for name, values in wrong.items():
            for value in values:
                with self.subTest(name=name, value=value), self.assertRaisesRegex(TypeError, f"^{name}"):
                    self.mirror(**{name: value})
                with self.subTest(name=name, value=value), self.assertRaisesRegex(TypeError, f"^{name}"):
                    asyncio.run(tidegate.aio.copy(f"{self.tree}/", f"{self.there}/", delete=True, **{name: value}))
        for call in (
            lambda: self.mirror(exclude=(1 for _ in "x")), lambda: self.mirror(progress=True), lambda: self.mirror(cancel=True),
            lambda: tidegate.copy(b"tree", self.there), lambda: tidegate.copy({self.tree: 1}, self.there),
            lambda: tidegate.copy([self.tree, None], self.there), lambda: tidegate.copy(io.StringIO("tree\n"), self.there),
            lambda: tidegate.copy(self.tree, [self.there]), lambda: tidegate.copy(self.tree, None),
            lambda: tidegate.verify(self.tree, self.there, exclude=True), lambda: tidegate.ls(None),
            lambda: tidegate.ls(self.tree, recursive="no"), lambda: tidegate.hash(3), lambda: tidegate.get(b"SRR1", self.home),
            lambda: tidegate.get(Path("SRR1"), self.home), lambda: tidegate.get("SRR1", True),
            lambda: tidegate.get("SRR1", self.home, max_connections=True), lambda: tidegate.get("SRR1", overwrite=1),
            lambda: tidegate.resolve(None), lambda: tidegate.resolve("SRR1", retries="8"),
            lambda: tidegate.put(self.tree, Path("s3://bucket/x")), lambda: tidegate.put(self.tree, "s3://b/x", header={"A": "b"}),
            lambda: tidegate.estimate(self.tree, "tg://h/", max_streams=True),
        ):
            with self.assertRaises(TypeError):
                call()
        self.assertEqual(sorted(self.names("there")), ["local.cfg", "old.txt"])

    def test_each_option_refuses_what_is_not_of_its_type(self):
        seen = 0
        for name, declared in vars(tidegate._options).items():
            if not name.endswith("Options") or name.startswith("_"):
                continue
            for option in get_type_hints(declared):
                for wrong in (None, object(), b"x", 1j, [None], [b"x"], {"x": 1}, io.StringIO("x")):
                    with self.subTest(command=name, option=option, wrong=wrong), self.assertRaises(TypeError):
                        tidegate._words.options("copy", declared, {option: wrong})
                seen += 1
                for right in (True, 8, 1.5, "x", ["x", "y"], timedelta(seconds=1), Path("x")):
                    try:
                        words = tidegate._words.options("copy", declared, {option: right})
                    except TypeError:
                        continue
                    self.assertTrue(words and all(word.startswith("--") for word in words), (option, right))
        self.assertGreater(seen, 100)

    def test_values_are_said_as_the_command_reads_them(self):
        def said(declared, **options):
            return tidegate._words.options("copy", getattr(tidegate._options, declared), options)

        self.assertEqual(said("CopyOptions", exclude={"b", "a"}), ["--exclude=a", "--exclude=b"])
        self.assertEqual(said("CopyOptions", newer_than=timedelta(days=1)), ["--newer-than=86400000000us"])
        self.assertEqual(said("CopyOptions", retry_for=timedelta(microseconds=1)), ["--retry-for=1us"])
        self.assertEqual(said("CopyOptions", delete=False, checksum=True, max_workers=8), ["--checksum", "--max-workers=8"])
        self.assertEqual(said("CopyOptions", utility_k=2, state=Path("a")), ["--utility-k=2.0", "--state=a"])
        self.assertEqual(said("GetOptions", max_connections=[8, "h=2"]), ["--max-connections=8", "--max-connections=h=2"])
        for option in ("json", "outdir", "max-workers", "exclude_", "dry_run"):
            with self.assertRaises(tidegate.UsageError):
                said("CopyOptions", **{option: "x"})

    def test_values_are_handed_over_as_they_are(self):
        def told(declared, **options):
            said = tidegate._values.values("copy", getattr(tidegate._options, declared), options)
            return json.loads(tidegate._values.as_json(said))

        rules = told("CopyOptions", include="a", filter=["- b", "P c"], exclude=["d", "e\udcff"])
        self.assertEqual(rules, {"filter": [{"include": "a"}, "- b", "P c", {"exclude": "d"}, {"exclude": [101, 255]}]})
        self.assertEqual(told("CopyOptions", max_workers=8, delete=True, move=False), {"max_workers": 8, "delete": True})
        self.assertEqual(told("CopyOptions", utility_k=float("nan"), limit_link=8), {"utility_k": "nan", "limit_link": "8bit/s"})
        self.assertEqual(told("GetOptions", max_connections=[8, "h=2"], timeout=2), {"max_connections": ["8", "h=2"], "timeout": "2s"})
        tree = self.home / "of bytes"
        tree.mkdir()
        Path(os.fsdecode(os.fsencode(tree) + b"/a\xff")).write_text("x")
        (tree / "b").write_text("x")
        result = tidegate.copy(f"{tree}/", f"{self.home}/to bytes/", exclude=os.fsdecode(b"a\xff"), state=self.home / os.fsdecode(b"s\xff"))
        self.assertEqual((result.files.ok, self.names("to bytes")), (1, ["b"]))

    def test_what_holds_for_options_together_is_held(self):
        for options in (
            {"tls_ca": "x"}, {"delete": True, "move": True}, {"remote_path": "x", "install_remote": "y"}, {"epoch": 0.01}, {"utility_k": 0.5},
            {"utility_k": float("nan")}, {"max_workers": 513}, {"retry_for": "31d"}, {"seed": 1 << 70}, {"port_range": "9-8"}, {"advertise": "[x"},
        ):
            with self.subTest(options=options), self.assertRaises(tidegate.UsageError) as raised:
                tidegate.copy(self.data, self.home / "there", **options)
            self.assertRegex(str(raised.exception), "|".join(options))
        for options in ({"fixed": 3, "optimizer": "aimd"}, {"fixed": 0}, {"max_connections": "h=0"}, {"base_url": "x"}, {"retry_for": "31d"}):
            with self.subTest(options=options), self.assertRaises(tidegate.UsageError) as raised:
                tidegate.get(self.data.as_uri(), self.home / "got", **options)
            self.assertRegex(str(raised.exception), "|".join(options))
        with self.assertRaisesRegex(tidegate.UsageError, "header"):
            tidegate.put(self.data, "https://localhost/x", header="nonsense")

    def test_a_time_without_a_zone_is_local_and_keeps_its_time_of_day(self):
        os.environ["TZ"] = "CET-1CEST,M3.5.0,M10.5.0/3"
        time.tzset()
        self.addCleanup(lambda: (os.environ.pop("TZ"), time.tzset()))
        noon = datetime(2026, 7, 1, 12, 0, 0, 250_000)
        for given, said in (
            (noon, "2026-07-01T10:00:00.250000+00:00"),
            (noon.replace(tzinfo=UTC), "2026-07-01T12:00:00.250000+00:00"),
            (noon.replace(tzinfo=timezone(timedelta(hours=-4))), "2026-07-01T16:00:00.250000+00:00"),
            (datetime(2026, 10, 25, 2, 30, fold=1), "2026-10-25T01:30:00+00:00"),
        ):
            words = tidegate._words.options("copy", tidegate._options.CopyOptions, {"newer_than": given})
            self.assertEqual(words, [f"--newer-than={said}"])
        os.utime(self.tree / "a.txt", (noon.timestamp(), noon.timestamp()))
        later = noon + timedelta(microseconds=1)
        for given, taken in ((noon, 0), (noon.isoformat(), 0), (later, 1), (later.isoformat(), 1)):
            copied = tidegate.copy(f"{self.tree}/", f"{self.home}/to {given!r}/", older_than=given, no_memory=True)
            self.assertEqual(copied.files.ok, taken, given)
        with self.assertRaises(tidegate.UsageError):
            tidegate.copy(self.tree, self.there, newer_than=datetime.min)

    def test_a_path_object_is_of_this_host(self):
        with contextlib.chdir(self.home):
            os.rename("data", "x:data")
            tidegate.copy(Path("x:data"), "copied")
            self.assertEqual(Path("copied").read_bytes(), Path("x:data").read_bytes())
            with self.assertRaises(tidegate.UsageError):
                tidegate.copy("copied", Path("dtn:/in"))
            self.assertFalse(Path("dtn:").exists())


class NumbersTest(TransferTest):
    """Where the unit is plain, a number will do; what is wrong is told by the keyword."""

    def said(self, **options):
        return tidegate._words.options("copy", tidegate.CopyOptions, options)

    def test_a_number_is_of_seconds_bits_a_second_or_bytes(self):
        for name, value, said in (
            ("retry_for", 3, "3s"), ("retry_for", 0.25, "0.25s"), ("stall_timeout", Fraction(3, 2), "1.5s"), ("retry_for", 3e6, "3000000s"),
            ("limit_link", 80e6, "80000000bit/s"), ("staging", 1 << 24, "16777216B"), ("chunk_size", 8e6, "8000000B"),
            ("retry_for", 0, "0s"), ("retry_for", 1e-9, "0.000001s"), ("aimd_epsilon", 0.01, "0.01"), ("limit_link", "8Mbit/s", "8Mbit/s"),
        ):
            self.assertEqual(self.said(**{name: value}), [f"--{name.replace('_', '-')}={said}"])
        result = tidegate.copy(self.data, self.home / "there", retry_for=3, limit_link=800e6, staging=1 << 22, chunk_size=8 << 20)
        self.assertEqual(result.status, "complete")

    def test_what_is_none_is_told_by_its_keyword(self):
        for options, wanted in (
            ({"retry_for": -1}, "retry_for must be a number of seconds, 0 or more, not -1"),
            ({"retry_for": float("inf")}, "retry_for must be a number of seconds"),
            ({"limit_link": float("nan")}, "limit_link must be a number of bit/s"),
            ({"staging": 1e300}, "staging must be a number of bytes"),
            ({"max_workers": 0}, "for 'max_workers': "),
            ({"limit_link": "fast"}, "for 'limit_link': "),
            ({"links": "some"}, "for 'links' "),
            ({"share": "full", "optimizer": "aimd"}, "share goes with optimizer auto"),
            ({"backup_dir": "x"}, "max_delete and backup_dir say how delete is meant"),
        ):
            with self.subTest(options=options), self.assertRaises(tidegate.UsageError) as raised:
                tidegate.copy(self.data, self.home / "there", **options)
            self.assertIn(wanted, str(raised.exception))
            self.assertNotIn("--", str(raised.exception))
        for wrong in (4.0, "4"):
            with self.assertRaisesRegex(TypeError, "^max_workers must be a whole number"):
                tidegate.copy(self.data, self.home / "there", max_workers=wrong)
        kept = tidegate._values.in_keywords("see `tidegate copy --help`, a--links, x/--links and --none", tidegate.CopyOptions)
        self.assertEqual(kept, "see `tidegate copy --help`, a--links, x/--links and --none")

    def test_what_every_command_is_told_it_reads_as_values(self):
        here, there, nowhere = str(self.data), str(self.home / "there"), "tg://T@127.0.0.1:1/x"
        for call, wanted in (
            (lambda: tidegate.estimate(here, nowhere, sampler="ping"), "'ping' for 'sampler'"),
            (lambda: tidegate.estimate(here, nowhere, bytes="much"), "'much' for 'bytes'"),
            (lambda: tidegate.estimate(here, nowhere, sample_time=timedelta(milliseconds=1)), "from 400ms to 60s"),
            (lambda: tidegate.estimate(here, nowhere, sample_time=1, sample_size=1 << 20), "not both"),
            (lambda: tidegate.estimate(here, nowhere, max_streams=0), "from 1 to 512"),
            (lambda: tidegate.estimate(here, nowhere, use_history="soon"), "'soon' for 'use_history'"),
            (lambda: tidegate.estimate(here, nowhere, server="http://h", database="sqlite:x"), "database"),
            (lambda: tidegate.verify(here, there, staging=1), "staging must be from 1MiB"),
            (lambda: tidegate.verify(here, there, epoch=timedelta(microseconds=1)), "epoch must be from 100ms"),
            (lambda: tidegate.verify(here, there, verify="md5"), "blake3, block"),
            (lambda: tidegate.ls(here, tls_ca="x"), "go together"),
        ):
            with self.subTest(wanted=wanted), self.assertRaises(tidegate.UsageError) as raised:
                call()
            message = str(raised.exception)
            self.assertTrue(wanted in message and "\n" not in message, message)

    def test_help_tells_each_option_and_what_holds_without_it(self):
        for name in ("copy", "verify", "get", "put", "estimate", "ls"):
            told = inspect.getdoc(getattr(tidegate, name))
            self.assertEqual(told.split("Options:")[1], inspect.getdoc(getattr(tidegate.aio, name)).split("Options:")[1])
            for option in get_type_hints(getattr(tidegate, f"{name.capitalize()}Options")):
                self.assertRegex(told, rf"(?m)^{option}: \w")
        self.assertRegex(inspect.getdoc(tidegate.copy), r"(?m)^max_workers: .*\(default: 32\)$")
        self.assertRegex(inspect.getdoc(tidegate.Endpoint), r"(?m)^read_only: ")
        self.assertNotRegex(inspect.getdoc(tidegate.copy), r"--max-workers|--delete")


class ErrorsTest(TransferTest):
    """What is raised is what Python's own functions would raise, with the same fields."""

    def raised(self, kind, call):
        with self.assertRaises(kind) as raised:
            call()
        error = raised.exception
        again = pickle.loads(pickle.dumps(error))
        for one in (error, again, copy.copy(error)):
            self.assertEqual(
                (type(one), str(one), one.kind, one.errno, one.filename, one.path, one.retryable),
                (type(error), error.args[0], error.kind, error.errno, error.filename, error.path, error.retryable),
            )
        return error

    def test_what_is_not_there_has_its_number_and_its_name(self):
        none, there = str(self.home / "none"), str(self.home / "there")
        for call in (
            lambda: tidegate.copy(none, there), lambda: tidegate.copy([self.data, none], there), lambda: tidegate.hash(none),
            lambda: tidegate.ls(none), lambda: asyncio.run(tidegate.aio.copy(none, there)),
        ):
            error = self.raised(FileNotFoundError, call)
            self.assertEqual((error.errno, error.filename, error.retryable), (errno.ENOENT, none, False))
            self.assertEqual(error.strerror, os.strerror(errno.ENOENT))

    def test_the_place_that_is_not_there_is_the_one_that_was_given(self):
        (self.home / "tree").mkdir()
        (self.home / "tree" / "a").write_text("x")
        with contextlib.chdir(self.home):
            for missing in ("missing/", "missing", f"{self.home}/missing"):
                error = self.raised(FileNotFoundError, lambda missing=missing: tidegate.verify("tree", missing))
                self.assertEqual(error.filename, missing)

    def test_a_text_that_no_file_can_have_is_refused(self):
        for text in ("a\0b", "a\ud800b"):
            for call in (
                lambda text=text: tidegate.copy(text, self.home), lambda text=text: tidegate.copy(self.data, text),
                lambda text=text: tidegate.copy(Path(text), self.home), lambda text=text: tidegate.hash(text),
                lambda text=text: tidegate.copy(self.data, self.home, exclude=[text]), lambda text=text: tidegate.get(text, self.home),
            ):
                self.assertTrue(str(self.raised(tidegate.UsageError, call)).isascii())

    def test_a_refused_port_is_a_connection_error(self):
        (self.home / "root").mkdir()
        with tidegate.Endpoint(self.home / "root") as endpoint:
            address = endpoint.address
        url = f"http://{address.rpartition('@')[2]}file"
        for name, call in (
            ("copy", lambda: tidegate.copy(self.data, f"{address}x", retry_for=0)), ("ls", lambda: tidegate.ls(address)),
            ("get", lambda: tidegate.get(url, self.home / "got", retry_for=0, retries=0)),
            ("put", lambda: tidegate.put(self.data, url, retries=0)),
        ):
            with self.subTest(name=name):
                error = self.raised(ConnectionError, call)
                self.assertEqual((error.errno, error.retryable, error.kind), (errno.ECONNREFUSED, True, "connection"))
            self.assertIsInstance(error, tidegate.UnreachableError)
        self.assertIsInstance(self.raised(tidegate.Error, lambda: tidegate.get(url, self.home, retry_for=0)), tidegate.IncompleteError)

    def test_what_is_refused_or_misused_has_its_number_and_no_secret(self):
        root = self.home / "root"
        root.mkdir()
        with tidegate.Endpoint(root) as one:
            other = one.address
        with tidegate.Endpoint(root, read_only=True, state=self.home / "other") as endpoint:
            secret, host = endpoint.address.removeprefix("tg://").rstrip("/").split("@")
            error = self.raised(PermissionError, lambda: tidegate.ls(f"tg://{other[5:].split('@')[0]}@{host}/"))
            self.assertEqual((error.errno, error.retryable), (errno.EACCES, False))
            error = self.raised(FileNotFoundError, lambda: tidegate.copy(f"{endpoint.address}none", self.home / "x"))
            self.assertEqual((error.errno, error.filename), (errno.ENOENT, f"tg://{host}/none"))
            self.assertNotIn(secret, repr(vars(error)) + repr(endpoint))
        error = self.raised(ValueError, lambda: tidegate.copy(self.data, self.home, max_workers=0))
        self.assertEqual((error.errno, error.retryable), (None, False))

    def test_what_failed_has_the_name_of_the_file(self):
        (self.home / "tree").mkdir()
        (self.home / "tree" / "a").write_text("x")
        (self.home / "other").mkdir()
        error = self.raised(tidegate.IncompleteError, lambda: tidegate.verify(f"{self.home}/tree/", self.home / "other"))
        self.assertEqual((error.filename, error.path, error.errno, error.retryable), ("a", "a", errno.ENOENT, False))
        self.assertNotIsInstance(error, OSError)

    def test_what_passes_may_be_tried_again(self):
        for kind, passes in (("connection", True), ("busy", True), ("changed", True), ("usage", False), ("io", False)):
            self.assertEqual(tidegate.errors.of_exit(1, "no", kind).retryable, passes)


class RuleTest(TransferTest):
    """A function of this process decides."""

    # Some epochs, on any machine.
    PACE = {"limit_link": 24e6, "epoch": 0.1, "max_workers": 4}

    def test_a_function_decides(self):
        asked = []

        def mine(seen, bounds):
            asked.append((threading.get_ident(), seen.at_ms, bounds.network))
            return [2, 3, 2]

        log = self.home / "log"
        result = tidegate.copy(self.data, self.home / "there", optimizer=mine, epochs=log, **self.PACE)
        self.assertEqual((result.status, result.optimizer, result.warnings), ("complete", "mine", ()))
        self.assertIn('{"read":2,"network":3,"write":2}', log.read_text().replace(" ", ""))
        self.assertEqual({thread for thread, _, _ in asked}, {threading.get_ident()})
        asked.clear()
        asyncio.run(tidegate.aio.copy(self.data, self.home / "then", optimizer=mine, **self.PACE))
        self.assertTrue(asked)

    def test_an_object_is_asked_where_to_begin(self):
        class Mine:
            def start(self, bounds, host):
                return [3, 3, 3]

            def propose(self, seen, bounds):
                return [3, 3, 3]

        result = tidegate.copy(self.data, self.home / "there", optimizer=Mine, **self.PACE)
        self.assertEqual((result.optimizer, result.concurrency_mean), ("Mine", (3, 3, 3)))
        result = tidegate.copy(self.data, self.home / "ours", optimizer=tidegate.Optimizer("fixed:2"), **self.PACE)
        self.assertEqual((result.optimizer, result.concurrency_mean), ("Optimizer", (2, 2, 2)))

    def test_what_it_raises_is_raised(self):
        def wrong(seen, bounds):
            return 1 // 0 if self.divides else {1, 2, 3}

        for self.divides, kind in ((True, ZeroDivisionError), (False, TypeError)):
            with self.assertRaises(kind):
                tidegate.copy(self.data, self.home / "there", optimizer=wrong, **self.PACE)
        self.assertFalse((self.home / "there").exists())


class EndpointTest(TransferTest):
    def test_it_is_there_while_a_block_runs(self):
        (self.home / "root").mkdir()
        with tidegate.Endpoint(self.home / "root") as endpoint:
            self.assertEqual(tidegate.copy(self.data, f"{endpoint.address}in/").status, "complete")
            address = endpoint.address
        self.assertEqual((self.home / "root/in/data").read_bytes(), self.data.read_bytes())
        with self.assertRaises(tidegate.UnreachableError):
            tidegate.ls(address)
        with self.assertRaises(ValueError):
            endpoint.address
        with endpoint, self.assertRaises(ValueError):
            endpoint.start()
        endpoint.close()

    def test_what_cannot_be_served_is_raised(self):
        for call, kind in (
            (lambda: tidegate.Endpoint(self.home / "none").start(), FileNotFoundError),
            (lambda: tidegate.Endpoint(self.home, listen="nonsense").start(), tidegate.UsageError),
            (lambda: tidegate.Endpoint(self.home, sessions=0).start(), tidegate.UsageError),
            (lambda: tidegate.Endpoint(self.home, nonsense=1), tidegate.UsageError),
            (lambda: tidegate.Endpoint(self.home, read_only="no"), TypeError),
        ):
            with self.assertRaises(kind) as raised:
                call()
            self.assertNotIn("--", str(raised.exception).partition("(see")[0])

    def test_it_ends_with_its_process(self):
        code = "import tidegate; endpoint = tidegate.Endpoint('root').start(); print(endpoint.address)"
        (self.home / "root").mkdir()
        ran = subprocess.run([sys.executable, "-W", "error", "-c", code], cwd=self.home, capture_output=True, text=True)
        self.assertEqual((ran.returncode, ran.stderr), (0, ""))
        with self.assertRaises(tidegate.UnreachableError):
            tidegate.ls(ran.stdout.strip())


class StopTest(TransferTest):
    def test_an_event_cancels(self):
        stop = threading.Event()
        with self.assertRaises(tidegate.CancelledError) as raised:
            tidegate.copy(self.data, self.home / "there", progress=lambda seen: stop.set(), cancel=stop, **SLOW)
        self.assertEqual((raised.exception.exit_code, raised.exception.result.status), (130, "interrupted"))
        self.assertFalse((self.home / "there").exists())
        self.assertEqual(tidegate.copy(self.data, self.home / "there").status, "complete")

    def test_a_cancelled_result_has_what_is_kept(self):
        self.data.write_bytes(os.urandom(24 << 20))
        stop = threading.Event()
        with self.assertRaises(tidegate.CancelledError) as raised:
            tidegate.copy(
                self.data, self.home / "there", cancel=stop, limit_link=160e6, max_workers=1,
                progress=lambda seen: seen.bytes >= 12 << 20 and stop.set(),
            )
        result = raised.exception.result
        self.assertGreater(result.kept_bytes, 0)
        self.assertEqual(result.unfinished_bytes, result.kept_bytes)
        self.assertEqual(tidegate.copy(self.data, self.home / "there").bytes, (24 << 20) - result.kept_bytes)

    def test_what_a_callback_raises_ends_the_transfer(self):
        with self.assertRaises(ZeroDivisionError):
            tidegate.copy(self.data, self.home / "there", progress=lambda seen: 1 // 0, **SLOW)
        self.assertFalse((self.home / "there").exists())

    def test_ctrl_c_is_a_keyboard_interrupt(self):
        # What runs in the background of a shell begins deaf to it.
        code = f"""if True:
            import signal, tidegate
            signal.signal(signal.SIGINT, signal.default_int_handler)
            tidegate.copy('data', 'there', progress=lambda seen: print('runs', flush=True), **{SLOW!r})
        """
        process = subprocess.Popen(
            [sys.executable, "-c", code], cwd=self.home, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )
        self.assertEqual(process.stdout.readline(), "runs\n")
        process.send_signal(signal.SIGINT)
        _, told = process.communicate(timeout=120)
        self.assertTrue(told.rstrip().endswith("KeyboardInterrupt"), told)
        self.assertFalse((self.home / "there").exists())


class AsyncTest(TransferTest):
    def test_several_run_beside_each_other(self):
        async def all_of_them():
            copies = [tidegate.aio.copy(self.data, self.home / f"there{i}") for i in range(3)]
            return [*await asyncio.gather(*copies), await tidegate.aio.hash(self.home / "there0")]

        *results, digest = asyncio.run(all_of_them())
        self.assertEqual([result.status for result in results], ["complete"] * 3)
        self.assertEqual(digest, tidegate.hash(self.data))

    def test_a_cancelled_task_has_stopped(self):
        async def cancelled():
            begun = asyncio.Event()
            copy = tidegate.aio.copy(self.data, self.home / "there", progress=lambda seen: begun.set(), **SLOW)
            task = asyncio.create_task(copy)
            await begun.wait()
            task.cancel()
            await task

        with self.assertRaises(asyncio.CancelledError) as raised:
            asyncio.run(cancelled())
        self.assertFalse((self.home / "there").exists())
        self.assertEqual(raised.exception.__cause__.result.status, "interrupted")

    def test_what_is_cancelled_twice_has_stopped_too(self):
        async def cancelled():
            begun = asyncio.Event()
            copies = [
                asyncio.create_task(tidegate.aio.copy(self.data, self.home / f"{i}", progress=lambda seen: begun.set(), **SLOW))
                for i in range(2)
            ]
            await begun.wait()
            for _ in range(5):
                for task in copies:
                    task.cancel()
                await asyncio.sleep(0)
            for task in copies:
                with self.assertRaises(asyncio.CancelledError) as raised:
                    await task
                self.assertIsInstance(raised.exception.__cause__, tidegate.CancelledError, "it had stopped")

        asyncio.run(cancelled())

    def test_progress_is_awaited(self):
        seen = []

        async def show(progress):
            await asyncio.sleep(0)
            seen.append(progress)

        asyncio.run(tidegate.aio.copy(self.data, self.home / "there", progress=show))
        self.assertEqual(seen[-1].bytes, 3 << 20)

        async def wrong(progress):
            await asyncio.sleep(0)
            1 // 0

        with self.assertRaises(ZeroDivisionError):
            asyncio.run(tidegate.aio.copy(self.data, self.home / "then", progress=wrong, **SLOW))
        with warnings.catch_warnings(action="error"), self.assertRaisesRegex(TypeError, "tidegate.aio"):
            tidegate.copy(self.data, self.home / "then", progress=show, **SLOW)
        self.assertFalse((self.home / "then").exists())


class ProgramTest(TransferTest):
    def run_it(self, *words):
        return subprocess.run([sys.executable, "-m", "tidegate", *words], cwd=self.home, capture_output=True, text=True)

    def test_the_package_is_the_program(self):
        self.assertEqual(self.run_it("--version").stdout, f"tidegate {tidegate.__version__}\n")
        self.assertEqual(self.run_it("copy", "data", "there", "-q").returncode, 0)
        self.assertEqual((self.home / "there").read_bytes(), self.data.read_bytes())
        refused = self.run_it("copy", "--nonsense")
        self.assertEqual(refused.returncode, 2)
        self.assertIn("tidegate: unexpected argument '--nonsense' found (see `tidegate copy --help`)", refused.stderr)

    def test_nobody_who_moves_files_waits_for_a_learning_library(self):
        loaded = "import sys, tidegate; print('numpy' in sys.modules or 'gymnasium' in sys.modules)"
        ran = subprocess.run([sys.executable, "-c", loaded], capture_output=True, text=True)
        self.assertEqual(ran.stdout, "False\n")


if __name__ == "__main__":
    unittest.main()
