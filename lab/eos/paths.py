"""Whether the number of streams that is advised is right, and whether asking pays: each sampler's advice beside a
sweep by hand with the same tool, and a copy with our own sampler's advice beside one stream."""

import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

from lab.eos.gridftp import MB, PROGRAMS, plain
from lab.eos.iperf import stream
from lab.eos.site import FAST, Way, copied, site
from lab.eos.task import Outcome, Plan, Task

SHARD, REPEATS = "eos-paths", 5
SWEEP = (1, 2, 4, 6, 7, 8, 9, 10, 12, 16, 24, 32)
SIZES = {"256 MB": 256 * MB, "512 MB": 512 * MB, "1 GB": 1000 * MB}
ESTIMATED = "10GiB"
ADVICE, BY_HAND, PLAIN, OPTIMIZED = "advice", "sweep", "plain", "optimized"
# How long each number is tried.
ONCE_S = 5.0
# What asking our own sampler takes, to foretell how long all takes.
ASKING_S = 8.0


def native(way: Way, streams: int, seconds: float) -> float:
    said = way.ours("probe", f"{way.ticket}/", "--optimizer", f"fixed:{streams}", "--time", f"{seconds:g}s")
    return float(said["throughput_bps"])


def by_globus(way: Way, streams: int, seconds: float) -> float:
    size = int(min(way.path.link_mbit, streams * way.path.cap_mbit) * MB / 8 * seconds)
    began = time.monotonic()
    way.run("globus-url-copy", "-p", streams, "-len", size, "file:///dev/zero", f"{way.gridftp}/dev/null")
    return size * 8 / (time.monotonic() - began)


@dataclass(frozen=True)
class Sampler:
    """How a sampler is asked, and how the same tool is used by hand."""

    name: str
    once: Callable[[Way, int, float], float]
    programs: tuple[str, ...] = ()

    def asked(self, way: Way) -> list[object]:
        source = "file:///dev/zero" if self.name == "gridftp" else str(way.trial.scratch)
        target = f"{way.gridftp}/dev/null" if self.name == "gridftp" else f"{way.ticket}/"
        more = ["--iperf3", way.iperf3] if self.name == "iperf3" else []
        return ["estimate", source, target, "--bytes", ESTIMATED, "--sampler", self.name, *more]


SAMPLERS = (Sampler("native", native), Sampler("iperf3", stream, ("iperf3",)), Sampler("gridftp", by_globus, PROGRAMS))


def swept(sampler: Sampler, way: Way, repeat: int) -> Outcome:
    began = time.monotonic()
    with way.watched() as notes:
        notes["sweep_bps"] = {str(streams): sampler.once(way, streams, ONCE_S) for streams in SWEEP}
    return Outcome(time.monotonic() - began, notes=notes)


def advised(sampler: Sampler, way: Way, repeat: int) -> Outcome:
    with way.watched() as notes:
        began = time.monotonic()
        answer = way.unremembered(*sampler.asked(way))
        spent = time.monotonic() - began
        streams = int(answer["streams"])
        notes |= {"streams": streams, "predicted_bps": answer["throughput_bps"], "cost_ms": answer["cost_ms"],
                  "achieved_bps": sampler.once(way, streams, ONCE_S)}
    return Outcome(spent, notes=notes)


def optimized(size: int, way: Way, repeat: int) -> Outcome:
    """Asks first, then copies beginning with what was advised."""
    source = way.source(size)
    with way.watched() as notes:
        began = time.monotonic()
        answer = way.unremembered("estimate", str(source.root), f"{way.ticket}/", "--bytes", f"{size}B")
        asking = time.monotonic() - began
        seconds = copied(way, source, "--start", answer["streams"])
        notes |= {"estimate_s": asking, "streams": int(answer["streams"])}
    return Outcome(asking + seconds, size, notes, "content")


def tasks() -> list[Task[Way]]:
    found: list[Task[Way]] = []
    for sampler in SAMPLERS:
        found += [Task(f"{ADVICE}, {sampler.name}", BY_HAND, (ONCE_S + 0.3) * len(SWEEP),
                       partial(swept, sampler), sampler.programs),
                  Task(f"{ADVICE}, {sampler.name}", ADVICE, ASKING_S + ONCE_S, partial(advised, sampler),
                       sampler.programs)]
    for label, size in SIZES.items():
        found += [Task(label, PLAIN, FAST.seconds(size) + 0.4, partial(plain, size, False)),
                  Task(label, OPTIMIZED, ASKING_S + FAST.seconds(size, 9), partial(optimized, size))]
    return found


PLAN = Plan(SHARD, partial(site, FAST), tasks(), REPEATS)
