"""Medians and the rotation."""

import unittest

from lab.ground.stats import counted, percentile, rotated, spread


class Stats(unittest.TestCase):
    def test_spread_of_an_odd_and_an_even_count(self) -> None:
        self.assertEqual(spread([3.0, 1.0, 2.0]).median, 2.0)
        four = spread([4.0, 1.0, 3.0, 2.0])
        self.assertEqual((four.median, four.low, four.high, four.count), (2.5, 1.0, 4.0, 4))

    def test_a_percentile_is_one_of_the_values(self) -> None:
        values = [float(n) for n in range(60, 0, -1)]
        self.assertEqual([percentile(values, share) for share in (0.0, 0.05, 0.5, 1.0)], [1, 3, 30, 60])
        self.assertEqual(percentile([7.0], 0.05), 7.0)

    def test_what_never_came_is_said_and_one_value_has_no_range(self) -> None:
        self.assertEqual(counted([]), "")
        self.assertEqual(counted([None, None]), "never")
        self.assertEqual(counted([2.0, None, 4.0]), "3 (2–4), 1 never")
        self.assertEqual(counted([2.0]), "2")

    def test_rotation_keeps_everybody_and_moves_the_start(self) -> None:
        self.assertEqual(rotated("abc", 0), ["a", "b", "c"])
        self.assertEqual(rotated("abc", 4), ["b", "c", "a"])
        self.assertEqual(rotated([], 3), [])
