"""The few numbers the tables need."""

import math
import statistics
from collections.abc import Sequence
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


def geometric_mean(values: Sequence[float]) -> float:
    return math.exp(sum(math.log(value) for value in values) / len(values))


def rotated(items: Sequence[Item], by: int) -> list[Item]:
    """The same items from another start, so that no contender always follows the same one."""
    if not items:
        return []
    by %= len(items)
    return [*items[by:], *items[:by]]
