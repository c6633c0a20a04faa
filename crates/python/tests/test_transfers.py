"""Transfers in this process: what they bring, how they are stopped, and what they raise."""

import asyncio
import os
import signal
import subprocess
import sys
import tempfile
import threading
import unittest
from pathlib import Path

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
