"""What the samples of a run say: when bytes came, how fast, and over how many connections."""

from collections.abc import Iterable, Sequence

from lab.runs.sampler import Sample, arrived
from lab.ground.results import Record, latest

# The tail, where few files remain, is everyone's own affair; the bar is for what comes before it and in it.
STEADY_FROM_S = 10.0


def window(samples: Sequence[Sample]) -> tuple[float, float]:
    """The seconds between which 99.9 % of the bytes came: without start, requests and what follows the last one."""
    total = samples[-1][1]
    begin = next((before[0] for before, sample in zip(samples, samples[1:]) if sample[1] > total * 0.0005), 0.0)
    end = next((sample[0] for sample in samples if sample[1] >= total * 0.9995), samples[-1][0])
    return begin, end


def content_share(samples: Sequence[Sample], size: int) -> float:
    """What part of the bytes that arrived is content that was kept; the rest are headers and what came twice."""
    return min(1.0, size / samples[-1][1]) if samples[-1][1] else 0.0


def mean_bps(samples: Sequence[Sample], size: int, begin_s: float, end_s: float) -> float:
    """Mean goodput between two seconds."""
    if end_s <= begin_s:
        return 0.0
    return (arrived(samples, end_s) - arrived(samples, begin_s)) * content_share(samples, size) * 8 / (end_s - begin_s)


def late_bps(samples: Sequence[Sample], size: int) -> float | None:
    """Mean goodput from ten seconds on to the last byte; absent for runs that hardly last so long."""
    _, end = window(samples)
    return mean_bps(samples, size, STEADY_FROM_S, end) if end > STEADY_FROM_S + 5 else None


def mean_connections(samples: Sequence[Sample]) -> float:
    """Mean of the connections there were while bytes came."""
    begin, end = window(samples)
    there = [sample[2] for sample in samples if begin < sample[0] <= end]
    return sum(there) / len(there) if there else float(max(sample[2] for sample in samples))


def connections_of(record: Record) -> float:
    """What a run used: by its own log where it has one, which leaves out warm connections that rest."""
    own = record.notes.get("mean_connections")
    return float(own) if own is not None else mean_connections(record.notes["samples"])


def wasted(record: Record) -> float:
    """Bytes on the wire beyond the content, as a share of it: headers, and what was fetched twice."""
    return float(record.notes["samples"][-1][1]) / record.bytes - 1


def staircase(samples: Sequence[Sample], size: int) -> list[tuple[float, float]]:
    """Goodput in Mbit/s of each second, up to the last byte."""
    _, end = window(samples)
    points, begin = [], 0.0
    while begin < end - 1e-9:
        until = min(begin + 1.0, end)
        points.append((until, mean_bps(samples, size, begin, until) / 1e6))
        begin = until
    return points


def opened(samples: Sequence[Sample]) -> list[tuple[float, float]]:
    """Connections over time, up to the last byte."""
    _, end = window(samples)
    return [(sample[0], float(sample[2])) for sample in samples if sample[0] <= end]


def grouped(records: Iterable[Record]) -> dict[tuple[str, str], dict[str, list[Record]]]:
    """Good runs by case and set, then by contender; one that was measured again replaces the earlier."""
    found: dict[tuple[str, str], dict[str, list[Record]]] = {}
    for record in latest(records):
        if record.ok:
            found.setdefault((record.scenario, record.set), {}).setdefault(record.contender, []).append(record)
    return found
