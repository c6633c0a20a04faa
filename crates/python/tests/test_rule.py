"""Rules in Python that drive a running transfer: `--optimizer python:MODULE:NAME`."""

import io
import json
import os
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

import tidegate
from tidegate import rule

from common import program

BOUNDS = {stage: {"min": 1, "max": 8} for stage in ("read", "network", "write")}
START = {"type": "start", "version": 1, "bounds": BOUNDS, "epoch_ms": 1000, "seed": 1, "host": {"processors": 4}}
EPOCH = {
    "type": "epoch",
    "bounds": BOUNDS,
    "t_ms": 1000,
    "interval_ms": 800,
    "concurrency": {"read": 1, "network": 2, "write": 3},
    "throughput_bps": {"read": 5, "network": 6, "write": 7},
    "staging_free_bytes": {"sender": 9, "receiver": 2},
    "staging_capacity_bytes": {"sender": 8, "receiver": 8},
    "remaining_bytes": 10,
    "remaining_files": 1,
    "loss": None,
    "rtt_us": 70,
    "waited": {"read": 0.5, "network": None, "write": 0},
    "streams": {
        "count": 2,
        "min_rtt_us": None,
        "delivery_rate_bps": 60,
        "window_bytes": 3000,
        "busy": 0.75,
        "receiver_limited": 0,
        "app_limited": 0.5,
        "spread": 0.1,
    },
    "cpu": {"sender": {"ours": 0.5, "idle": 0.25}, "receiver": None},
}


def answers(served, *told):
    out = io.StringIO()
    rule.serve(served, (json.dumps(line) for line in told), out)
    return [json.loads(line)["setpoint"] for line in out.getvalue().splitlines()]


class ServeTest(unittest.TestCase):
    def test_a_function_is_given_what_the_simulator_gives_it(self):
        given = []

        def mine(seen, bounds):
            given.append((seen, bounds))
            return [n + 1 for n in seen.concurrency]

        self.assertEqual(answers(mine, START, EPOCH), [[1, 1, 1], [2, 3, 4]])
        ((seen, bounds),) = given
        self.assertEqual(bounds, ((1, 8), (1, 8), (1, 8)))
        self.assertIsInstance(seen, tidegate.Observation)
        self.assertEqual((seen.at_ms, seen.throughput_bps, seen.rtt_us), (1000, (5, 6, 7), 70))
        self.assertEqual((seen.remaining_bytes, seen.waited), (10, (0.5, None, 0)))
        self.assertEqual((seen.streams.window_bytes, seen.streams.busy), (3000, 0.75))
        self.assertEqual(seen.cpu, ((0.5, 0.25), None))
        self.assertEqual(seen.staging_free_bytes, (8, 2), "no more than there is")

    def test_an_object_may_say_where_to_begin(self):
        class Mine:
            def start(self, bounds, host):
                return [host["processors"]] * 3

            def propose(self, seen, bounds):
                return [stage.max for stage in bounds]

        self.assertEqual(answers(Mine(), START, EPOCH), [[4, 4, 4], [8, 8, 8]])

    def test_what_is_no_whole_number_is_an_error_of_the_rule(self):
        for wrong in ((1, 2.5, 3), {3, 1, 2}, {1: 1, 2: 2, 3: 3}, b"abc", "123", (True, 2, 3)):
            self.assertRaises(TypeError, answers, lambda seen, bounds, wrong=wrong: wrong, EPOCH)

    def test_rules_are_found_by_module_or_file(self):
        with tempfile.TemporaryDirectory() as directory:
            file = Path(directory) / "mine.py"
            file.write_text("class Gain:\n    def __init__(self, gain='1'):\n        self.gain = int(gain)\n")
            self.assertEqual(rule.load(f"{file}:Gain", ["3"]).gain, 3)
        self.assertIs(rule.load("json:dumps"), json.dumps)
        for wrong, kind in (("json", ValueError), ("json:no", AttributeError), ("no.such:Rule", ImportError)):
            self.assertRaises(kind, rule.load, wrong)


class CopyTest(unittest.TestCase):
    def test_a_rule_of_a_module_drives_a_copy(self):
        tidegate_program = program()
        with tempfile.TemporaryDirectory() as directory:
            home = Path(directory)
            (home / "data").write_bytes(os.urandom(400_000))
            (home / "mine.py").write_text(
                "import sys\nprint('hello')\n"
                "def mine(seen, bounds):\n    return [3 if seen.at_ms else 1, min(5, bounds.network.max), 2]\n"
            )
            # The Python that the package is installed for.
            path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
            ran = subprocess.run(
                [tidegate_program, "copy", "--optimizer", "python:mine:mine", "--limit-link=1Mbit/s", "--data-plane=clear"]
                + ["--quiet", "--epochs", "epochs", "--state", "state", "data", "there"],
                cwd=home,
                env=os.environ | {"PATH": path},
                capture_output=True,
                text=True,
                timeout=120,
            )
            self.assertEqual(ran.returncode, 0, ran)
            self.assertEqual((home / "there").read_bytes(), (home / "data").read_bytes())
            asked = [json.loads(line)["setpoint"] for line in (home / "epochs").read_text().splitlines()]
            self.assertIn({"read": 3, "network": 5, "write": 2}, asked, ran)
            self.assertIn("python:mine:mine: hello", ran.stderr, "what it prints is for people")


if __name__ == "__main__":
    unittest.main()
