"""Paths of every kind: the same for good, and scenarios all of them."""

import hashlib
import tempfile
import unittest
from pathlib import Path
from unittest import mock

from lab import wide_paths
from lab.links.scenario import read


class WidePaths(unittest.TestCase):
    def test_a_seed_draws_what_it_has_always_drawn(self) -> None:
        # Figures of different days are of the same paths.
        text = "".join(wide_paths.scenarios(480, 301))
        self.assertEqual(hashlib.sha256(text.encode()).hexdigest(), "fe519ca90e11ca296ebf45c4a7693dec204e12569af970a1ae84ca7a7369befe")
        self.assertEqual(wide_paths.scenarios(3, 301), wide_paths.scenarios(480, 301)[:3])

    def test_a_folder_is_filled_with_scenarios_of_every_kind(self) -> None:
        with tempfile.TemporaryDirectory() as scratch:
            folder = Path(scratch, "301")
            with mock.patch("sys.argv", ["wide_paths", "60", "301", str(folder)]):
                self.assertEqual(wide_paths.main(), 0)
            drawn = [read(file) for file in folder.iterdir()]
            texts = [file.read_text() for file in folder.iterdir()]
        self.assertEqual({scenario.name for scenario in drawn}, {f"w{i}" for i in range(60)})
        for kind, word in (
            ("stages that stop", 'worker_rate = "1bit/s"'), ("flows that come and go", "[background.bursts]"),
            ("data that ends", "[dataset]"), ("losses from a moment on", "link.loss"), ("losses", "\nloss ="),
        ):
            self.assertTrue(any(word in text for text in texts), kind)
        self.assertTrue(any(scenario.read is None for scenario in drawn))


if __name__ == "__main__":
    unittest.main()
