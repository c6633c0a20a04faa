"""Which fixed numbers of workers a short sweep tries on a link, by what its scenario says."""

import math
from collections.abc import Sequence

from lab.drawn.draw import MAX_WORKERS
from lab.grid.engine import Rule
from lab.links.check import PACKET
from lab.links.link import LARGEST_WINDOW
from lab.links.schema import Scenario, Stage

# Times what is needed, and how many more workers than needed at least.
TRIED = ((1.0, 0), (1.5, 1), (2.5, 3))
# Where needed are the most there may be, fewer may do too.
FEWER = 2 / 3
# As good as what fills the link.
ENOUGH = 0.98
# The kernel keeps half of a socket's buffer for its own books.
WINDOW_BITS = LARGEST_WINDOW / 2 * 8


def stream_bps(now: Scenario) -> float:
    """What one stream moves: its cap, what random loss leaves to it, or the largest window a round trip."""
    window = WINDOW_BITS / now.link.rtt_s if now.link.rtt_s else math.inf
    return min(now.network.worker_bps, now.mathis_bps, window)


def shrinks(now: Scenario) -> bool:
    """Whether random loss alone holds a stream back: it takes longer than a short run until what a slow start left of a
    window is what that leaves."""
    return now.mathis_bps < min(now.network.worker_bps, now.carries_bps)


def needed(now: Scenario, files: bool) -> tuple[int, ...]:
    """Workers of each stage that fill the link, or as much of it as the slowest stage can: readers, streams and writers
    where there are files, streams alone without."""
    def most(stage: Stage | None) -> float:
        return math.inf if stage is None else stage.worker_bps

    each = (most(now.read), stream_bps(now), most(now.write)) if files else (stream_bps(now),)
    bps = min(float(now.carries_bps), *(MAX_WORKERS * worker for worker in each))
    return tuple(max(1, math.ceil(ENOUGH * bps / worker)) for worker in each)


def full_bps(now: Scenario) -> float:
    """All that the link carries, headers left out."""
    return PACKET * now.carries_bps


def most_bps(now: Scenario, mover: str) -> float:
    """What those workers can move for longer than a moment, headers left out: all that the link carries, or the slowest
    stage."""
    numbers = numbers_of(mover)
    stages = (now.read, now.network, now.write) if len(numbers) > 1 else (now.network,)
    each = [n * stage.worker_bps for n, stage in zip(numbers, stages) if stage is not None]
    return min(full_bps(now), *each)


def tried(base: Sequence[int]) -> list[tuple[int, ...]]:
    """Those numbers and more, each once; fewer too where more may not be."""
    found = [tuple(min(MAX_WORKERS, max(math.ceil(times * n), n + more)) for n in base) for times, more in TRIED]
    if max(base) == MAX_WORKERS:
        found.append(tuple(math.ceil(FEWER * n) for n in base))
    return sorted(set(found))


def twice(workers: Sequence[int]) -> tuple[int, ...]:
    return tuple(min(MAX_WORKERS, 2 * n) for n in workers)


def rule(workers: Sequence[int]) -> Rule:
    text = ",".join(map(str, workers))
    return Rule(f"fixed {text}", f"fixed:{text}")


def numbers_of(mover: str) -> list[int]:
    """Of each stage, by the name of the rule."""
    return [int(n) for n in mover.removeprefix("fixed ").split(",")]


def workers(mover: str) -> int:
    """How many there are in all, by the name of the rule."""
    return sum(numbers_of(mover))
