"""What a scenario is made of, in bit/s, bytes and seconds: a mirror of crates/control/src/scenario.rs.

Names end in their unit, and `scenario.scaled` relies on that: it divides what ends in `_bps` or `_bytes`.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TypeVar

Part = TypeVar("Part")

STAGES = ("read", "network", "write")
# A full segment: 1448 bytes of payload (Ethernet, IPv4, timestamps); Mathis' constant for it is √(3/2).
SEGMENT_BITS = 1448 * 8
MATHIS = math.sqrt(1.5)


@dataclass(frozen=True)
class Knee:
    workers: int
    slope: float


@dataclass(frozen=True)
class Stage:
    worker_bps: int
    total_bps: int | None = None
    min_workers: int = 1
    max_workers: int = 64
    knee: Knee | None = None
    ramp_up_s: float = 0.0


@dataclass(frozen=True)
class LinkPath:
    rate_bps: int
    rtt_s: float = 0.0
    loss: float = 0.0
    surplus_loss: float = 0.0
    ramp_rtts: float = 0.0


@dataclass(frozen=True)
class Staging:
    sender_bytes: int = 64 << 20
    receiver_bytes: int = 64 << 20


@dataclass(frozen=True)
class Bursts:
    rate_bps: int
    streams: int
    on_s: float
    off_s: float


@dataclass(frozen=True)
class Others:
    """Who else uses the link."""

    rate_bps: int = 0
    streams: int = 0
    bursts: Bursts | None = None


@dataclass(frozen=True)
class Data:
    size_bytes: int
    files: int = 1


@dataclass(frozen=True)
class StageStep:
    worker_bps: int | None = None
    total_bps: int | None = None


@dataclass(frozen=True)
class Step:
    """What is different from a moment on; None stays as it was."""

    at_s: float
    read: StageStep = StageStep()
    network: StageStep = StageStep()
    write: StageStep = StageStep()
    rate_bps: int | None = None
    rtt_s: float | None = None
    loss: float | None = None
    others_bps: int | None = None
    others_streams: int | None = None


@dataclass(frozen=True)
class Expected:
    optimum: tuple[int, int, int] | None = None  # read, network, write
    goodput_bps: int | None = None
    throughput_share_min: float | None = None
    epochs_to_95_max: int | None = None


@dataclass(frozen=True)
class Scenario:
    name: str
    description: str
    network: Stage
    link: LinkPath
    read: Stage | None = None
    write: Stage | None = None
    staging: Staging = Staging()
    noise: float = 0.0
    others: Others = Others()
    lag_s: float = 0.0
    data: Data | None = None
    timeline: tuple[Step, ...] = ()
    expected: Expected = Expected()

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
