"""A link drawn from a seed, as a scenario, with the length of its queue and the files that are moved over it.

Drawn evenly on a logarithmic scale are the rate, the round trip, how many workers each cap asks for, loss, queue, the
size of files, and the factor of the one change in the middle.
"""

import math
import random
from dataclasses import dataclass, replace

from lab.grid.case import CONTENT
from lab.links.schema import LinkPath, Scenario, Stage, StageStep, Step
from lab.links.units import shown
from lab.runs.datasets import MIB, Plan

RATE_BPS = (10e6, 3e9)
RTT_S = (0.2e-3, 0.2)
LOSS = (1e-5, 1e-2)
QUEUE = (0.2, 5.0)  # times rate × round trip
# How many workers a cap asks for to fill the link.
STREAMS, DISKS = (1.5, 24.0), (1.5, 16.0)
CHANGE = (1.25, 3.3)
FILE_BYTES = (1 * MIB, 64 * MIB)
# How often there is one.
CAPPED, LOSSY, FILES, SLOW = 2 / 3, 1 / 3, 1 / 2, 1 / 2
MAX_WORKERS = 32

# What the instrument cannot do. The relay passes lossy paths packet by packet, files and their copies lie in memory; it
# holds 64 MiB in its queue, and takes packets in bunches, so that less than a millisecond or 16 of them is no queue.
LOSSY_BPS = FILES_BPS = 1e9
MOST_QUEUE_BYTES, LEAST_QUEUE_S, LEAST_QUEUE_BYTES = 64 * MIB, 1e-3, 16 * 1514

# Of the files: what memory holds at the source, how many there are at least for all workers to have some, and how much
# more there is than the link carries.
SET_BYTES, LEAST_FILES, SPARE, SMALLEST_BYTES = 256 * MIB, 120, 1.3, 64 << 10


@dataclass(frozen=True)
class Drawn:
    scenario: Scenario
    queue_s: float
    # Bytes of each; from memory to memory without.
    file_bytes: int | None

    @property
    def fastest_bps(self) -> int:
        return max(now.link.rate_bps for now in self.scenario.moments)

    def files(self, seconds: float) -> tuple[Plan, int] | None:
        """More of them than the link carries in that time, and how many times over the same ones are sent."""
        size = self.file_bytes
        if size is None:
            return None
        needed = bytes_needed(self.fastest_bps, seconds)
        count = max(1, min(SET_BYTES // size, math.ceil(needed / size)))
        plan = Plan(self.scenario.name, 1, tuple((f"f{i:04}.bin", size) for i in range(count)))
        return plan, math.ceil(needed / (count * size))


def bytes_needed(bps: float, seconds: float) -> float:
    return SPARE * seconds * bps * CONTENT / 8


def link(seed: int, index: int, name: str, seconds: float) -> Drawn:
    """Each by numbers of its own, so that the first few of a seed are the same however many are drawn."""
    rng = random.Random(f"{seed}/links/{index}")

    def between(bounds: tuple[float, float]) -> float:
        return math.exp(rng.uniform(*map(math.log, bounds)))

    lossy, files = rng.random() < LOSSY, rng.random() < FILES
    fastest = LOSSY_BPS if lossy else RATE_BPS[1]
    rate, rtt = whole(between((RATE_BPS[0], fastest))), between(RTT_S)
    files = files and rate <= FILES_BPS
    fastest = min(fastest, FILES_BPS) if files else fastest
    capped, streams = rng.random() < CAPPED, between(STREAMS)
    loss = rounded(between(LOSS)) if lossy else 0.0
    disks = [disk(rate, between(DISKS)) if rng.random() < SLOW and files else None for _ in range(2)]
    link_ = LinkPath(rate, round(rtt, 5), loss)
    # One that nothing caps stays so when the link gets wider.
    network = Stage(fine(rate / streams) if capped else round(RATE_BPS[1]), max_workers=MAX_WORKERS)
    path = Scenario(name, "", network, link_, read=disks[0], write=disks[1])
    step = change(rng, path, capped, fastest, seconds / 2, between(CHANGE))
    drawn = Drawn(replace(path, timeline=(step,)), queue(rate, rtt, between(QUEUE)), None)
    if files:
        enough = bytes_needed(drawn.fastest_bps, seconds) / LEAST_FILES
        drawn = replace(drawn, file_bytes=max(SMALLEST_BYTES, round(min(between(FILE_BYTES), enough))))
    return replace(drawn, scenario=replace(drawn.scenario, description=told(drawn, step)))


def disk(rate_bps: float, workers: float) -> Stage:
    return Stage(fine(rate_bps / workers), max_workers=MAX_WORKERS)


def queue(rate_bps: float, rtt_s: float, times: float) -> float:
    """As seconds at that rate."""
    most, least = MOST_QUEUE_BYTES * 8 / rate_bps, max(LEAST_QUEUE_S, LEAST_QUEUE_BYTES * 8 / rate_bps)
    return round(min(most, max(least, times * rtt_s)), 5)


def change(rng: random.Random, path: Scenario, capped: bool, fastest_bps: float, at_s: float, factor: float) -> Step:
    """Rate, round trip, cap of a stream or loss becomes so many times more or less."""
    up = rng.random() < 0.5

    def moved(value: float, bounds: tuple[float, float]) -> float:
        first, other = (value * factor, value / factor) if up else (value / factor, value * factor)
        return first if bounds[0] <= first <= bounds[1] else other

    rate, rtt, loss = path.link.rate_bps, path.link.rtt_s, path.link.loss
    match rng.choice(["rate", "rtt", *["cap"] * capped, *["loss"] * (loss > 0)]):
        case "rate":
            return Step(at_s, rate_bps=whole(moved(rate, (RATE_BPS[0], fastest_bps))))
        case "rtt":
            return Step(at_s, rtt_s=round(moved(rtt, RTT_S), 5))
        case "cap":
            return Step(at_s, network=StageStep(fine(moved(path.network.worker_bps, (0.0, rate)))))
    return Step(at_s, loss=rounded(moved(loss, LOSS)))


def whole(bps: float) -> int:
    """The link's rate is told in whole Mbit/s."""
    return round(bps / 1e6) * 1_000_000


def fine(bps: float) -> int:
    return max(1, round(bps / 1e4)) * 10_000


def rounded(share: float) -> float:
    """As the relay takes it."""
    return round(share, 6)


def spaced(bps: float) -> str:
    text = shown(bps)
    unit = next(i for i, letter in enumerate(text) if letter.isalpha())
    return f"{text[:unit]} {text[unit:]}"


def told(drawn: Drawn, step: Step) -> str:
    path = drawn.scenario
    parts = [spaced(path.link.rate_bps), f"{path.link.rtt_s * 1e3:.3g} ms"]
    parts += [] if path.stream_bps is None else [f"{spaced(path.stream_bps)} a stream"]
    parts += [lost(path.link.loss)] if path.link.loss else []
    parts.append(f"queue {drawn.queue_s * 1e3:.3g} ms")
    parts.append("memory" if drawn.file_bytes is None else f"files of {drawn.file_bytes / 1e6:.2g} MB")
    parts += [f"{spaced(stage.worker_bps)} a {who}" for who, stage in (("reader", path.read), ("writer", path.write))
              if stage is not None]
    return f"{', '.join(parts)}; at {step.at_s:g} s {becomes(step)}"


def becomes(step: Step) -> str:
    if step.rate_bps is not None:
        return spaced(step.rate_bps)
    if step.rtt_s is not None:
        return f"{step.rtt_s * 1e3:.3g} ms"
    if step.network.worker_bps is not None:
        return f"{spaced(step.network.worker_bps)} a stream"
    assert step.loss is not None
    return lost(step.loss)


def lost(share: float) -> str:
    return f"{100 * share:.2g} % lost"
