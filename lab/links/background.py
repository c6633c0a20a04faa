"""Traffic that shares a link with what is measured: long TCP streams that come and go, and a rate that does not yield.

It runs outside the measured control group, so its CPU time is not charged to anyone and no cap holds it.
"""

import json
import random
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple, Self

from lab.ground.shell import CommandFailed
from lab.ground.talk import Talker
from lab.links.link import RECEIVER_ADDRESS, Ends
from lab.links.schema import Others, Scenario

PORT = 5909


class Arrived(NamedTuple):
    """What had arrived of the streams at a moment of the monotonic clock."""

    at_s: float
    bytes: int
    streams: int


@dataclass(frozen=True)
class Level:
    """From a moment of a run on, so much other traffic."""

    at_s: float
    rate_bps: int
    streams: int


class Background:
    """Context manager: silent at first."""

    def __init__(self, link: Ends) -> None:
        self.link = link
        self.receiver: Talker | None = None
        self.sender: Talker | None = None

    def __enter__(self) -> Self:
        try:
            self.receiver = self.started(self.link.receiver, "receive", PORT)
            self.sender = self.started(self.link.sender, "send", RECEIVER_ADDRESS, PORT)
        except BaseException:
            self.close()
            raise
        return self

    @staticmethod
    def started(namespace: str, *words: object) -> Talker:
        program = Path(__file__).with_name("flows.py")
        return Talker("background traffic", ["ip", "netns", "exec", namespace, sys.executable, program, *words])

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        for talker in (self.sender, self.receiver):
            if talker is not None:
                talker.close()
        self.sender = self.receiver = None

    def be(self, rate_bps: int, streams: int) -> None:
        """From now on so much."""
        if self.sender is None:
            raise CommandFailed("background traffic is not there yet")
        self.sender.tell(f"rate {rate_bps}")
        self.sender.tell(f"streams {streams}")

    def arrived(self) -> list[Arrived]:
        """What the streams moved so far, twice a second; what others cost them can be told from it."""
        if self.receiver is None or self.sender is None:
            raise CommandFailed("background traffic is not there yet")
        if self.sender.process.poll() is not None:
            raise CommandFailed(f"background traffic ended too early{self.sender.last_words()}")
        return [Arrived(*sample) for sample in json.loads(self.receiver.ask("report"))]


def moved(samples: Sequence[Sequence[float]], begin_s: float, end_s: float) -> float:
    """Goodput between two moments, in bit/s, from the samples (time and bytes) nearest to them."""
    first = min(samples, key=lambda sample: abs(sample[0] - begin_s))
    last = min(samples, key=lambda sample: abs(sample[0] - end_s))
    return (last[1] - first[1]) * 8 / (last[0] - first[0]) if last[0] > first[0] else 0.0


def has_background(scenario: Scenario) -> bool:
    steps = any(step.others_bps or step.others_streams for step in scenario.timeline)
    return steps or scenario.others != Others()


def levels(scenario: Scenario, seconds: float, seed: int) -> list[Level]:
    """How much there is when, over so many seconds: the timeline, and bursts drawn from the seed."""
    steps = [(0.0, scenario.others.rate_bps, scenario.others.streams)]
    for step in scenario.timeline:
        _, rate, streams = steps[-1]
        steps.append((step.at_s, rate if step.others_bps is None else step.others_bps,
                      streams if step.others_streams is None else step.others_streams))
    bursts = scenario.others.bursts
    edges = [0.0]
    if bursts is not None:
        draw = random.Random(seed)
        # Quiet first; every other edge begins a burst.
        while edges[-1] < seconds:
            edges.append(edges[-1] + draw.expovariate(1 / (bursts.off_s if len(edges) % 2 else bursts.on_s)))
    found: list[Level] = []
    for at_s in sorted({*edges, *(at for at, _, _ in steps)}):
        _, rate, streams = max((step for step in steps if step[0] <= at_s), key=lambda step: step[0])
        bursting = bursts is not None and sum(edge <= at_s for edge in edges) % 2 == 0
        if bursts is not None and bursting:
            rate, streams = rate + bursts.rate_bps, streams + bursts.streams
        if at_s <= seconds and (not found or (rate, streams) != (found[-1].rate_bps, found[-1].streams)):
            found.append(Level(at_s, rate, streams))
    return found
