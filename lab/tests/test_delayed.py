"""The relay behind a path with a round-trip time: that it compiles without a warning, and how it is called."""

import shutil
import subprocess
import tempfile
import unittest
from pathlib import Path

from lab.ground import places
from lab.links.delayed import QUEUE_MS, DelayedLink
from lab.ground.shell import CommandFailed


class Relay(unittest.TestCase):
    def test_it_compiles_and_asks_for_its_arguments(self) -> None:
        if shutil.which("cc") is None:
            self.skipTest("no C compiler is installed")
        with tempfile.TemporaryDirectory() as held:
            binary = Path(held, "delay")
            subprocess.run(["cc", "-O2", "-Wall", "-Wextra", "-Werror", "-pthread", "-o", binary,
                            places.REPOSITORY / "lab" / "links" / "delay.c"], check=True)
            asked = subprocess.run([binary, "one"], capture_output=True, text=True)
        self.assertEqual(asked.returncode, 2)
        self.assertIn("RTT_US", asked.stderr)

    def test_what_it_is_told(self) -> None:
        argv = DelayedLink(20, 4000, loss=0.001, seed=7).argv("delay")
        self.assertEqual(argv[3:], ["veth0", "20000", "4000", str(QUEUE_MS), "1000", "7", "single"])
        self.assertEqual(DelayedLink(20, 4000).argv("delay")[-1], "super")
        self.assertEqual(DelayedLink(20, 4000, queue_ms=7.5).argv("delay")[6], "7.5")
        self.assertEqual(DelayedLink(20, 4000, single=True).argv("delay")[-3:], ["0", "1", "single"])
        self.assertEqual(DelayedLink(0.5).argv("delay")[4:6], ["500", "0"])

    def test_what_is_not_there_cannot_change(self) -> None:
        with self.assertRaises(CommandFailed):
            DelayedLink(20, 4000).change(2000)
