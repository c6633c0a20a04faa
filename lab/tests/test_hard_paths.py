"""Paths drawn at random: the same for good, and scenarios all of them."""

import hashlib
import tempfile
import unittest
from pathlib import Path
from unittest import mock

from lab import hard_paths
from lab.links.scenario import read


class HardPaths(unittest.TestCase):
    def test_a_seed_draws_what_it_has_always_drawn(self) -> None:
        # Figures of different days are of the same paths.
        text = "".join(hard_paths.scenarios(500, 12))
        self.assertEqual(hashlib.sha256(text.encode()).hexdigest(), "3b707a3db8395fe9df73a489540e45d6e94bd2d38a167485ee044b326bc4d9ed")
        self.assertEqual(hard_paths.scenarios(3, 12), hard_paths.scenarios(500, 12)[:3])
        self.assertNotEqual(hard_paths.scenarios(3, 12), hard_paths.scenarios(3, 13))

    def test_a_folder_is_filled_with_scenarios_of_every_kind(self) -> None:
        with tempfile.TemporaryDirectory() as scratch:
            folder = Path(scratch, "new", "12")
            with mock.patch("sys.argv", ["hard_paths", "60", "12", str(folder)]):
                self.assertEqual(hard_paths.main(), 0)
            drawn = [read(file) for file in folder.iterdir()]
        self.assertEqual({scenario.name for scenario in drawn}, {f"h{i}" for i in range(60)})
        changes = [step for scenario in drawn for step in scenario.timeline]
        for kind, there in (
            ("alone", [s for s in drawn if all(moment.others.streams == 0 for moment in s.moments)]),
            ("foreign streams", [s for s in drawn if s.others.streams]),
            ("nothing read", [s for s in drawn if s.read is None]),
            ("changes", changes),
        ):
            self.assertTrue(there, kind)


if __name__ == "__main__":
    unittest.main()
