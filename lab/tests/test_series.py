"""What epochs say of workers and of time."""

import unittest

from lab.runs import series
from lab.tests.test_epochs import made


class Workers(unittest.TestCase):
    def test_only_whole_epochs_lie_after_a_second(self) -> None:
        run = made([1, 2, 3, 4])
        self.assertEqual([e.goodput_bps for e in series.since(run, 1.0, 3.0)], [2, 3])
        self.assertEqual([e.goodput_bps for e in series.since(run, 1.5)], [3, 4])

    def test_how_many_and_how_steady(self) -> None:
        run = made([1, 1, 1, 1], workers=[6, 8, 6, 8])
        self.assertEqual(series.deviations(run), (0, 1, 0))
        self.assertEqual(series.usual(run), (1, 7, 1))
        self.assertEqual(series.mean(run), (1, 7, 1))
        # The first epoch of a later part weighs no more than the others.
        self.assertEqual(series.mean(made([1, 1, 1, 1], workers=[50, 50, 6, 8]), 2.0), (1, 7, 1))
        self.assertEqual(series.mean(run, 9.0), (0, 0, 0))
        self.assertAlmostEqual(series.furthest((13, 9, 4), (13, 7, 5)), 2 / 7)

    def test_when_workers_were_first_there(self) -> None:
        run = made([1, 1, 1], workers=[2, 9, 20])
        self.assertEqual([series.begins(run, 1, n) for n in (2, 9, 18, 21)], [0.0, 1.0, 2.0, None])


class Changes(unittest.TestCase):
    def test_a_path_is_used_again_if_two_epochs_say_so(self) -> None:
        run = made([9, 9, 9, 1, 9, 1, 9, 9, 9])
        # The epoch from 2 to 3 holds the step at 2.5.
        self.assertEqual(series.epochs_until(run, 2.5, 9, 9), 4)
        self.assertEqual(series.epochs_until(run, 2.5, 9, 9, stays=1), 2)
        self.assertIsNone(series.epochs_until(run, 2.5, 9, 7))


class Several(unittest.TestCase):
    def test_jain(self) -> None:
        self.assertEqual(series.jain([3, 3, 3]), 1)
        self.assertEqual(series.jain([5, 0, 0, 0]), 0.25)
        self.assertEqual(series.jain([0, 0]), 0)

    def test_a_transfer_that_joined_later(self) -> None:
        run = made([4, 8])
        self.assertEqual([series.at(run, 10, s) for s in (9.5, 10.5, 11.5, 12.5)], [0, 4, 8, 0])
        self.assertEqual(series.mean_between(run, 10, 10.5, 11.5), 6)
        self.assertEqual(series.mean_between(run, 10, 11.5, 13.5), 2)

    def test_the_first_second_of_something(self) -> None:
        self.assertEqual(series.first_second(10, 20, lambda s: s > 12), 3)
        self.assertIsNone(series.first_second(10, 20, lambda s: s > 20))
