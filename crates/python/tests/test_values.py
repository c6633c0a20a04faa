"""Observation, Scenario, Optimizer and simulate: what goes in, what comes out, what is refused."""

import copy
import errno
import inspect
import json
import pickle
import random
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path
from typing import get_origin

import numpy as np
import tidegate

from common import SCENARIOS, scenario, text

SEEN = {
    "concurrency": (13, 7, 5),
    "throughput_bps": (1e9, 999_999_999, 5e8),
    "staging_free_bytes": (1, 2),
    "staging_capacity_bytes": (3, 4),
    "at_ms": 1000.5,
    "interval_ms": 800,
    "loss": 0.25,
    "rtt_us": 10_000.125,
    "remaining_bytes": 2**63,
    "remaining_files": 7,
    "standard_error": (0.1, 0, 1.5),
    "waited": (None, 0.25, 1),
    "draining": (2.5, 0, 1),
    "streams": tidegate.Streams(7, 9_000.5, 10**9, 2**20, 0.9, 0.125, 0.5, 1.5, 2),
    "cpu": (tidegate.CpuLoad(0.5, 0.25), None),
}


class ObservationTest(unittest.TestCase):
    def test_fields_keep_their_values_and_their_names(self):
        seen = tidegate.Observation(**SEEN)
        for name, value in SEEN.items():
            self.assertEqual(getattr(seen, name), value, name)
        self.assertEqual(seen.concurrency.network, 7)
        self.assertEqual(seen.throughput_bps.write, 500_000_000)
        self.assertEqual(seen.staging_free_bytes.receiver, 2)
        self.assertEqual(seen.goodput_bps, 500_000_000)
        self.assertEqual((seen.streams.min_rtt_us, seen.streams.spread, seen.streams.model_based), (9_000.5, 1.5, 2))
        self.assertEqual((seen.cpu.sender.idle, seen.cpu.receiver), (0.25, None))
        self.assertIn("write 5 × 500 Mbit/s", repr(seen))

    def test_copies_and_pickles_are_equal(self):
        for seen in (tidegate.Observation(**SEEN), tidegate.TransferEnv(scenario("noisy")).reset(seed=3)[1]["observation"]):
            self.assertEqual(copy.deepcopy(seen), seen)
            self.assertEqual(pickle.loads(pickle.dumps(seen)), seen)
        for name in ("loss", "standard_error", "waited", "draining", "streams", "cpu"):
            self.assertNotEqual(tidegate.Observation(**SEEN), tidegate.Observation(**SEEN | {name: None}))

    def test_impossible_values_are_refused_by_name(self):
        wrong = {
            "concurrency": [(1, 2), (1, 2, 3, 4), (0, 1, 1), (1, 70_000, 1), (1, 1, 1.5), "abc", 3, None],
            "throughput_bps": [(1, 2), (1, float("nan"), 1), (1, 1, -1), (1, float("inf"), 1), (1e300, 1, 1)],
            "staging_free_bytes": [(1,), (1, -2), (5, 5), ("a", 1)],
            "standard_error": [(1, 2), (0.1, -0.1, 0), (float("nan"), 0, 0), (None, 0, 0)],
            "waited": [(1, 2), (0.1, -0.1, 0), (1.1, None, 0), "abc", 3],
            "draining": [(1, 2), (0.1, -0.1, 0), (float("inf"), 0, 0), 3],
            "streams": [(1, 2), 3, (70_000, None, 0, 0, 0, 0, 0, 0, 0), (1, -1, 0, 0, 0, 0, 0, 0, 0), (1, None, 0, 0, 1.5, 0, 0, 0, 0), (1, None, 0, 0, 0.5, 0, 0, 0, 2)],
            "cpu": [(None,), ((0.5,), None), ((0.5, 1.5), None), 3],
            "loss": [-0.1, 1.1, float("nan")],
            "at_ms": [-1, float("nan"), 1e300, "now"],
            "rtt_us": [float("inf")],
            "remaining_files": [None, -1],
        }
        for name, values in wrong.items():
            for value in values:
                with self.subTest(name=name, value=value), self.assertRaises(ValueError) as caught:
                    tidegate.Observation(**SEEN | {name: value})
                self.assertIn(name, str(caught.exception))
                self.assertNotIn("\n", str(caught.exception))


class ScenarioTest(unittest.TestCase):
    def test_every_scenario_of_the_repository_is_read(self):
        files = sorted(SCENARIOS.glob("*.toml"))
        self.assertGreater(len(files), 5)
        for file in files:
            read = tidegate.Scenario.from_file(file)
            self.assertEqual(read.name, file.stem)
            oracle = read.oracle()
            self.assertGreaterEqual(read.goodput_bps(oracle.setpoint), 0.98 * oracle.goodput_bps)
            self.assertTrue(all(low <= n <= high for n, (low, high) in zip(oracle.setpoint, read.bounds)))
            self.assertEqual(pickle.loads(pickle.dumps(read)), read)
            self.assertEqual(tidegate.Scenario(file.read_text()).toml, read.toml)

    def test_the_oracle_follows_the_timeline(self):
        path = tidegate.Scenario(text("[[timeline]]", "at = '20s'", "link.rate = '300Mbit/s'"))
        self.assertEqual(path.oracle(), ((1, 10, 1), 10**9))
        self.assertEqual(path.oracle(at_ms=20_000), ((1, 3, 1), 3 * 10**8))
        self.assertEqual(path.goodput_bps((1, 2, 1), at_ms=20_000), 2e8)

    def test_wrong_text_is_one_line_that_names_the_key(self):
        for wrong, key in (
            ("", "name"),
            (text("[noise]", "throughput = 2.0"), "noise.throughput"),
            (text(network="worker_rate = '0Mbit/s'"), "network.worker_rate"),
            (text(network="worker_rate = 100"), "worker_rate"),
            (text("colour = 'red'"), "colour"),
        ):
            with self.assertRaises(ValueError) as caught:
                tidegate.Scenario(wrong)
            self.assertIn(key, str(caught.exception))
            self.assertNotIn("\n", str(caught.exception))

    def test_wrong_files_are_named(self):
        with tempfile.TemporaryDirectory() as directory:
            directory = Path(directory)
            (directory / "wrong.toml").write_text(text("[noise]", "throughput = 2.0"))
            (directory / "binary.toml").write_bytes(b"\xff\xfe")
            for name, kind, what in (
                ("wrong.toml", ValueError, "noise.throughput"),
                ("binary.toml", ValueError, "UTF-8"),
                ("absent.toml", FileNotFoundError, "No such file"),
                ("", IsADirectoryError, "directory"),
            ):
                for read in (tidegate.Scenario.from_file, tidegate.TransferEnv, tidegate.TransferVectorEnv):
                    with self.subTest(name=name, read=read), self.assertRaises(kind) as caught:
                        read(str(directory / name))
                    self.assertIn(str(directory / name).rstrip("/"), str(caught.exception))
                    self.assertIn(what, str(caught.exception))
            with self.assertRaises(OSError) as caught:
                tidegate.Scenario.from_file(directory / "absent.toml")
            self.assertEqual(caught.exception.errno, errno.ENOENT)


class OptimizerTest(unittest.TestCase):
    def test_a_rule_climbs_to_the_optimum(self):
        path = scenario("automdt-read")
        rule = tidegate.Optimizer("auto", bounds=path.bounds)
        env = tidegate.TransferEnv(path, actions="discrete", start=rule.start())
        _, info = env.reset(seed=1)
        for _ in range(30):
            n = rule.propose(info["observation"])
            *_, info = env.step([n - 1 for n in n])
        self.assertEqual(tuple(info["concurrency"]), tuple(n))
        self.assertGreater(path.goodput_bps(n), 0.97 * path.oracle().goodput_bps)
        self.assertLess(sum(n), 35)

    def test_a_loop_without_staging_climbs(self):
        # What so many workers move together, in Mbit/s, of 1000 at most.
        rule = tidegate.Optimizer("auto")
        n = rule.start()
        for second in range(1, 61):
            moved = 1e6 * min(1000, *(60 * workers for workers in n))
            n = rule.propose(tidegate.Observation(concurrency=n, throughput_bps=(moved,) * 3, at_ms=1000 * second))
        self.assertGreater(60 * min(n), 900, n)
        seen = tidegate.Observation(concurrency=n, throughput_bps=(1, 1, 1), at_ms=1)
        self.assertEqual((seen.staging_free_bytes, seen.staging_capacity_bytes), ((0, 0), (0, 0)))

    def test_every_rule_keeps_its_bounds_whatever_it_sees(self):
        seed = random.randrange(2**32)
        draw = random.Random(seed)
        numbers = [0, 1, 1e3, 1e9, 1e15, 2**64 - 1]
        for name in [*tidegate.OPTIMIZERS, "fixed:13,7,5", "coupled:aimd", "independent:falcon"]:
            with self.subTest(name=name, seed=seed):
                rule = tidegate.Optimizer(name, seed=seed)
                for _ in range(200):
                    low = [draw.randint(1, 9) for _ in range(3)]
                    bounds = [(n, n + draw.choice((0, 1, 60, 65_000))) for n in low]
                    pick = lambda: draw.choice(numbers)  # noqa: E731
                    seen = tidegate.Observation(
                        concurrency=[draw.randint(1, 65_535) for _ in range(3)],
                        throughput_bps=[pick() for _ in range(3)],
                        staging_free_bytes=(0, 0),
                        staging_capacity_bytes=(pick(), pick()),
                        at_ms=min(pick(), 1e15),
                        interval_ms=min(pick(), 1e15),
                        loss=draw.choice((None, 0, 1e-3, 1)),
                        rtt_us=draw.choice((None, 0, 1e6)),
                    )
                    n = rule.propose(seen, bounds)
                    self.assertTrue(all(low <= n <= high for n, (low, high) in zip(n, bounds)), (n, bounds))

    def test_a_seed_fixes_the_answers(self):
        def answers(seed):
            rule = tidegate.Optimizer("explore", seed=seed)
            seen = tidegate.Observation(**SEEN)
            return [rule.propose(seen) for _ in range(5)]

        self.assertEqual(answers(7), answers(7))
        self.assertNotEqual(answers(7), answers(8))

    def test_what_there_is_not_is_refused(self):
        for arguments, what in (
            ({"name": "magic"}, "auto"),
            ({"name": "fixed:0"}, "set-point"),
            ({"k": 1.02}, "the rule auto has no k"),
            ({"name": "gradient", "k": 1.0}, "k must be a number more than 1"),
            ({"name": "gradient", "k": float("nan")}, "k must be a number more than 1"),
            ({"name": "aimd", "epsilon": 2.0}, "epsilon"),
            ({"bounds": ((1, 2), (1, 2))}, "bounds"),
            ({"bounds": ((1, 2), (2, 1), (1, 2))}, "bounds.network.max"),
            ({"bounds": ((1, 2), (1, 2), (0, 2))}, "bounds.write.min"),
        ):
            with self.subTest(arguments=arguments), self.assertRaisesRegex(ValueError, what):
                tidegate.Optimizer(**arguments)
        rule = tidegate.Optimizer("auto")
        self.assertEqual((rule.name, rule.epoch_ms, rule.utility), ("auto", 1000, None))
        self.assertRaises(TypeError, rule.propose, "nothing")


class SimulateTest(unittest.TestCase):
    def test_the_summary_has_the_keys_and_the_figures_of_the_command(self):
        summary = tidegate.simulate(scenario("automdt-read"), "fixed:13,7,5", seed=1, epochs=20)
        self.assertEqual(summary["optimizer"], "fixed:13,7,5")
        self.assertEqual((summary["epochs"], summary["epoch_ms"], summary["duration_ms"]), (20, 1000, 20_000))
        self.assertEqual(summary["concurrency_mean"], {"read": 13.0, "network": 7.0, "write": 5.0})
        self.assertEqual(summary["best_bps"], 10**9)
        self.assertGreater(summary["throughput_share"], 0.95)
        self.assertEqual([period["optimum"] for period in summary["periods"]], [{"read": 13, "network": 7, "write": 5}])
        self.assertEqual(summary["periods"][0]["concurrency_ratio"], {"read": 1.0, "network": 1.0, "write": 1.0})
        self.assertEqual(tidegate.simulate(scenario("noisy"), seed=5), tidegate.simulate(scenario("noisy"), "auto", seed=5))
        self.assertEqual(tidegate.simulate(scenario("noisy"), "falcon", epochs=5)["epoch_ms"], 3000)

    def test_the_command_says_the_same(self):
        for name, rule, epochs in (("automdt-read", "auto", 60), ("automdt-read", "auto", 70), ("noisy", "falcon", 20)):
            words = ["--scenario", SCENARIOS / f"{name}.toml", "--optimizer", rule, "--epochs", str(epochs), "--seed=3", "--json"]
            ran = subprocess.run([sys.executable, "-m", "tidegate", "simulate", *words], capture_output=True, check=True)
            wanted = json.loads(ran.stdout)["results"][0]
            self.assertEqual(tidegate.simulate(scenario(name), rule, seed=3, epochs=epochs), wanted)

    def test_a_rule_of_ones_own_is_judged_as_the_others_are(self):
        asked = []

        def patient(seen, bounds):
            asked.append(seen.concurrency)
            return np.minimum(np.array(seen.concurrency) + 1, [stage.max for stage in bounds])

        summary = tidegate.simulate(scenario("automdt-read"), patient, epochs=30)
        self.assertEqual(summary["optimizer"], "patient")
        self.assertEqual(asked[:2], [(1, 1, 1), (2, 2, 2)])
        self.assertGreater(summary["second_half_share"], 0.98)

    def test_what_ones_own_rule_raises_is_raised(self):
        def broken(seen, bounds):
            raise KeyError("lost")

        for rule, kind in (
            (broken, KeyError),
            (lambda seen, bounds: (1, 2), ValueError),
            (lambda seen, bounds: {3, 1, 2}, ValueError),
            (lambda seen, bounds: (True, 1, 2), ValueError),
            (lambda seen, bounds: (1, 2, float("nan")), ValueError),
            (42, ValueError),
            ("magic", ValueError),
        ):
            with self.assertRaises(kind):
                tidegate.simulate(scenario("noisy"), rule)
        for wrong in ({"epochs": 0}, {"epochs": 10**7}, {"epoch_ms": 99}, {"epoch_ms": float("nan")}):
            with self.assertRaisesRegex(ValueError, next(iter(wrong))):
                tidegate.simulate(scenario("noisy"), **wrong)


class DocumentationTest(unittest.TestCase):
    def test_everything_has_a_docstring(self):
        for name in tidegate.__all__:
            thing = getattr(tidegate, name)
            # What other types are called has none of its own.
            if callable(thing) and get_origin(thing) is None:
                self.assertTrue(inspect.getdoc(thing), name)


if __name__ == "__main__":
    unittest.main()
