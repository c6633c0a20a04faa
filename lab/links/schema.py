"""What a scenario is made of, in bit/s, bytes and seconds: a mirror of crates/control/src/scenario.rs.

Each field has the key and the kind that it has in a file. Names end in their unit, and `scenario.scaled` relies on that:
it divides what ends in `_bps` or `_bytes`.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TypeVar

from lab.links.tables import DURATION, LASTING, POSITIVE, RATE, SIZE, SOME, TEXT, key, number, whole

Part = TypeVar("Part")

STAGES = ("read", "network", "write")
# A full segment: 1448 bytes of payload (Ethernet, IPv4, timestamps); Mathis' constant for it is √(3/2).
SEGMENT_BITS = 1448 * 8
MATHIS = math.sqrt(1.5)


@dataclass(frozen=True)
class Knee:
    workers: int = key("workers", whole())
    slope: float = key("slope", number())


@dataclass(frozen=True)
class Stage:
    worker_bps: int = key("worker_rate", POSITIVE)
    total_bps: int | None = key("total_rate", POSITIVE, None)
    min_workers: int = key("min_workers", whole(1), 1)
    max_workers: int = key("max_workers", whole(1), 64)
    knee: Knee | None = key("knee", Knee, None)
    ramp_up_s: float = key("ramp_up", DURATION, 0.0)


@dataclass(frozen=True)
class LinkPath:
    rate_bps: int = key("rate", POSITIVE)
    rtt_s: float = key("rtt", DURATION, 0.0)
    loss: float = key("loss", number(below=1), 0.0)
    surplus_loss: float = key("surplus_loss", number(below=1), 0.0)
    ramp_rtts: float = key("ramp_rtts", number(), 0.0)


@dataclass(frozen=True)
class Staging:
    sender_bytes: int = key("sender", SIZE, 64 << 20)
    receiver_bytes: int = key("receiver", SIZE, 64 << 20)


@dataclass(frozen=True)
class Bursts:
    on_s: float = key("on", LASTING)
    off_s: float = key("off", LASTING)
    rate_bps: int = key("rate", RATE, 0)
    streams: int = key("streams", whole(), 0)


@dataclass(frozen=True)
class Others:
    """Who else uses the link."""

    rate_bps: int = key("rate", RATE, 0)
    streams: int = key("streams", whole(), 0)
    bursts: Bursts | None = key("bursts", Bursts, None)


@dataclass(frozen=True)
class Data:
    size_bytes: int = key("size", SOME)
    files: int = key("files", whole(1), 1)


@dataclass(frozen=True)
class StageStep:
    worker_bps: int | None = key("worker_rate", POSITIVE, None)
    total_bps: int | None = key("total_rate", POSITIVE, None)


@dataclass(frozen=True)
class Step:
    """What is different from a moment on; None stays as it was."""

    at_s: float = key("at", DURATION)
    read: StageStep = key("read", StageStep, StageStep())
    network: StageStep = key("network", StageStep, StageStep())
    write: StageStep = key("write", StageStep, StageStep())
    rate_bps: int | None = key("link.rate", POSITIVE, None)
    rtt_s: float | None = key("link.rtt", DURATION, None)
    loss: float | None = key("link.loss", number(below=1), None)
    others_bps: int | None = key("background.rate", RATE, None)
    others_streams: int | None = key("background.streams", whole(), None)


@dataclass(frozen=True)
class Scenario:
    """All of it but what is expected, which is for the simulator's tests."""

    name: str = key("name", TEXT)
    description: str = key("description", TEXT)
    network: Stage = key("network", Stage)
    link: LinkPath = key("link", LinkPath)
    read: Stage | None = key("read", Stage, None)
    write: Stage | None = key("write", Stage, None)
    staging: Staging = key("staging", Staging, Staging())
    noise: float = key("noise.throughput", number(below=1), 0.0)
    others: Others = key("background", Others, Others())
    lag_s: float = key("decision.lag", DURATION, 0.0)
    data: Data | None = key("dataset", Data, None)
    timeline: tuple[Step, ...] = ()

    @property
    def carries_bps(self) -> int:
        """What all streams together may move: the link, or less where the stage says so."""
        return min(self.link.rate_bps, self.network.total_bps or self.link.rate_bps)

    @property
    def link_bps(self) -> int:
        return self.carries_bps

    @property
    def stream_bps(self) -> int | None:
        return self.network.worker_bps if self.network.worker_bps < self.carries_bps else None

    @property
    def mathis_bps(self) -> float:
        """What random loss leaves to one stream."""
        if not self.link.loss or not self.link.rtt_s:
            return float("inf")
        return SEGMENT_BITS / self.link.rtt_s * MATHIS / math.sqrt(self.link.loss)

    @property
    def moments(self) -> Sequence["Scenario"]:
        """As it is at the start and after each step."""
        return [at(self, 0.0), *(at(self, step.at_s) for step in self.timeline if step.at_s > 0)]


def at(scenario: Scenario, at_s: float) -> Scenario:
    """As it is at that time between bursts, with nothing to come."""
    now = scenario
    for each in scenario.timeline:
        if each.at_s > at_s:
            break
        link, away = now.link, now.others
        now = replace(now, link=given(link, rate_bps=each.rate_bps, rtt_s=each.rtt_s, loss=each.loss),
                      others=given(away, rate_bps=each.others_bps, streams=each.others_streams))
        for name in STAGES:
            if (stage_now := getattr(now, name)) is not None:
                new = getattr(each, name)
                changed = given(stage_now, worker_bps=new.worker_bps, total_bps=new.total_bps)
                now = replace(now, **{name: changed})
    return replace(now, timeline=())


def given(what: Part, **new: object) -> Part:
    """The same with those values that are not None."""
    return replace(what, **{key: value for key, value in new.items() if value is not None})  # type: ignore[type-var]
