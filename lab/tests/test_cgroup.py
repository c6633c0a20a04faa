"""What a run's processes begin with."""

import os
import signal
import subprocess
import unittest

from lab.ground.cgroup import Cgroup


@unittest.skipUnless(os.geteuid() == 0, "control groups need root")
class Join(unittest.TestCase):
    def test_an_interrupt_is_heard_even_if_the_lab_ignores_it(self) -> None:
        before = signal.signal(signal.SIGINT, signal.SIG_IGN)
        try:
            with Cgroup() as group:
                process = subprocess.Popen(["sleep", "60"], preexec_fn=group.join())
                process.send_signal(signal.SIGINT)
                self.assertEqual(process.wait(timeout=10), -signal.SIGINT)
        finally:
            signal.signal(signal.SIGINT, before)
