"""The real link of a scenario, by the plainest means that can be what it says.

| means | when |
|---|---|
| two namespaces and a token bucket (`link.py`) | no round-trip time to speak of, and nobody shares it |
| a router between them (`routed.py`) | others use the link too: only where a queue overflows do streams share |
| the relay (`delayed.py`) | a round trip of a millisecond or more, loss, or a queue of a certain length; it overflows |

A worker of the network stage that is slower than the link becomes a cap for each TCP connection (`percon.py`), for
whatever program runs in the control group. What readers and writers move only the program itself can limit
(`scenario.engine_limits`); `scenario.not_built` names what stays with the simulator.
"""

import contextlib
from dataclasses import replace
from functools import partial
from typing import Self

from lab.ground.cgroup import Cgroup
from lab.ground.shell import CommandFailed
from lab.links.background import Background, has_background, levels
from lab.links.delayed import QUEUE_MS, DelayedLink
from lab.links.link import Link
from lab.links.percon import PerConnectionCap
from lab.links.routed import RoutedLink
from lab.links.scenario import scaled
from lab.links.schema import Scenario, Step, at
from lab.runs.trial import Change

VETH, ROUTER, RELAY = "veth", "router", "relay"
SHORTEST_RTT_S = 1e-3
# More than this two cores do not carry for every rival.
MAX_BPS = 4_000_000_000
# More than this costs too much where packets pass one by one.
MAX_SINGLE_BPS = 1_000_000_000
# Two of the largest.
FEW_SUPER_PACKETS = 2 << 16
# Bursts are drawn for runs of at most so long.
LONGEST_S = 600.0
# Of bursts, and of what the relay loses.
SEED = 1


def mbit(bps: float) -> int:
    return max(1, round(bps / 1e6))


def means(scenario: Scenario, queue_s: float | None = None) -> str:
    """By which means."""
    moments = scenario.moments
    if queue_s is not None or any(now.link.rtt_s >= SHORTEST_RTT_S or now.link.loss for now in moments):
        return RELAY
    return ROUTER if has_background(scenario) else VETH


def fitting(scenario: Scenario) -> tuple[Scenario, float]:
    """The scenario, slower where its link is too fast, and how many times slower."""
    fastest = max(now.carries_bps for now in scenario.moments)
    factor = max(1.0, fastest / MAX_BPS)
    return (scenario, 1.0) if factor == 1.0 else (scaled(scenario, factor), factor)


def link_for(scenario: Scenario, queue_s: float | None = None) -> Link:
    start = at(scenario, 0.0)
    rate = mbit(start.carries_bps)
    match means(scenario, queue_s):
        case "relay":
            queue_ms = QUEUE_MS if queue_s is None else queue_s * 1e3
            single = by_packets(scenario, queue_ms / 1e3)
            return DelayedLink(start.link.rtt_s * 1e3, rate, start.link.loss, SEED, single, queue_ms)
        case "router":
            return RoutedLink(rate)
    return Link(rate)


def by_packets(scenario: Scenario, queue_s: float) -> bool:
    """Whether packets pass one by one: where some are lost by chance, or the queue holds few super-packets, of which one
    would enter whole and shut out all others."""
    if any(now.link.loss for now in scenario.moments):
        return True
    queue_bytes = at(scenario, 0.0).carries_bps / 8 * queue_s
    return queue_bytes < FEW_SUPER_PACKETS and max(now.carries_bps for now in scenario.moments) <= MAX_SINGLE_BPS


def capped(scenario: Scenario) -> bool:
    """Whether a stream is ever slower than the link."""
    return any(now.network.worker_bps < now.carries_bps for now in scenario.moments)


class Built:
    """Context manager: the link, its control group, the cap and the other traffic, as long as the `with` block.

    Other traffic is silent until `reset` or the changes of a run begin it. The queue is as long as its kind of link has
    it, or so many seconds at the first rate.
    """

    def __init__(self, scenario: Scenario, queue_s: float | None = None) -> None:
        self.scenario = scenario
        self.means = means(scenario, queue_s)
        self.link = link_for(scenario, queue_s)
        self.sender = self.link.sender
        self.receiver = self.link.receiver
        self.group = Cgroup()
        self.cap: PerConnectionCap | None = None
        if capped(scenario):
            rates = {now.network.worker_bps for now in scenario.moments}
            self.cap = PerConnectionCap(self.group.path, at(scenario, 0.0).network.worker_bps / 1e6,
                                        follows=len(rates) > 1)
        self.background = Background(self.link) if has_background(scenario) else None
        self.now = at(scenario, 0.0)
        self.stack = contextlib.ExitStack()

    def __enter__(self) -> Self:
        with contextlib.ExitStack() as stack:
            for part in (self.link, self.group, self.cap, self.background):
                if part is not None:
                    stack.enter_context(part)
            self.stack = stack.pop_all()
        return self

    def __exit__(self, *_: object) -> None:
        self.stack.close()

    def become(self, now: Scenario) -> None:
        """Makes the real link what a moment of the scenario says; other traffic is left as it is."""
        then, self.now = self.now, now
        if now.carries_bps != then.carries_bps:
            self.link.change(mbit(now.carries_bps))
        if (now.link.rtt_s, now.link.loss) != (then.link.rtt_s, then.link.loss):
            if not isinstance(self.link, DelayedLink):
                raise CommandFailed(f"{self.scenario.name}: this kind of link cannot change delay or loss")
            self.link.delay(now.link.rtt_s * 1e3)
            self.link.lose(now.link.loss)
        if self.cap is not None and now.network.worker_bps != then.network.worker_bps:
            self.cap.change(now.network.worker_bps / 1e6)

    def others(self, rate_bps: int, streams: int) -> None:
        if self.background is not None:
            self.background.be(rate_bps, streams)

    def reset(self) -> None:
        """As at the start, other traffic included."""
        self.become(at(self.scenario, 0.0))
        self.others(self.scenario.others.rate_bps, self.scenario.others.streams)

    def hush(self) -> None:
        """Ends the other traffic."""
        self.others(0, 0)

    def changes(self) -> list[Change]:
        """What a run must do to the link and when."""
        found = [Change(0.0, self.reset)]
        for step in self.scenario.timeline:
            if path_only(step) != Step(step.at_s):
                found.append(Change(step.at_s, partial(self.become, at(self.scenario, step.at_s))))
        found += [Change(level.at_s, partial(self.others, level.rate_bps, level.streams))
                  for level in levels(self.scenario, LONGEST_S, SEED) if level.at_s > 0]
        return sorted(found, key=lambda change: change.at_s)


def path_only(step: Step) -> Step:
    """The step without what concerns others and what a real link cannot do."""
    return replace(step, others_bps=None, others_streams=None, read=Step(0.0).read, write=Step(0.0).write)
