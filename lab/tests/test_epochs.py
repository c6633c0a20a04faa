"""Figures from a log of epochs."""

import unittest

from lab.runs.epochs import Epoch, between, epochs, goodput, reached, second_half, streams


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
