"""Sampling by iperf3 for so many seconds, beside sampling by GridFTP: the EOS paper's figure 5."""

import json
import time
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from lab.eos.gridftp import ASKING_S, LIKELY_STREAMS, MB, PROGRAMS, STARTING_S, asked, question
from lab.eos.site import FAST, Way, globus, site
from lab.eos.task import Outcome, Plan, Task

SHARD, REPEATS = "eos-figure5", 10
ONE_STREAM = "one stream"
IPERF3, GRIDFTP = "iperf3", "GridFTP"
# How much there would be to move: so much that samples pay.
ASKED = 10_000 * MB


DURATIONS_S, SAMPLES_MB = (1, 2, 3, 4), (10, 25, 100)
# What is then carried with as many streams as were advised.
FILE, CHECK_S = 256 * MB, 5.0


def stream(way: Way, streams: int, seconds: float) -> float:
    """What so many streams carry in truth, by iperf3 at the receiver; it takes whole seconds, and none for no end."""
    said = json.loads(way.run("iperf3", "-c", way.iperf3.split(":")[0], "-p", way.iperf3.split(":")[1], "-P", streams,
                              "-t", max(1, round(seconds)), "-J"))
    return float(said["end"]["sum_received"]["bits_per_second"])


def achieved(way: Way, streams: int | None) -> dict[str, float]:
    """From memory to memory, and a file by GridFTP's client."""
    source = way.source(FILE)
    return {"iperf3_bps": stream(way, streams or 1, CHECK_S),
            "globus_bps": FILE * 8 / globus(way, source, streams)}


def one(way: Way, repeat: int) -> Outcome:
    with way.watched() as notes:
        began = time.monotonic()
        notes |= achieved(way, None)
        seconds = time.monotonic() - began
    return Outcome(seconds, notes=notes)


def asked_of_iperf3(duration_s: float, way: Way) -> Sequence[object]:
    return ("estimate", str(way.trial.scratch), f"{way.ticket}/", "--bytes", f"{ASKED}B", "--sampler", "iperf3",
            "--iperf3", way.iperf3, "--sample-time", f"{duration_s:g}s")


def by_iperf3(duration_s: float, way: Way) -> tuple[Any, float]:
    """Its advice, and how long it took to get."""
    began = time.monotonic()
    answer = way.unremembered(*asked_of_iperf3(duration_s, way), "--always-sample")
    return answer, time.monotonic() - began


def asked_of_gridftp(sample_mb: float, way: Way) -> Sequence[object]:
    return question(way, ASKED, round(sample_mb * MB))


def by_gridftp(sample_mb: float, way: Way) -> tuple[Any, float]:
    return asked(way, ASKED, round(sample_mb * MB), "--always-sample")


def advised(ask: Callable[[Way], tuple[Any, float]], words: Callable[[Way], Sequence[object]], way: Way,
            repeat: int) -> Outcome:
    with way.watched() as notes:
        answer, seconds = ask(way)
        streams = int(answer["streams"])
        notes |= {"streams": streams, "predicted_bps": answer["throughput_bps"], **achieved(way, streams)}
        published = way.by_published(*words(way))
        theirs = int(published["streams"])
        notes |= {"published_streams": theirs, "published_bps": published["throughput_bps"],
                  "published_achieved_bps": notes["iperf3_bps"] if theirs == streams else stream(way, theirs, CHECK_S)}
    return Outcome(seconds, notes=notes)


def tasks() -> list[Task[Way]]:
    after = 2 * CHECK_S + FAST.seconds(FILE, LIKELY_STREAMS) + 2 * STARTING_S
    programs = (IPERF3, *PROGRAMS)
    found = [Task(ONE_STREAM, "unoptimized", CHECK_S + FAST.seconds(FILE) + 2 * STARTING_S, one, programs)]
    for duration in DURATIONS_S:
        ask = partial(by_iperf3, duration)
        found.append(Task(IPERF3, f"{duration:g} s", 5 * (duration + 0.4) + after,
                          partial(advised, ask, partial(asked_of_iperf3, duration)), programs))
    for sample in SAMPLES_MB:
        asking = ASKING_S + sum(FAST.seconds(round(sample * MB), streams) for streams in (1, 2, 4, 8, 16))
        ask = partial(by_gridftp, sample)
        found.append(Task(GRIDFTP, f"{sample:g} MB", asking + after,
                          partial(advised, ask, partial(asked_of_gridftp, sample)), programs))
    return found


PLAN = Plan(SHARD, partial(site, FAST), tasks(), REPEATS)
