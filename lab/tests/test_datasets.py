"""The data sets: their shapes, and that a seed fixes every byte."""

import tempfile
import unittest
from pathlib import Path

from lab.runs.datasets import MIB, NAMES, fingerprint, generate, is_complete, plan, repeated
from lab.rivals.base import shares
from lab.runs.verify import difference, sizes


class Shapes(unittest.TestCase):
    def test_full_sizes_are_those_of_the_tables(self) -> None:
        self.assertEqual(plan("A", 1).size, 64 * 32 * MIB)
        self.assertEqual([size for _, size in plan("B", 1).files][-4:], [512 * MIB] * 4)
        self.assertEqual(len(plan("C", 1).files), 6000)
        self.assertEqual(len(plan("D", 1).files), 2 + 39 + 236)

    def test_same_seed_same_plan_other_seed_other_plan(self) -> None:
        for name in NAMES:
            self.assertEqual(fingerprint(plan(name, 7)), fingerprint(plan(name, 7)))
            self.assertNotEqual(fingerprint(plan(name, 7)), fingerprint(plan(name, 8)))

    def test_unknown_set_is_refused(self) -> None:
        with self.assertRaisesRegex(ValueError, "no data set 'E'"):
            plan("E", 1)


class Files(unittest.TestCase):
    def setUp(self) -> None:
        held = Path(self.enterContext(tempfile.TemporaryDirectory()))
        self.parent = held
        self.small = plan("C", 3, scale=0.001)

    def test_same_seed_same_bytes(self) -> None:
        one = generate(self.small, self.parent / "one")
        other = generate(self.small, self.parent / "other")
        self.assertIsNone(difference(one.root, other.root, content=True))

    def test_other_seed_other_bytes(self) -> None:
        one = generate(self.small, self.parent)
        other = generate(plan("C", 4, scale=0.001), self.parent)
        self.assertIsNotNone(difference(one.root, other.root, content=True))

    def test_a_damaged_set_is_made_again(self) -> None:
        made = generate(self.small, self.parent)
        path = made.root / self.small.files[0][0]
        path.write_bytes(b"short")
        self.assertFalse(is_complete(made.root.parent, self.small))
        generate(self.small, self.parent)
        self.assertEqual(path.stat().st_size, self.small.files[0][1])

    def test_repeating_links_the_set(self) -> None:
        made = generate(self.small, self.parent)
        twice = repeated(made, 2)
        self.assertEqual(sum(sizes(twice.root).values()), 2 * self.small.size)
        self.assertEqual((twice.files, twice.size), (2 * made.files, 2 * made.size))

    def test_shares_hold_every_file_once_and_weigh_alike(self) -> None:
        made = generate(plan("C", 3, scale=0.005), self.parent)
        parts = shares(made, 2)
        weights = [sum(sizes(made.root)[path] for path in part) for part in parts]
        self.assertEqual(sorted(parts[0] + parts[1]), sorted(sizes(made.root)))
        self.assertLess(abs(weights[0] - weights[1]), 1_000_000)


class Differences(unittest.TestCase):
    def setUp(self) -> None:
        held = Path(self.enterContext(tempfile.TemporaryDirectory()))
        self.one, self.other = Path(held, "one"), Path(held, "other")
        for root in (self.one, self.other):
            root.mkdir()
            (root / "f").write_bytes(b"same")

    def test_equal_trees(self) -> None:
        self.assertIsNone(difference(self.one, self.other, content=True))

    def test_missing_extra_size_and_content(self) -> None:
        (self.one / "g").write_bytes(b"g")
        self.assertIn("missing", difference(self.one, self.other, content=False) or "")
        self.assertIn("too many", difference(self.other, self.one, content=False) or "")
        (self.other / "g").write_bytes(b"gg")
        self.assertIn("2 bytes instead of 1", difference(self.one, self.other, content=False) or "")
        (self.other / "g").write_bytes(b"h")
        self.assertIsNone(difference(self.one, self.other, content=False))
        self.assertIn("content", difference(self.one, self.other, content=True) or "")
