"""What epochs say of goodput, of workers and of time."""

import unittest

from lab.runs.epochs import (Epoch, at, begins, between, deviations, epochs, epochs_until, first_second, furthest,
                             goodput, jain, mean, mean_between, reached, second_half, since, streams, usual)


def made(rates: list[float], workers: list[int] | None = None, measured: list[float] | None = None) -> list[Epoch]:
    """A run with these rates in all stages; the network moves them, the others twice as much."""
    workers, measured = workers or [1] * len(rates), measured or [1.0] * len(rates)
    return [Epoch(i + 1.0, measured[i], (1, workers[i], 1), (2 * rate, rate, 2 * rate)) for i, rate in enumerate(rates)]


class Figures(unittest.TestCase):
    def test_a_line_of_the_log(self) -> None:
        stages = {"read": 1, "network": 7, "write": 3}
        [epoch] = epochs([{"t_ms": 1002, "interval_ms": 799, "concurrency": stages, "setpoint": stages, "loss": 0.0,
                           "throughput_bps": {"read": 5e8, "network": 4e8, "write": 3e8}}])
        self.assertEqual((epoch.end_s, epoch.measured_s, epoch.streams, epoch.goodput_bps), (1.002, 0.799, 7, 3e8))
        self.assertEqual(epoch.workers, (1, 7, 3))

    def test_an_epoch_counts_as_long_as_it_was_measured(self) -> None:
        self.assertEqual(goodput(made([100, 200], measured=[3.0, 1.0])), 125)
        self.assertEqual(streams(made([1, 1, 1], workers=[1, 2, 6])), 3)

    def test_epochs_are_counted_from_one(self) -> None:
        run = made([1, 2, 3, 4, 5])
        self.assertEqual([e.goodput_bps for e in between(run, 2, 4)], [2, 3, 4])
        self.assertEqual([e.goodput_bps for e in between(run, 4)], [4, 5])
        self.assertEqual([e.goodput_bps for e in second_half(run)], [3, 4, 5])
        self.assertEqual((reached(run, 3), reached(run, 6)), (3, None))


class Workers(unittest.TestCase):
    def test_only_whole_epochs_lie_after_a_second(self) -> None:
        run = made([1, 2, 3, 4])
        self.assertEqual([e.goodput_bps for e in since(run, 1.0, 3.0)], [2, 3])
        self.assertEqual([e.goodput_bps for e in since(run, 1.5)], [3, 4])

    def test_how_many_and_how_steady(self) -> None:
        run = made([1, 1, 1, 1], workers=[6, 8, 6, 8])
        self.assertEqual(deviations(run), (0, 1, 0))
        self.assertEqual(usual(run), (1, 7, 1))
        self.assertEqual(mean(run), (1, 7, 1))
        # The first epoch of a later part weighs no more than the others.
        self.assertEqual(mean(made([1, 1, 1, 1], workers=[50, 50, 6, 8]), 2.0), (1, 7, 1))
        self.assertEqual(mean(run, 9.0), (0, 0, 0))
        self.assertAlmostEqual(furthest((13, 9, 4), (13, 7, 5)), 2 / 7)

    def test_when_workers_were_first_there(self) -> None:
        run = made([1, 1, 1], workers=[2, 9, 20])
        self.assertEqual([begins(run, 1, n) for n in (2, 9, 18, 21)], [0.0, 1.0, 2.0, None])


class Changes(unittest.TestCase):
    def test_a_path_is_used_again_if_two_epochs_say_so(self) -> None:
        run = made([9, 9, 9, 1, 9, 1, 9, 9, 9])
        # The epoch from 2 to 3 holds the step at 2.5.
        self.assertEqual(epochs_until(run, 2.5, 9, 9), 4)
        self.assertEqual(epochs_until(run, 2.5, 9, 9, stays=1), 2)
        self.assertIsNone(epochs_until(run, 2.5, 9, 7))


class Several(unittest.TestCase):
    def test_jain(self) -> None:
        self.assertEqual(jain([3, 3, 3]), 1)
        self.assertEqual(jain([5, 0, 0, 0]), 0.25)
        self.assertEqual(jain([0, 0]), 0)

    def test_a_transfer_that_joined_later(self) -> None:
        run = made([4, 8])
        self.assertEqual([at(run, 10, s) for s in (9.5, 10.5, 11.5, 12.5)], [0, 4, 8, 0])
        self.assertEqual(mean_between(run, 10, 10.5, 11.5), 6)
        self.assertEqual(mean_between(run, 10, 11.5, 13.5), 2)

    def test_the_first_second_of_something(self) -> None:
        self.assertEqual(first_second(10, 20, lambda s: s > 12), 3)
        self.assertIsNone(first_second(10, 20, lambda s: s > 20))
