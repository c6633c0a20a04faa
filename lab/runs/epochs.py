"""What a log of epochs says: goodput, workers, and how soon the goodput was there."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

STAGES = ("read", "network", "write")


# The columns of `Epoch.figures`.
HEADS = ("end_s", "measured_s", *(f"{stage}_workers" for stage in STAGES), *(f"{stage}_bps" for stage in STAGES))


@dataclass(frozen=True)
class Epoch:
    """One line of the log. Time is that of its end, from the start of the run."""

    end_s: float
    measured_s: float  # less than the epoch where workers had just changed
    workers: tuple[int, int, int]
    rates_bps: tuple[float, float, float]

    @property
    def goodput_bps(self) -> float:
        """What came through all stages."""
        return min(self.rates_bps)

    @property
    def figures(self) -> list[object]:
        """As a part of a line of CSV."""
        return [f"{self.end_s:.3f}", f"{self.measured_s:.3f}", *self.workers, *map(round, self.rates_bps)]

    @property
    def streams(self) -> int:
        return self.workers[STAGES.index("network")]


def epoch(line: Mapping[str, Any]) -> Epoch:
    workers, rates = line["concurrency"], line["throughput_bps"]
    return Epoch(line["t_ms"] / 1000, line["interval_ms"] / 1000,
                 (workers["read"], workers["network"], workers["write"]),
                 (rates["read"], rates["network"], rates["write"]))


def epochs(lines: Iterable[Mapping[str, Any]]) -> list[Epoch]:
    return [epoch(line) for line in lines]


def lasted(run: Sequence[Epoch]) -> list[float]:
    """The length of each epoch, with what was not measured at its start."""
    return [e.end_s - before for e, before in zip(run, [0.0, *(e.end_s for e in run)])]


def goodput(run: Sequence[Epoch]) -> float:
    """Mean in bit/s: each epoch counts as long as it was measured."""
    return sum(e.goodput_bps * e.measured_s for e in run) / sum(e.measured_s for e in run)


def streams(run: Sequence[Epoch]) -> float:
    """Mean number of streams."""
    return sum(e.streams for e in run) / len(run)


def reached(run: Sequence[Epoch], bps: float) -> int | None:
    """The first epoch, from 1, with that goodput."""
    return next((i for i, e in enumerate(run, 1) if e.goodput_bps >= bps), None)


def between(run: Sequence[Epoch], first: int, last: int | None = None) -> Sequence[Epoch]:
    """The epochs from `first` to `last`, both counted from 1 and included."""
    return run[first - 1:last]


def second_half(run: Sequence[Epoch]) -> Sequence[Epoch]:
    return run[len(run) // 2:]
