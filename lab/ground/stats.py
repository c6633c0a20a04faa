"""The few numbers the tables need."""

import math
import statistics
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TypeVar

Item = TypeVar("Item")


@dataclass(frozen=True)
class Spread:
    """Median with the smallest and the largest value."""

    median: float
    low: float
    high: float
    count: int


def spread(values: Sequence[float]) -> Spread:
    return Spread(statistics.median(values), min(values), max(values), len(values))


def shown(value: Spread, digits: int = 2) -> str:
    """The median, and the range where there is one."""
    if value.count == 1 or f"{value.low:.{digits}f}" == f"{value.high:.{digits}f}":
        return f"{value.median:.{digits}f}"
    return f"{value.median:.{digits}f} ({value.low:.{digits}f}–{value.high:.{digits}f})"


def percentile(values: Sequence[float], share: float) -> float:
    """The value that so large a share of them does not exceed (nearest rank)."""
    return sorted(values)[max(0, math.ceil(share * len(values)) - 1)]


def counted(values: Sequence[float | None], digits: int = 0) -> str:
    """Median and range, and how many never got there."""
    got = [value for value in values if value is not None]
    if not got:
        return "never" if values else ""
    missing = len(values) - len(got)
    return shown(spread(got), digits) + (f", {missing} never" if missing else "")


def median_at(values: Sequence[float]) -> int:
    """Which one is the median, the lower of two."""
    return values.index(statistics.median_low(values))


def median_time(times: Iterable[float | None]) -> float | None:
    """The median, where never is later than any; absent where most never came."""
    found = sorted(float("inf") if time is None else time for time in times)
    middle = found[len(found) // 2]
    return None if middle == float("inf") else middle


def rotated(items: Sequence[Item], by: int) -> list[Item]:
    """The same items from another start, so that no contender always follows the same one."""
    if not items:
        return []
    by %= len(items)
    return [*items[by:], *items[:by]]


@dataclass(frozen=True)
class Ratio:
    """Paired ratio of two contenders: median of the pairs, and a 95 % interval of their geometric mean."""

    median: float
    low: float
    high: float
    count: int

    def __str__(self) -> str:
        return f"{self.median:.2f} ({self.low:.2f}–{self.high:.2f})" if self.count > 1 else f"{self.median:.2f}"


# Student's t, two-sided 95 %, by degrees of freedom; more of them are taken as 1.96.
STUDENT = (12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228)


def paired(ours: Sequence[float], theirs: Sequence[float]) -> Ratio | None:
    """Runs of the same rotation make a pair; the interval is that of the mean logarithm."""
    logs = [math.log(a / b) for a, b in zip(ours, theirs) if a > 0 and b > 0]
    if not logs:
        return None
    median = math.exp(statistics.median(logs))
    if len(logs) == 1:
        return Ratio(median, median, median, 1)
    mean, freedom = statistics.fmean(logs), len(logs) - 1
    half = (STUDENT[freedom - 1] if freedom <= len(STUDENT) else 1.96) * statistics.stdev(logs) / math.sqrt(len(logs))
    return Ratio(median, math.exp(mean - half), math.exp(mean + half), len(logs))
