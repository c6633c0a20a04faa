"""Real links from scenarios: that they are made, change while they are there, and leave nothing behind."""

import hashlib
import os
import random
import re
import sys
import time
import unittest
from pathlib import Path

from lab.ground.shell import CommandFailed, exists, run
from lab.ground.talk import Talker
from lab.links import check, percon
from lab.links.background import Arrived, Background, moved
from lab.links.built import Built
from lab.links.delayed import DelayedLink
from lab.links.link import RECEIVER_ADDRESS, Link
from lab.links.schema import LinkPath, Others, Scenario, Stage, StageStep, Step

STEPS = Scenario("steps", "everything changes at once", Stage(50_000_000), LinkPath(200_000_000, 0.01), timeline=(
    Step(0.3, network=StageStep(25_000_000), rate_bps=100_000_000, rtt_s=0.03, loss=0.01, others_streams=2),
    Step(0.9, rate_bps=200_000_000, loss=0.0, others_streams=0)))


# Both ends of a connection that carries 48 MiB of a seed's bytes: what arrives is told by its hash.
SENT = "import random; data = random.Random(1).randbytes(48 << 20); "
SEND = SENT + "import socket, sys; socket.create_connection((sys.argv[1], 7000), 10).sendall(data)"
RECEIVE = ("import hashlib, socket; server = socket.create_server(('', 7000)); print('ready', flush=True); "
           "server.settimeout(20); peer = server.accept()[0]; peer.settimeout(20); found = hashlib.sha256(); "
           "[found.update(part) for part in iter(lambda: peer.recv(1 << 20), b'')]; "
           "print(found.hexdigest(), flush=True)")


def reason() -> str | None:
    """Why no link can be made here, or None."""
    if os.geteuid() != 0:
        return "namespaces need root"
    if not Path("/dev/net/tun").exists():
        return "there is no /dev/net/tun"
    return None if exists("cc") and exists("ip") and exists("ping") else "cc, ip or ping is not installed"


def rtt_ms(link: Link) -> float:
    said = link.inside(link.sender, "ping", "-q", "-c", 3, "-i", "0.05", RECEIVER_ADDRESS)
    found = re.search(r"= ([\d.]+)/", said)
    assert found is not None, said
    return float(found[1])


@unittest.skipIf(reason(), str(reason()))
class Real(unittest.TestCase):
    def test_the_relay_obeys_while_it_runs(self) -> None:
        with DelayedLink(4, 100, single=True) as link:
            self.assertGreaterEqual(rtt_ms(link), 4)
            link.delay(12)
            self.assertGreaterEqual(rtt_ms(link), 12)
            link.change(50)
            link.lose(0.999999)
            with self.assertRaises(CommandFailed):
                link.inside(link.sender, "ping", "-q", "-c", 3, "-i", "0.05", "-W", "0.2", RECEIVER_ADDRESS)
            link.lose(0)
            self.assertGreaterEqual(rtt_ms(link), 12)
            with self.assertRaisesRegex(CommandFailed, "it knows rate, rtt and loss"):
                link.tell("speed 9")
            with self.assertRaisesRegex(CommandFailed, "a word and a number"):
                link.tell("rate fast")

    def test_what_passes_the_relay_is_not_changed(self) -> None:
        # Super-packets have no checksum of their own, so TCP would not notice.
        with DelayedLink(2, 2000) as link:
            inside = ["ip", "netns", "exec"]
            receiver = Talker("the receiver", [*inside, link.receiver, sys.executable, "-c", RECEIVE])
            try:
                run([*inside, link.sender, sys.executable, "-c", SEND, RECEIVER_ADDRESS])
                sent = hashlib.sha256(random.Random(1).randbytes(48 << 20)).hexdigest()
                self.assertEqual(receiver.hear(), sent)
            finally:
                receiver.close()

    def test_super_packets_are_not_lost_one_by_one(self) -> None:
        with DelayedLink(2, 100) as link:
            with self.assertRaisesRegex(CommandFailed, "make it single"):
                link.lose(0.1)
            with self.assertRaisesRegex(CommandFailed, "single"):
                link.tell("loss 5")

    def test_a_timeline_is_played_on_the_link_and_on_the_traffic_beside(self) -> None:
        if why := percon.missing():
            self.skipTest(why)
        with Built(STEPS) as built:
            assert built.cap is not None and built.background is not None
            self.assertTrue(built.cap.follows)
            planned = built.changes()
            self.assertEqual([change.at_s for change in planned], [0.0, 0.3, 0.3, 0.9, 0.9])
            began = time.monotonic()
            for change in planned:
                time.sleep(max(0.0, began + change.at_s - time.monotonic()))
                change.make()
            self.assertGreaterEqual(rtt_ms(built.link), 30)
            self.assertEqual((built.now.link.rate_bps, built.now.link.loss), (200_000_000, 0.0))
            self.assertEqual(built.now.network.worker_bps, 25_000_000)
            arrived = built.background.arrived()
            self.assertGreater(arrived[-1].bytes, 0)
            self.assertEqual(arrived[-1].streams, 0)
            built.reset()
            self.assertEqual(built.now.link.rtt_s, 0.01)
        self.assertNotIn(built.sender, run(["ip", "netns", "list"]))

    def test_other_traffic_comes_and_goes(self) -> None:
        with Link(100) as link, Background(link) as others:
            others.be(5_000_000, 3)
            deadline = time.monotonic() + 10
            while others.arrived()[-1].streams < 3 and time.monotonic() < deadline:
                time.sleep(0.02)
            self.assertEqual(others.arrived()[-1].streams, 3)
            others.be(0, 0)
            while others.arrived()[-1].streams and time.monotonic() < deadline:
                time.sleep(0.02)
            last = others.arrived()[-1]
            self.assertEqual(last.streams, 0)
            self.assertGreater(last.bytes, 0)
            with self.assertRaisesRegex(CommandFailed, "it knows streams and rate"):
                assert others.sender is not None
                others.sender.tell("storms 3")

    def test_a_program_that_does_not_start_says_why(self) -> None:
        link = DelayedLink(4, 100)
        link.sender = "x" * 300
        with self.assertRaises(CommandFailed):
            link.__enter__()
        self.assertNotIn(link.receiver, run(["ip", "netns", "list"]))


class Judging(unittest.TestCase):
    def judge(self, scenario: Scenario) -> check.Check:
        return check.Check(Built(scenario), None)  # type: ignore[arg-type]

    @unittest.skipIf(os.geteuid() != 0, "control groups need root")
    def test_what_holds_a_stream_back(self) -> None:
        capped = self.judge(STEPS)
        self.assertEqual(capped.stream_bps(), (50_000_000, "stream"))
        self.assertEqual(capped.filling(), 5)
        lossy = self.judge(Scenario("lossy", "", Stage(10**9), LinkPath(500_000_000, 0.02, loss=0.001)))
        self.assertEqual(lossy.stream_bps()[1], "lossy stream")
        alone = self.judge(Scenario("open", "", Stage(10**9), LinkPath(10**9), others=Others(streams=1)))
        self.assertEqual((alone.stream_bps()[1], alone.filling()), ("link", 4))
        capped.rate("it", 100e6, 90e6, "stream")
        capped.rate("it", 100e6, 99e6, "stream")
        self.assertEqual([finding.ok for finding in capped.findings], [False, True])
        self.assertIn("NOT SO", check.table(capped.findings))

    def test_what_others_moved_between_two_moments(self) -> None:
        samples = [Arrived(10.0, 0, 1), Arrived(10.5, 1000, 1), Arrived(11.0, 4000, 1), Arrived(11.5, 9000, 1)]
        self.assertEqual(moved(samples, 10.4, 11.6), 8000 * 8)
        self.assertEqual(moved(samples[:1], 10.0, 10.1), 0.0)

    def test_a_name_or_a_file(self) -> None:
        self.assertEqual([file.stem for file in check.found_files(["ldm-1g"])], ["ldm-1g"])
        self.assertGreater(len(check.found_files([])), 20)
        self.assertEqual(check.found_files(["no-such"]), [Path("no-such")])
