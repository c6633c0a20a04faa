"""What logs of epochs say of goodput, of workers and of time: how many, how steady, how soon, and beside others."""

import statistics
from collections.abc import Callable, Iterable, Mapping, Sequence
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


def since(run: Sequence[Epoch], at_s: float, until_s: float = float("inf")) -> list[Epoch]:
    """The epochs that lie between these seconds whole."""
    return [e for e, length in zip(run, lasted(run)) if e.end_s - length >= at_s - 0.05 and e.end_s <= until_s]


# Workers.

def usual(run: Sequence[Epoch]) -> tuple[float, ...]:
    """Median workers of each stage."""
    return tuple(statistics.median(e.workers[i] for e in run) for i in range(len(STAGES)))


def mean(run: Sequence[Epoch], since_s: float = 0.0) -> tuple[float, ...]:
    """Mean workers of each stage over time, in the epochs of a whole run that begin then or later."""
    late = [(e, length) for e, length in zip(run, lasted(run)) if e.end_s - length >= since_s - 0.05]
    whole = sum(length for _, length in late)
    return tuple(sum(e.workers[i] * length for e, length in late) / whole if late else 0.0 for i in range(len(STAGES)))


def deviations(run: Sequence[Epoch]) -> tuple[float, ...]:
    """Standard deviation of the workers of each stage."""
    return tuple(statistics.pstdev(e.workers[i] for e in run) for i in range(len(STAGES)))


def furthest(workers: Sequence[float], best: Sequence[float]) -> float:
    """The largest distance of a stage from its best number, as a share of it."""
    return max(abs(n / b - 1) for n, b in zip(workers, best))


def begins(run: Sequence[Epoch], stage: int, workers: float) -> float | None:
    """When the first epoch with so many workers of that stage began."""
    return next((e.end_s - length for e, length in zip(run, lasted(run)) if e.workers[stage] >= workers), None)


# A path that changes.

def epochs_until(run: Sequence[Epoch], at_s: float, bps: float, until_s: float, stays: int = 2) -> int | None:
    """Which epoch after that second is the first of `stays` in a row with that goodput.

    The epoch in which the second falls belongs to both sides and is not counted.
    """
    after = since(run, at_s, until_s)
    for i in range(len(after) - stays + 1):
        if all(e.goodput_bps >= bps for e in after[i:i + stays]):
            return i + 1
    return None


# Several transfers, each with the second at which it joined.

def at(run: Sequence[Epoch], joined_s: float, second: float) -> float:
    """Goodput at that second of the experiment; none before it came or after it left."""
    begin = 0.0
    for e in run:
        if begin <= second - joined_s < e.end_s:
            return e.goodput_bps
        begin = e.end_s
    return 0.0


def mean_between(run: Sequence[Epoch], joined_s: float, begin_s: float, end_s: float,
                 value: Callable[[Epoch], float] = lambda e: e.goodput_bps) -> float:
    """Mean of something, goodput as a rule, between two seconds of the experiment."""
    whole, before = 0.0, joined_s
    for e in run:
        end = joined_s + e.end_s
        whole += value(e) * max(0.0, min(end, end_s) - max(before, begin_s))
        before = end
    return whole / (end_s - begin_s)


def first_second(begin_s: float, end_s: float, good: Callable[[float], bool]) -> float | None:
    """How long after `begin_s` something is first true."""
    second = begin_s
    while second <= end_s + 1e-9:
        if good(second):
            return second - begin_s
        second += 1.0
    return None


def jain(rates: Sequence[float]) -> float:
    """Jain's index: 1 for equal shares, 1/n if one has all."""
    squares = sum(rate * rate for rate in rates)
    return sum(rates) ** 2 / (len(rates) * squares) if squares else 0.0
