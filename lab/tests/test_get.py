"""Downloads: the sets, the servers, what is counted from outside, and the downloaders' command lines."""

import json
import shutil
import subprocess
import sys
import tempfile
import threading
import unittest
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from unittest import mock

from lab.ground import places
from lab.runs.datasets import Dataset
from lab.get import figures, ours, rivals, server
from lab.get.cases import BUSY, CAPPED, CASES, FAR, FIG6, FIG6_FTP, LINK_ONLY, SMALL, Case
from lab.ground.noise import Times, noise
from lab.get.rotation import contenders
from lab.runs.sampler import connections, counts
from lab.get.sets import File, Listed, listed, planned, wrong
from lab.get.trial import Fetcher, GetTrial

STUB = Path(__file__).with_name("get_stub.py")


class Nothing:
    """In place of a link or a group where none is needed."""

    receiver = sender = "none"


def trial_in(root: Path, files: tuple[File, ...] = (), case: Case = CAPPED) -> GetTrial:
    for name in ("destination", "scratch", "scratch/home"):
        (root / name).mkdir(parents=True, exist_ok=True)
    source = Dataset("x", root / "source", len(files), sum(file.size for file in files))
    nothing: Any = Nothing()
    return GetTrial(case, nothing, nothing, source, root / "destination", root / "scratch", files)


class Paths(unittest.TestCase):
    def test_the_capped_link_holds_twelve_caps(self) -> None:
        self.assertEqual((CAPPED.rate_mbit, CAPPED.per_connection_mbit), (1200, 100))
        self.assertEqual(CAPPED.goodput_mbit(3), 300)
        self.assertAlmostEqual(CAPPED.possible_mbit, 1200 * 1448 / 1514)

    def test_what_is_possible_elsewhere(self) -> None:
        self.assertEqual(LINK_ONLY.goodput_mbit(1), LINK_ONLY.possible_mbit)
        self.assertEqual((BUSY.possible_mbit, BUSY.goodput_mbit(5)), (800, 500))

    def test_figure_six_in_the_papers_proportions(self) -> None:
        ratios = [(case.rate_mbit or 0) / (case.per_connection_mbit or 1) for case in FIG6]
        self.assertEqual([round(ratio, 1) for ratio in ratios], [20, 7.1, 14.3])
        self.assertTrue(all(case.is_fig6 for case in FIG6) and not CAPPED.is_fig6)

    def test_figure_6_over_ftp_differs_in_the_server_alone(self) -> None:
        for case, over in zip(FIG6, FIG6_FTP):
            self.assertEqual((over.figure, over.protocol, over.rate_mbit), (case.name, "ftp", case.rate_mbit))
            names = [[each.name for each in contenders(both)] for both in (case, over)]
            self.assertEqual(*names)
            self.assertTrue({"tidegate", "gradient, k = 1.02", "bayesian, k = 1.02"} <= set(names[0]))
            self.assertEqual({each.packages[0] for each in contenders(over)}, {"vsftpd"})

    def test_h43_at_a_distance_is_as_large_as_the_papers(self) -> None:
        sizes = [size for _, size in planned("H43-2GB", FAR[0], 1).files]
        self.assertEqual(len(sizes), 43)
        self.assertTrue(13.43e6 <= min(sizes) and max(sizes) <= 66.47e6 + 1)
        self.assertAlmostEqual(sum(sizes) / 1.91e9, 1, delta=0.15)
        self.assertEqual(planned("H43-2GB", FAR[0], 1), planned("H43-2GB", FAR[1], 1))


class Sets(unittest.TestCase):
    def test_they_have_the_papers_counts_and_last_half_a_minute(self) -> None:
        for name, count in (("H10", 10), ("H6", 6), ("H43", 43)):
            plan = planned(name, CAPPED, 1)
            self.assertEqual(len(plan.files), count)
            self.assertAlmostEqual(plan.size * 8e-6 / CAPPED.possible_mbit, 33, places=3)
        self.assertEqual(planned("S5000", SMALL, 1).size, 5000 * 100_000)

    def test_shapes_are_those_of_table_two(self) -> None:
        sizes = [size for _, size in planned("H43", CAPPED, 1).files]
        self.assertLess(max(sizes) / min(sizes), 66.47 / 13.43 + 0.01)
        self.assertGreater(max(sizes) / min(sizes), 2)

    def test_same_seed_same_plan(self) -> None:
        self.assertEqual(planned("H6", BUSY, 3), planned("H6", BUSY, 3))
        self.assertNotEqual(planned("H6", BUSY, 3), planned("H6", BUSY, 4))
        with self.assertRaisesRegex(ValueError, "no data set 'H7'"):
            planned("H7", CAPPED, 1)

    def test_a_part_is_spread_over_the_list(self) -> None:
        whole = Listed(Dataset("x", Path(), 6, 21), tuple(File(f"f{i}", i, "") for i in range(6)))
        self.assertEqual([file.path for file in whole.part(0.5).files], ["f0", "f2", "f4"])
        self.assertEqual((len(whole.part(0.01).files), len(whole.part(1).files)), (1, 6))

    def test_what_is_wrong_is_found(self) -> None:
        with tempfile.TemporaryDirectory() as held:
            made = listed("F40", FIG6[0], 1, scale=0.00002, parent=Path(held) / "source")
            self.assertEqual((len(made.files), made.dataset.files), (40, 40))
            there = Path(held) / "there"
            shutil.copytree(made.dataset.root, there)
            (there / "more").write_text("a list of what was fetched")
            self.assertIsNone(wrong(made.files, there))
            victim = there / made.files[7].path
            content = victim.read_bytes()
            victim.write_bytes(content[:-1] + bytes([content[-1] ^ 1]))
            self.assertRegex(wrong(made.files, there) or "", "has MD5")
            victim.write_bytes(content[:-1])
            self.assertRegex(wrong(made.files, there) or "", "bytes instead of")
            victim.unlink()
            self.assertRegex(wrong(made.files, there) or "", "is missing")


class Counting(unittest.TestCase):
    DEV = """Inter-|   Receive                                                |  Transmit
 face |bytes    packets errs drop fifo frame compressed multicast|bytes    packets errs drop fifo colls
    lo:       0       0    0    0    0     0          0         0        0       0    0    0    0     0
 veth0: 1234567     890    0    0    0     0          0         0     4242      60    0    0    0     0
"""
    TCP = """  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode
   0: 0200630A:D3F2 0100630A:1F90 01 00000000:00000000 02:000005DC 00000000     0        0 1 2 0
   1: 0200630A:D3F4 0100630A:1F90 06 00000000:00000000 02:000005DC 00000000     0        0 1 2 0
   2: 0200630A:D3F6 0100630A:0050 01 00000000:00000000 02:000005DC 00000000     0        0 1 2 0
"""

    def test_bytes_of_a_device(self) -> None:
        self.assertEqual(counts(self.DEV, "veth0"), (1234567, 890))
        with self.assertRaisesRegex(ValueError, "no device eth7"):
            counts(self.DEV, "eth7")

    def test_only_established_connections_to_the_server_count(self) -> None:
        self.assertEqual(connections(self.TCP, (8080,)), 1)
        self.assertEqual(connections(self.TCP, (8080, 80)), 2)

    def test_what_else_the_machine_did(self) -> None:
        before = Times.parse("cpu  100 0 100 900 0 0 0 0 0 0\n")
        after = Times.parse("cpu  300 0 200 1500 0 0 100 50 0 0\n")
        found = noise(before, after, seconds=2.0, own_cpu_s=1.0)
        self.assertEqual((found["other_cpus"], found["stolen_cpus"]), (1.5, 0.25))


# A start of half a second, ten megabytes a second over four connections, a second after the last byte.
SAMPLES = [(0.0, 0, 0), (0.5, 0, 1), *((1.0 + i / 2, 5_000_000 * (i + 1), 4) for i in range(40)), (21.5, 200_000_000, 0)]


class Figures(unittest.TestCase):
    def test_the_window_leaves_start_and_end_out(self) -> None:
        self.assertEqual(figures.window(SAMPLES), (0.5, 20.5))

    def test_rates_are_of_content(self) -> None:
        self.assertEqual(figures.mean_bps(SAMPLES, 200_000_000, 5.25, 10.25), 80e6)
        self.assertEqual(figures.mean_bps(SAMPLES, 100_000_000, 5, 10), 40e6)
        self.assertEqual(figures.late_bps(SAMPLES, 200_000_000), 80e6)
        self.assertIsNone(figures.late_bps(SAMPLES[:25], 100))

    def test_connections_count_while_bytes_come(self) -> None:
        self.assertEqual(figures.mean_connections(SAMPLES), 4)

    def test_a_staircase_ends_with_the_last_byte(self) -> None:
        points = figures.staircase(SAMPLES, 200_000_000)
        self.assertEqual((len(points), points[-1][0], points[3]), (21, 20.5, (4.0, 80.0)))

    def test_nothing_arrived(self) -> None:
        self.assertEqual(figures.content_share([(0.0, 0, 0), (1.0, 0, 0)], 5), 0.0)


class Server(unittest.TestCase):
    def test_it_refuses_only_where_it_is_to(self) -> None:
        busy = server.configuration(Path("/s"), Path("/r"), 8)
        self.assertIn("limit_conn all 8; error_page 429 = @busy;", busy)
        self.assertIn("add_header Retry-After 1 always;", busy)
        self.assertNotIn("limit_conn all", server.configuration(Path("/s"), Path("/r"), None))
        self.assertIn("$body_bytes_sent", server.configuration(Path("/s"), Path("/r"), None, log=True))


class Downloaders(unittest.TestCase):
    def test_names_are_unique_on_every_path(self) -> None:
        for case in CASES.values():
            names = [contender.name for contender in contenders(case)]
            self.assertEqual(len(names), len(set(names)), case.name)

    def test_the_default_has_no_setting(self) -> None:
        with tempfile.TemporaryDirectory() as held:
            trial = trial_in(Path(held))
            argv = [str(word) for word in ours.Tidegate().argv(trial)[1:]]
            options = [word for word in argv if word.startswith("-")]
            self.assertEqual(options, ["-o", "--json", "--epochs"])

    def test_the_published_rule_is_as_published(self) -> None:
        rule = ours.Rule("gradient", 1.02)
        self.assertEqual(" ".join(map(str, rule.arguments)),
                         "--optimizer gradient --utility-k 1.02 --epoch 5s --max-workers 15")

    def test_few_connections_fetch_their_share(self) -> None:
        self.assertEqual([round(ours.Fixed(n, CAPPED).share, 2) for n in (1, 3, 6, 24)], [0.17, 0.52, 1, 1])
        self.assertEqual(ours.Fixed(3, CAPPED).expected_mbit(CAPPED), 300)
        # Where one fills the link, one gets everything.
        self.assertEqual(ours.Fixed(1, LINK_ONLY).share, 1)

    def test_every_tool_is_told_everything(self) -> None:
        files = (File("r0/a.bin", 3, "900150983cd24fb0d6963f7d28e17f72"),
                 File("b.bin", 0, "d41d8cd98f00b204e9800998ecf8427e"))
        tools: list[Fetcher] = [rivals.aria2(16, 4), rivals.Curl(16), rivals.Wget2(), ours.Fixed(3, CAPPED)]
        with tempfile.TemporaryDirectory() as held:
            for tool in tools:
                trial = trial_in(Path(held), files)
                tool.write(trial)
                told = (trial.scratch / "list").read_text()
                self.assertIn("http://10.99.0.1:8080/r0/a.bin", told, tool.name)
                self.assertIn(str(trial.scratch / "list"), [str(word) for word in tool.argv(trial)])
        self.assertIn("  checksum=md5=900150983cd24fb0d6963f7d28e17f72\n", told)


class Quiet(SimpleHTTPRequestHandler):
    def log_message(self, *_: object) -> None:
        pass


class EndToEnd(unittest.TestCase):
    """The command line that is measured, carried out by a stand-in for the program over the loopback."""

    def test_a_list_is_fetched_and_judged(self) -> None:
        with tempfile.TemporaryDirectory() as held:
            root = Path(held)
            made = listed("H43", CAPPED, 1, scale=0.0002, parent=root / "source")
            web = ThreadingHTTPServer(("127.0.0.1", 0), partial(Quiet, directory=str(made.dataset.root)))
            threading.Thread(target=web.serve_forever, daemon=True).start()
            self.addCleanup(web.server_close)
            self.addCleanup(web.shutdown)
            base = f"http://127.0.0.1:{web.server_port}"
            with mock.patch.object(places, "tidegate_binary", return_value=STUB), mock.patch.object(server, "BASE", base):
                contender = ours.Fixed(6, CAPPED)
                trial = trial_in(root, made.files)
                contender.write(trial)
                done = subprocess.run([sys.executable, *map(str, contender.argv(trial))], capture_output=True, timeout=60)
                self.assertEqual(done.returncode, 0, done.stderr)
                (trial.scratch / "client0.out").write_bytes(done.stdout)
                notes = contender.notes(trial)
            self.assertIsNone(wrong(contender.fetched(trial), contender.landing(trial)))
            self.assertEqual(notes["mean_connections"], 6)
            self.assertEqual(notes["summary"], {"status": "done", "verified": True, "bytes": made.size})
            self.assertEqual(json.loads((trial.scratch / "epochs.jsonl").read_text())["concurrency"]["network"], 6)
