"""Transfers in this process: what they bring, how they are stopped, and what they raise."""

import array
import asyncio
import collections
import contextlib
import enum
import io
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
import unittest
from datetime import UTC, date, datetime, timedelta, timezone
from pathlib import Path
from typing import get_type_hints

import tidegate

# Slow enough to be stopped before it is over, on any machine.
SLOW = {"limit_link": "1Mbit/s", "max_workers": 2}


class TransferTest(unittest.TestCase):
    def setUp(self):
        directory = tempfile.TemporaryDirectory()
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
            "min_size": [1, True, None, ["1"], b"1"],
            "newer_than": [1, True, 1.5, None, date(2026, 1, 1), b"7d"],
            "limit_link": [1e6, True, None],
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


class StopTest(TransferTest):
    def test_an_event_cancels(self):
        stop = threading.Event()
        with self.assertRaises(tidegate.CancelledError) as raised:
            tidegate.copy(self.data, self.home / "there", progress=lambda seen: stop.set(), cancel=stop, **SLOW)
        self.assertEqual((raised.exception.exit_code, raised.exception.result.status), (130, "interrupted"))
        self.assertFalse((self.home / "there").exists())
        self.assertEqual(tidegate.copy(self.data, self.home / "there").status, "complete")

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

        with self.assertRaises(asyncio.CancelledError):
            asyncio.run(cancelled())
        self.assertFalse((self.home / "there").exists())


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
