"""What the epochs say of workers: how many, how steady, how far from the best, and how soon."""

import statistics
from collections.abc import Sequence

from lab.runs.epochs import STAGES, Epoch

# Steady from here on: Marlin needs half a minute on these paths.
STEADY_S = 30.0


def lengths(run: Sequence[Epoch]) -> list[float]:
    """Of each epoch, with what was not measured at its start."""
    return [e.end_s - before for e, before in zip(run, [0.0, *(e.end_s for e in run)])]


def since(run: Sequence[Epoch], at_s: float) -> list[Epoch]:
    """The epochs that lie after that second whole."""
    return [e for e, length in zip(run, lengths(run)) if e.end_s - length >= at_s - 0.05]


def deviations(run: Sequence[Epoch]) -> tuple[float, ...]:
    """Standard deviation of the workers of each stage."""
    return tuple(statistics.pstdev(e.workers[i] for e in run) for i in range(len(STAGES)))


def usual(run: Sequence[Epoch]) -> tuple[float, ...]:
    """Median workers of each stage."""
    return tuple(statistics.median(e.workers[i] for e in run) for i in range(len(STAGES)))


def mean(run: Sequence[Epoch]) -> tuple[float, ...]:
    """Mean workers of each stage over time."""
    long = lengths(run)
    return tuple(sum(e.workers[i] * length for e, length in zip(run, long)) / sum(long) for i in range(len(STAGES)))


def furthest(workers: Sequence[float], best: Sequence[float]) -> float:
    """The largest distance of a stage from its best number, as a share of it."""
    return max(abs(n / b - 1) for n, b in zip(workers, best))


def begins(run: Sequence[Epoch], stage: int, workers: float) -> float | None:
    """When the first epoch with so many workers of that stage began."""
    return next((e.end_s - length for e, length in zip(run, lengths(run)) if e.workers[stage] >= workers), None)
