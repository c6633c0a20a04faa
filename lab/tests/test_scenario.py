"""The lab's mirror of the scenario schema: what it reads, what it refuses, and what a link is built from."""

import tempfile
import unittest
from pathlib import Path

from lab.ground import places
from lab.links import background, built, units
from lab.links.delayed import DelayedLink
from lab.links.scenario import engine_limits, not_built, read, scaled
from lab.links.schema import LinkPath, Others, Scenario, Stage, StageStep, Step, at
from lab.links.tables import ScenarioError

SCENARIOS = sorted((places.REPOSITORY / "scenarios").glob("*.toml"))
WHOLE = """
name = "whole"
description = "every key there is"
[read]
worker_rate = "80Mbit/s"
total_rate = "1Gbit/s"
max_workers = 20
knee = { workers = 4, slope = 0.1 }
[network]
worker_rate = "200Mbit/s"
min_workers = 2
max_workers = 30
ramp_up = "300ms"
[link]
rate = "1Gbit/s"
rtt = "20ms"
loss = 0.001
surplus_loss = 0.002
ramp_rtts = 3.0
[staging]
sender = "16MiB"
receiver = "32MiB"
[noise]
throughput = 0.05
[background]
rate = "100Mbit/s"
streams = 1
bursts = { rate = "50Mbit/s", streams = 2, on = "3s", off = "5s" }
[decision]
lag = "100ms"
[dataset]
size = "10GB"
files = 7
[[timeline]]
at = "0.5s"
network.worker_rate = "100Mbit/s"
[[timeline]]
at = "10s"
link = { rate = "500Mbit/s", rtt = "40ms", loss = 0.01 }
read.worker_rate = "40Mbit/s"
background = { rate = "0bit/s", streams = 4 }
[expected]
goodput = "900Mbit/s"
"""


def parsed(text: str) -> Scenario:
    with tempfile.TemporaryDirectory() as held:
        file = Path(held, "whole.toml")
        file.write_text(text)
        return read(file)


class Units(unittest.TestCase):
    def test_as_the_program_reads_them(self) -> None:
        self.assertEqual([units.rate(text) for text in ("200Mbit/s", "1.5 Gbit/s", "3kbps", "0bit/s")],
                         [200_000_000, 1_500_000_000, 3000, 0])
        self.assertEqual([units.size(text) for text in ("256MiB", "10GB", "1K", "0B")], [256 << 20, 10**10, 1024, 0])
        self.assertEqual([units.duration(text) for text in ("20ms", "1.5s", "2min")], [0.02, 1.5, 120.0])
        self.assertEqual(units.rate(units.shown(1_250_000_000)), 1_250_000_000)

    def test_what_nobody_can_tell_is_refused(self) -> None:
        for parse, text in ((units.rate, "200"), (units.rate, "20MB/s"), (units.rate, "200Mbit"), (units.size, "5"),
                            (units.size, "5x"), (units.duration, "20"), (units.rate, "-1Mbit/s"), (units.rate, "")):
            with self.subTest(text), self.assertRaises(ValueError):
                parse(text)


class Reading(unittest.TestCase):
    def test_every_scenario_of_the_repository(self) -> None:
        self.assertTrue(SCENARIOS)
        for file in SCENARIOS:
            with self.subTest(file.stem):
                self.assertEqual(read(file).name, file.stem)

    def test_every_key(self) -> None:
        whole = parsed(WHOLE)
        assert whole.read is not None and whole.read.knee is not None and whole.data is not None
        assert whole.others.bursts is not None
        self.assertEqual((whole.read.worker_bps, whole.read.total_bps, whole.read.knee.workers), (80e6, 1e9, 4))
        self.assertIsNone(whole.write)
        self.assertEqual(whole.network, Stage(200_000_000, None, 2, 30, None, 0.3))
        self.assertEqual((whole.link.rtt_s, whole.link.loss, whole.link.ramp_rtts), (0.02, 0.001, 3.0))
        self.assertEqual((whole.staging.sender_bytes, whole.staging.receiver_bytes), (16 << 20, 32 << 20))
        self.assertEqual((whole.others.rate_bps, whole.others.streams, whole.others.bursts.off_s), (100e6, 1, 5.0))
        self.assertEqual((whole.lag_s, whole.data.size_bytes, whole.data.files), (0.1, 10**10, 7))
        self.assertEqual(whole.timeline[0].network, StageStep(100_000_000))

    def test_a_bad_file_is_refused_in_one_line_with_file_and_key(self) -> None:
        for old, new, key in (
                ('rtt = "20ms"', "rtt = 20", "link.rtt"),
                ('rtt = "20ms"', 'rtt = "20"', "link.rtt"),
                ('rtt = "20ms"', 'delay = "20ms"', "link.delay"),
                ("loss = 0.001\n", "loss = 1\n", "link.loss"),
                ("loss = 0.001\n", "loss = true\n", "link.loss"),
                ('rate = "1Gbit/s"\nrtt', 'rate = "0bit/s"\nrtt', "link.rate"),
                ('rate = "1Gbit/s"\nrtt', "rtt", "link.rate"),
                ("max_workers = 30", "max_workers = 1", "network.max_workers"),
                ("max_workers = 30", "max_workers = 1.5", "network.max_workers"),
                ('at = "10s"', 'at = "0.5s"', "timeline[1].at"),
                ("read.worker_rate", "write.worker_rate", "timeline[1].write"),
                ('rate = "500Mbit/s"', 'rate = "40Mbit/s"', "background.rate"),
                ('on = "3s"', 'on = "0s"', "background.bursts.on"),
                ("files = 7", "files = 0", "dataset.files"),
                (", slope = 0.1", "", "read.knee.slope"),
                ('name = "whole"', 'name = "Whole"', "name"),
                ("[link]", "[lonk]", "link"),
                ("[staging]", "[[staging]]", "staging"),
                ('name = "whole"', "name = ", "not TOML")):
            with self.subTest(new):
                self.assertIn(old, WHOLE)
                with self.assertRaises(ScenarioError) as refused:
                    parsed(WHOLE.replace(old, new, 1))
                self.assertIn("whole.toml", str(refused.exception))
                self.assertIn(key, str(refused.exception))
                self.assertNotIn("\n", str(refused.exception))
        with self.assertRaises(ScenarioError):
            read(Path("no-such-file.toml"))


class Deriving(unittest.TestCase):
    def test_a_moment_holds_every_change_up_to_then(self) -> None:
        whole = parsed(WHOLE)
        start, first, last = whole.moments
        self.assertEqual((start.network.worker_bps, first.network.worker_bps), (200e6, 100e6))
        self.assertEqual((first.link, first.others), (start.link, start.others))
        self.assertEqual((last.link.rate_bps, last.link.rtt_s, last.link.loss), (500e6, 0.04, 0.01))
        self.assertEqual((last.others.rate_bps, last.others.streams), (0, 4))
        self.assertEqual(at(whole, 9.9), first)
        self.assertAlmostEqual(start.mathis_bps / 1e6, 22.43, places=2)

    def test_scaled_divides_what_is_counted_in_bits_and_leaves_times(self) -> None:
        small = scaled(parsed(WHOLE), 10)
        assert small.read is not None and small.data is not None and small.others.bursts is not None
        self.assertEqual((small.read.worker_bps, small.read.total_bps, small.link.rate_bps), (8e6, 1e8, 1e8))
        self.assertEqual((small.timeline[1].rate_bps, small.others.bursts.rate_bps), (50_000_000, 5_000_000))
        self.assertEqual((small.data.size_bytes, small.link.rtt_s, small.link.loss), (10**9, 0.02, 0.001))
        self.assertEqual(scaled(parsed(WHOLE), 1), parsed(WHOLE))
        with self.assertRaises(ScenarioError):
            scaled(small, 0)

    def test_what_only_the_engine_and_only_the_simulator_can_do(self) -> None:
        whole = parsed(WHOLE)
        self.assertEqual(engine_limits(whole), ["--limit-read", "80Mbit/s"])
        self.assertEqual(not_built(whole), ["read.total_rate", "steps of read", "read.knee"])

    def test_the_plainest_means_that_will_do(self) -> None:
        by_name = {file.stem: read(file) for file in SCENARIOS}
        self.assertEqual(built.means(by_name["rtt-20"]), built.RELAY)
        self.assertEqual(built.means(by_name["aimd-figure-1"]), built.ROUTER)
        self.assertEqual(built.means(by_name["cpu-bound"]), built.VETH)
        self.assertEqual(built.means(by_name["cpu-bound"], queue_s=0.005), built.RELAY)
        late = parsed('name = "late"\ndescription = "loss comes later"\n[network]\nworker_rate = "1Gbit/s"\n'
                      '[link]\nrate = "1Gbit/s"\n[[timeline]]\nat = "5s"\nlink.loss = 0.001\n')
        self.assertEqual(built.means(late), built.RELAY)
        self.assertFalse(built.capped(late))
        self.assertTrue(built.capped(by_name["cap-step"]))

    def test_a_queue_that_holds_few_super_packets_is_shared_packet_by_packet(self) -> None:
        def path(rate_bps: int, loss: float = 0.0, later_bps: int | None = None) -> Scenario:
            steps = () if later_bps is None else (Step(5.0, rate_bps=later_bps),)
            return Scenario("path", "", Stage(10**10), LinkPath(rate_bps, 1e-3, loss), timeline=steps)

        # 43 kB, 125 kB, 137.5 kB.
        for rate, single in ((342_000_000, True), (1_000_000_000, True), (1_100_000_000, False)):
            self.assertEqual(built.by_packets(path(rate), 1e-3), single)
        self.assertTrue(built.by_packets(path(300_000_000, later_bps=1_000_000_000), 1e-3))
        self.assertFalse(built.by_packets(path(300_000_000, later_bps=1_001_000_000), 1e-3))
        self.assertTrue(built.by_packets(path(10_000_000_000, loss=1e-4), 1.0))
        link = built.link_for(path(342_000_000), 1e-3)
        assert isinstance(link, DelayedLink)
        self.assertEqual(link.argv("delay")[-1], "single")

    def test_a_link_too_fast_for_this_machine_is_slowed_down(self) -> None:
        fit, factor = built.fitting(read(places.REPOSITORY / "scenarios" / "ldm-40g.toml"))
        self.assertEqual((factor, fit.link.rate_bps, fit.network.worker_bps), (10.0, 4_000_000_000, 300_000_000))
        whole = parsed(WHOLE)
        self.assertEqual(built.fitting(whole), (whole, 1.0))


class Levels(unittest.TestCase):
    def test_the_timeline_says_how_much_other_traffic_there_is(self) -> None:
        quiet = parsed(WHOLE.replace('bursts = { rate = "50Mbit/s", streams = 2, on = "3s", off = "5s" }\n', ""))
        self.assertEqual([(level.at_s, level.rate_bps, level.streams) for level in background.levels(quiet, 60, 1)],
                         [(0.0, 100_000_000, 1), (10.0, 0, 4)])

    def test_bursts_come_on_top_and_from_the_seed(self) -> None:
        whole = parsed(WHOLE)
        drawn = background.levels(whole, 60, 1)
        self.assertEqual(drawn, background.levels(whole, 60, 1))
        self.assertNotEqual(drawn, background.levels(whole, 60, 2))
        self.assertEqual((drawn[0].rate_bps, drawn[0].streams), (100_000_000, 1))
        amounts = {(level.rate_bps, level.streams) for level in drawn}
        self.assertLessEqual(amounts, {(100_000_000, 1), (150_000_000, 3), (0, 4), (50_000_000, 6)})
        self.assertIn((50_000_000, 6), amounts)
        self.assertEqual(background.levels(at(scaled(whole, 1), 0.0), 0.0, 1)[0].streams, Others(streams=1).streams)
