"""The examples for rules of one's own run as they are."""

import json
import os
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

from common import ROOT, needs, program

EXAMPLES = ROOT / "examples"


class ExampleTest(unittest.TestCase):
    def setUp(self):
        directory = tempfile.TemporaryDirectory()
        self.addCleanup(directory.cleanup)
        self.home = Path(directory.name)
        (self.home / "data").write_bytes(os.urandom(400_000))

    def run_it(self, *words):
        environment = os.environ | {"TIDEGATE": program(), "XDG_STATE_HOME": str(self.home / "state")}
        ran = subprocess.run(words, cwd=self.home, env=environment, capture_output=True, text=True, timeout=120)
        self.assertEqual(ran.returncode, 0, ran)
        return ran

    def copied(self):
        self.assertEqual((self.home / "there").read_bytes(), (self.home / "data").read_bytes())
        return [json.loads(line) for line in (self.home / "epochs").read_text().splitlines()]


class PlainTest(ExampleTest):
    def test_a_program_is_a_rule(self):
        own = f"exec:{EXAMPLES / 'own_rule.py'}"
        slow = ["--limit-link=1Mbit/s", "--data-plane=clear"]
        self.run_it(program(), "copy", "data", "there", "--optimizer", own, "--epochs=epochs", *slow)
        self.assertGreater(max(epoch["setpoint"]["network"] for epoch in self.copied()), 1)

    def test_random_actions_on_a_live_path(self):
        ran = self.run_it(sys.executable, str(EXAMPLES / "live_random.py"), "2")
        self.assertEqual(len(ran.stdout.splitlines()), 2, ran)


@needs("torch")
class TorchTest(ExampleTest):
    def test_a_network_of_torch_drives_a_copy(self):
        slow = ["--limit-link=1Mbit/s", "--data-plane=clear"]
        self.run_it(sys.executable, str(EXAMPLES / "torch_policy.py"), "data", "there", "--epochs=epochs", *slow)
        # What it learned: 13, 7 and 5 workers are best on its path.
        start = self.copied()[0]["concurrency"]
        self.assertEqual(set(start), {"read", "network", "write"})


if __name__ == "__main__":
    unittest.main()
