"""The links: delay, loss, traffic of others, slow disks, steps, shares, and a plain TCP flow beside us."""

import functools
import math
import re
from dataclasses import dataclass, replace

from lab.grid.case import CONTENT, Case
from lab.ground.places import REPOSITORY
from lab.links import units
from lab.links.scenario import read
from lab.links.schema import Scenario, at
from lab.runs.datasets import Plan

# The papers' runs of one transfer take a minute; a sweep of fixed numbers needs less where nothing changes.
WHOLE_S, SWEEP_S = 60.0, 20.0
RTT = ("rtt-1", "rtt-20", "rtt-50", "rtt-100", "rtt-200")
LOSS = ("loss-1-in-1000", "loss-1-in-100")
CROSS = ("cross-traffic",)
DISKS = ("slow-reader", "slow-writer")
LINKS = (*RTT, *LOSS, *CROSS, *DISKS)
STEPS = ("link-step", "cap-step")
# What a minute at 1 Gbit/s needs: the same files by many names, so that memory holds them once at the source.
FILES = Plan("beyond", 1, tuple((f"f{i:02}.bin", 16 << 20) for i in range(32)))
TIMES = 15

# Transfers that share join one after another, are together for a while, and leave in the order they came.
STAGGER_S, TOGETHER_S, LEAVING_EVERY_S = 25.0, 40.0, 15.0
TRANSFERS = (2, 3, 4)
SHARED = "rtt-20"

# Plain TCP flows have the link to themselves, then a transfer of ours joins.
ALONE_S, HARM_S = 20.0, 60.0
# How many they are, and what one of our streams moves at most.
HARM: dict[str, tuple[int, int | None]] = {
    "harm-open": (1, None), "harm-capped": (1, 100_000_000), "harm-capped-4": (4, 100_000_000),
    "harm-capped-16": (16, 100_000_000)}
HARM_ONE, HARM_MANY = tuple(HARM)[:2], tuple(HARM)[2:]


def shown(bps: float) -> str:
    """With a space before the unit, for people."""
    return re.sub(r"(\d)([A-Za-z])", r"\1 \2", units.shown(bps))


@functools.cache
def scenario(name: str) -> Scenario:
    return read(REPOSITORY / "scenarios" / f"{name}.toml")


def case(name: str, seconds: float = WHOLE_S) -> Case:
    path = scenario(name)
    if path.read is not None or path.write is not None:
        return Case(name, path.description, path, seconds, data=FILES, times=TIMES)
    return Case(name, path.description, path, seconds)


def swept(name: str) -> Case:
    """The same for the sweep: as long as all that happens on it."""
    return case(name, WHOLE_S if scenario(name).timeline else SWEEP_S)


def share(count: int) -> Case:
    """The first to come is the first to go; the last one stays alone for a while."""
    last = (count - 1) * STAGGER_S
    visits = tuple((i * STAGGER_S, last + TOGETHER_S + i * LEAVING_EVERY_S) for i in range(count))
    path = scenario(SHARED)
    each = "" if path.stream_bps is None else f", {shown(path.stream_bps)} a stream"
    title = f"{count} transfers on {shown(path.link_bps)}{each}"
    return Case(f"share-{count}", title, path, visits[-1][1], visits=visits)


def harm(name: str) -> Case:
    """Foreign streams from first to last, which nothing but the link holds back."""
    base, (flows, cap) = scenario(SHARED), HARM[name]
    path = replace(base, name=name, network=replace(base.network, worker_bps=cap or base.link_bps),
                   others=replace(base.others, streams=flows))
    ours = "streams of ours not capped" if cap is None else f"{shown(cap)} a stream of ours"
    them = "A plain TCP flow" if flows == 1 else f"{flows} plain TCP flows"
    return Case(name, f"{them} on {shown(base.link_bps)}, 20 ms, {ours}", path, HARM_S, visits=((ALONE_S, HARM_S),))


def fills_alone(name: str) -> int:
    """So many of our streams fill the link of this harm if nobody else uses it."""
    path = harm(name).scenario
    return math.ceil(path.link_bps / (path.stream_bps or path.link_bps))


@dataclass(frozen=True)
class Step:
    """Where a link changes, until when it stays so, and the content it then carries."""

    what: str
    at_s: float
    until_s: float
    carries_bps: float


def steps(of: Case) -> list[Step]:
    path = of.scenario
    begins = [step.at_s for step in path.timeline]
    found = []
    for begin, end in zip(begins, [*begins[1:], of.seconds]):
        before, now = at(path, begin - 1e-6), at(path, begin)
        stepped = before.link.rate_bps != now.link.rate_bps
        what = f"link {shown(now.link.rate_bps)}" if stepped else f"stream {shown(now.network.worker_bps)}"
        found.append(Step(what, begin, end, now.carries_bps * CONTENT))
    return found
