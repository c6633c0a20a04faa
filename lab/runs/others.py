"""Other traffic on the link taken out of what the sampler saw: both ends of it count what they moved themselves.

Only its streams: a rate that does not yield (UDP) is nobody's content and has to be known from the scenario.
"""

from collections.abc import Sequence

from lab.runs.sampler import Sample, arrived

# Seconds since the start, and bytes that other traffic moved since then.
Other = tuple[float, int]


def others(samples: Sequence[Sample], begun_s: float, theirs: Sequence[Sample]) -> list[Other]:
    """What other traffic had moved at the time of each sample; the samples began at that moment of its clock."""
    if not theirs:
        return []
    first = arrived(theirs, begun_s)
    return [(second, round(arrived(theirs, begun_s + second) - first)) for second, _, _ in samples]


def without(samples: Sequence[Sample], foreign: Sequence[Other]) -> list[Sample]:
    """The samples of everybody else.

    What waits in a socket has arrived and is not counted by its program yet, so for a moment they may fall.
    """
    if not foreign:
        return list(samples)
    return [(second, bytes_ - taken, open_) for (second, bytes_, open_), (_, taken) in zip(samples, foreign)]
