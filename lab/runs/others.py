"""Other traffic on the link taken out of what the sampler saw: both ends of it count what they moved themselves.

Only its streams: a rate that does not yield (UDP) is nobody's content and has to be known from the scenario.
"""

from bisect import bisect_left
from collections.abc import Sequence

from lab.links.background import Arrived
from lab.runs.sampler import Sample

# Seconds since the start, and bytes that other traffic moved since then.
Other = tuple[float, int]


def at(arrived: Sequence[Arrived], moment_s: float) -> float:
    """Bytes of other traffic that had arrived by that moment of the monotonic clock, between samples in proportion."""
    i = bisect_left(arrived, moment_s, key=lambda sample: sample.at_s)
    if i == 0:
        return float(arrived[0].bytes)
    if i == len(arrived):
        return float(arrived[-1].bytes)
    before, after = arrived[i - 1], arrived[i]
    return before.bytes + (after.bytes - before.bytes) * (moment_s - before.at_s) / (after.at_s - before.at_s)


def others(samples: Sequence[Sample], begun_s: float, arrived: Sequence[Arrived]) -> list[Other]:
    """What other traffic had moved at the time of each sample; the samples began at that moment."""
    if not arrived:
        return []
    first = at(arrived, begun_s)
    return [(second, round(at(arrived, begun_s + second) - first)) for second, _, _ in samples]


def without(samples: Sequence[Sample], foreign: Sequence[Other]) -> list[Sample]:
    """The samples of everybody else.

    What waits in a socket has arrived and is not counted by its program yet, so for a moment they may fall.
    """
    if not foreign:
        return list(samples)
    return [(second, bytes_ - taken, open_) for (second, bytes_, open_), (_, taken) in zip(samples, foreign)]
