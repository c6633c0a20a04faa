"""What figure 1 says, as numbers: which streams are best beside how many others, and how soon a controller has them."""

import statistics
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from lab.aimd.cases import CONTROL_S, EXTERNAL, JOINS_S, LATE_S, SWEEP_S, name
from lab.grid.figures import FIXED, Found, Run, found_in, numbered
from lab.ground.results import Record
from lab.runs.epochs import Epoch

GLOBUS = "globus-url-copy -p "
# So close counts as the best: of several numbers the least.
ENOUGH = 0.95


def rate(run: Run) -> float:
    """Mean bit/s of the whole transfer of a sweep, slow start and all, as a user sees it."""
    return run.between(JOINS_S, JOINS_S + SWEEP_S)


def whole(run: Run) -> float:
    """Mean bit/s of a controller, its climb and all."""
    return run.between(JOINS_S, JOINS_S + CONTROL_S)


def late(run: Run) -> float:
    """Bit/s in the last seconds of a controller."""
    end = JOINS_S + CONTROL_S
    return run.between(end - LATE_S, end)


def settled(run: Run) -> float:
    """Bit/s of a fixed number once its streams are up to speed: what the controllers' last seconds are held against."""
    return run.between(JOINS_S + SWEEP_S / 2, JOINS_S + SWEEP_S)


@dataclass(frozen=True)
class Level:
    """The sweep beside one number of external streams."""

    external: int
    runs: Mapping[int, Sequence[Run]]

    def bps(self, n: int) -> float:
        return statistics.median(rate(run) for run in self.runs[n])

    def settled_bps(self, n: int) -> float:
        return statistics.median(settled(run) for run in self.runs[n])

    @property
    def top_bps(self) -> float:
        return max(self.bps(n) for n in self.runs)

    @property
    def best(self) -> int:
        """The number of largest throughput."""
        return max(self.runs, key=self.bps)

    @property
    def enough(self) -> int:
        """The least number that comes close to the best."""
        return min(n for n in self.runs if self.bps(n) >= ENOUGH * self.top_bps)

    @property
    def most(self) -> int:
        return max(self.runs)

    def gain(self, n: float) -> float | None:
        """What one more stream adds there, as a share, by the two measured numbers around it."""
        there = sorted(self.runs)
        for low, high in zip(there, there[1:]):
            if low <= n < high:
                return (self.bps(high) / self.bps(low) - 1) / (high - low)
        return None

    def doubled(self, n: float) -> float | None:
        """What twice as many add there, as a share."""
        there = max((number for number in self.runs if number <= n), default=None)
        return self.bps(2 * there) / self.bps(there) - 1 if there is not None and 2 * there in self.runs else None


def sweep(records: Iterable[Record], shard: str) -> list[Level]:
    """By external streams, what was measured of our own engine."""
    return by_number(found_in(records, shard), FIXED)


def by_number(found: Found, prefix: str) -> list[Level]:
    levels = []
    for external in EXTERNAL:
        # A run that ended before its time, in a trial of the lab, has no rate.
        runs = {n: good for n, there in numbered(found.get(name(external), {}), prefix).items()
                if (good := [run for run in there if rate(run) > 0 < settled(run)])}
        if runs:
            levels.append(Level(external, {n: runs[n] for n in sorted(runs)}))
    return levels


def first_epoch(log: Sequence[Epoch], good: object) -> int | None:
    """From 1."""
    return next((i for i, epoch in enumerate(log, 1) if good(epoch)), None)  # type: ignore[operator]


def epochs_to_streams(run: Run, n: int) -> int | None:
    return first_epoch(run.logs[0], lambda epoch: epoch.streams >= n) if run.logs else None


def epochs_to_rate(run: Run, bps: float) -> int | None:
    return first_epoch(run.logs[0], lambda epoch: epoch.goodput_bps >= bps) if run.logs else None


def late_streams(run: Run) -> float:
    """Median streams in the last seconds, by the log."""
    there = [epoch.streams for epoch in run.logs[0] if epoch.end_s > CONTROL_S - LATE_S] if run.logs else []
    return statistics.median(there) if there else run.streams


def usual(values: Sequence[int | None]) -> int | None:
    """The median, where never is later than any."""
    middle = sorted(float("inf") if value is None else value for value in values)[(len(values) - 1) // 2]
    return None if middle == float("inf") else int(middle)
