"""Whether what an estimate says is what comes: each sampler is asked on twelve links, of the lab's or of a seed, and its
advice and the numbers beside it are then run with the same tool.

What is asked for would take minutes and hours, so the start of these runs does not count, nor how streams end one after the
other, whatever that takes: they are cut off by the clock, and by no rule that a sampler shares."""

import contextlib
import json
import math
import os
import random
import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import cache, partial
from pathlib import Path

from lab.eos.arriving import arrivals
from lab.eos.gridftp import MB
from lab.eos.paths import ONCE_S, SAMPLERS, Sampler
from lab.eos.site import Way, site_on
from lab.eos.task import Outcome, Plan, Task
from lab.ground.places import REPOSITORY
from lab.links.scenario import Scenario, read
from lab.shard import LINK_S

SHARD, REPEATS = "eos-predictions", 3
THERE = ("scenarios/rtt-1", "scenarios/rtt-20", "scenarios/rtt-50", "scenarios/rtt-100", "scenarios/rtt-200",
         "scenarios/huge-file", "lab/scenarios/ten-streams", "lab/ldm/throttled")
# Rate and stream in Mbit/s and round trip in ms of those that differ from the lab's in all three.
MORE = ((300, 20, 10), (100, 40, 5), (500, 30, 40), (800, 160, 80))
# Of each run by hand this is cut off. GridFTP tells how long a transfer took, no more: what arrives is counted, and so is
# its end, at which streams of 5 Mbit/s have 1.7 s between the first that has sent its last block and the last.
START_S, END_S = 5.0, 5.0
ASKING_S = 25.0
# Numbers beside the advice: a third fewer, and half as many more.
STEP, MOST = 1.5, 32


# Samplers are tuned on these twelve, and judged on twelve of a seed: Mbit/s of the link, connections that fill it, and ms,
# each evenly on a logarithmic scale.
SEED = os.environ.get("TIDEGATE_LAB_SEED") or None
DRAWN, RATES, FILLED_BY, ROUND_TRIPS = 12, (50.0, 1000.0), (1.5, 24.0), (1.0, 150.0)


@cache
def links() -> tuple[Scenario, ...]:
    known = [read(REPOSITORY / Path(name).with_suffix(".toml")) for name in THERE]
    if SEED is not None:
        return drawn(known[0], int(SEED))
    more = [path(known[0], f"link-{rate}-{stream}-{rtt_ms}", rate, stream, rtt_ms) for rate, stream, rtt_ms in MORE]
    return (*known, *more)


def drawn(base: Scenario, seed: int) -> tuple[Scenario, ...]:
    chance = random.Random(seed)

    def one(number: int) -> Scenario:
        rate, filled_by, rtt_ms = (math.exp(chance.uniform(math.log(least), math.log(most)))
                                   for least, most in (RATES, FILLED_BY, ROUND_TRIPS))
        return path(base, f"seed{seed}-{number + 1:02}", round(rate), round(rate / filled_by, 1), round(rtt_ms))

    return tuple(map(one, range(DRAWN)))


def path(base: Scenario, name: str, rate: int, stream: float, rtt_ms: int) -> Scenario:
    return replace(base, name=name, network=replace(base.network, worker_bps=round(stream * 10**6)),
                   link=replace(base.link, rate_bps=rate * 10**6, rtt_s=rtt_ms / 1e3))


def neighbours(streams: int) -> list[int]:
    """The advice, and a number on either side of it."""
    return sorted({max(1, round(streams / STEP)), streams, min(MOST, max(streams + 1, round(streams * STEP)))})


def native(way: Way, streams: int) -> float:
    said = way.ours("probe", f"{way.ticket}/", "--optimizer", f"fixed:{streams}", "--max-workers", streams,
                    "--time", f"{START_S + ONCE_S:g}s")
    late = [epoch for epoch in said["epochs"] if epoch["t_ms"] - epoch["interval_ms"] >= 1e3 * START_S * 0.9]
    took = sum(epoch["interval_ms"] for epoch in late)
    return sum(float(epoch["throughput_bps"]["network"]) * epoch["interval_ms"] for epoch in late) / took


def iperf3(way: Way, streams: int) -> float:
    host, port = way.iperf3.split(":")
    said = json.loads(way.run("iperf3", "-c", host, "-p", port, "-P", streams, "-O", round(START_S), "-t", round(ONCE_S), "-J"))
    return float(said["end"]["sum_received"]["bits_per_second"])


def gridftp(way: Way, streams: int) -> float:
    size = int(min(way.path.link_mbit, streams * way.path.cap_mbit) * MB / 8 * (START_S + ONCE_S + END_S))
    with arrivals(way.trial, way.trial.link.receiver) as found:
        way.run("globus-url-copy", "-p", streams, "-len", size, "file:///dev/zero", f"{way.gridftp}/dev/null")
    return found.bps(size, START_S, ONCE_S)


BY_HAND: Mapping[str, Callable[[Way, int], float]] = {"native": native, "iperf3": iperf3, "gridftp": gridftp}


def asked(scenario: Scenario, sampler: Sampler, where: None, repeat: int) -> Outcome:
    """The answer on a link of its own, then what so many streams carry, in an order that turns with the repeats."""
    with site_on(scenario) as way, way.watched() as notes:
        began = time.monotonic()
        answer = way.unremembered(*sampler.asked(way))
        spent = time.monotonic() - began
        streams = int(answer["streams"])
        tried = neighbours(streams)
        carried = {str(n): BY_HAND[sampler.name](way, n) for n in tried[repeat % len(tried):] + tried[:repeat % len(tried)]}
        notes |= {"streams": streams, "predicted_bps": answer["throughput_bps"], "cost_ms": answer["cost_ms"],
                  "samples": [[one["streams"], one["throughput_bps"]] for one in answer["samples"]], "carried_bps": carried,
                  "model": answer["model"]}
    return Outcome(spent, notes=notes)


def tasks() -> list[Task[None]]:
    def expected(sampler: Sampler) -> float:
        return LINK_S + ASKING_S + 3 * (START_S + ONCE_S + (END_S if sampler.name == "gridftp" else 0.0))

    return [Task(scenario.name, sampler.name, expected(sampler), partial(asked, scenario, sampler), sampler.programs)
            for scenario in links() for sampler in SAMPLERS]


PLAN = Plan(SHARD, contextlib.nullcontext, tasks(), REPEATS)
