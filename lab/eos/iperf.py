"""Sampling by iperf3 for so many seconds, beside sampling by GridFTP: the EOS paper's figure 5."""

import json
import time
from contextlib import AbstractContextManager
from dataclasses import dataclass
from functools import partial

from lab.eos.gridftp import ASKING_S, LIKELY_STREAMS, MB, PROGRAMS, STARTING_S, asked
from lab.eos.site import FAST, Way, globus, site
from lab.eos.task import Outcome, Plan, Task
from lab.shard import Options

SHARD, REPEATS = "eos-figure5", 10
ONE_STREAM = "one stream"
IPERF3, GRIDFTP = "iperf3", "GridFTP"
# How much there would be to move: so much that samples pay.
ASKED = 10_000 * MB


@dataclass(frozen=True)
class Sizes:
    """How much is measured."""

    durations_s: tuple[float, ...] = (1, 2, 3, 4)
    samples_mb: tuple[float, ...] = (10, 25, 100)
    file: int = 256 * MB
    check_s: float = 5.0


FULL, TINY = Sizes(), Sizes((1,), (2,), 16 * MB, 1.0)


def stream(way: Way, streams: int, seconds: float) -> float:
    """What so many streams carry in truth, by iperf3 at the receiver; it takes whole seconds, and none for no end."""
    said = json.loads(way.run("iperf3", "-c", way.iperf3.split(":")[0], "-p", way.iperf3.split(":")[1], "-P", streams,
                              "-t", max(1, round(seconds)), "-J"))
    return float(said["end"]["sum_received"]["bits_per_second"])


def achieved(way: Way, sizes: Sizes, streams: int | None) -> dict[str, float]:
    """From memory to memory, and a file by GridFTP's client."""
    source = way.source(sizes.file)
    return {"iperf3_bps": stream(way, streams or 1, sizes.check_s),
            "globus_bps": sizes.file * 8 / globus(way, source, streams)}


def one(sizes: Sizes, way: Way, repeat: int) -> Outcome:
    with way.watched() as notes:
        began = time.monotonic()
        notes |= achieved(way, sizes, None)
        seconds = time.monotonic() - began
    return Outcome(seconds, notes=notes)


def by_iperf3(duration_s: float, sizes: Sizes, way: Way, repeat: int) -> Outcome:
    with way.watched() as notes:
        began = time.monotonic()
        answer = way.unremembered("estimate", str(way.trial.scratch), f"{way.ticket}/", "--bytes", f"{ASKED}B",
                                  "--sampler", "iperf3", "--iperf3", way.iperf3, "--sample-time", f"{duration_s:g}s",
                                  "--always-sample")
        seconds = time.monotonic() - began
        streams = int(answer["streams"])
        notes |= {"streams": streams, "predicted_bps": answer["throughput_bps"], **achieved(way, sizes, streams)}
    return Outcome(seconds, notes=notes)


def by_gridftp(sample_mb: float, sizes: Sizes, way: Way, repeat: int) -> Outcome:
    with way.watched() as notes:
        answer, seconds = asked(way, ASKED, round(sample_mb * MB), "--always-sample")
        streams = int(answer["streams"])
        notes |= {"streams": streams, "predicted_bps": answer["throughput_bps"], **achieved(way, sizes, streams)}
    return Outcome(seconds, notes=notes)


def tasks(sizes: Sizes) -> list[Task[Way]]:
    after = sizes.check_s + FAST.seconds(sizes.file, LIKELY_STREAMS) + 2 * STARTING_S
    programs = (IPERF3, *PROGRAMS)
    found = [Task(ONE_STREAM, "unoptimized", sizes.check_s + FAST.seconds(sizes.file) + 2 * STARTING_S,
                  partial(one, sizes), programs)]
    for duration in sizes.durations_s:
        found.append(Task(IPERF3, f"{duration:g} s", 5 * (duration + 0.4) + after, partial(by_iperf3, duration, sizes),
                          programs))
    for sample in sizes.samples_mb:
        asking = ASKING_S + sum(FAST.seconds(round(sample * MB), streams) for streams in (1, 2, 4, 8, 16))
        found.append(Task(GRIDFTP, f"{sample:g} MB", asking + after, partial(by_gridftp, sample, sizes), programs))
    return found


def plan(options: Options) -> Plan[Way]:
    def there() -> AbstractContextManager[Way]:
        return site(FAST)

    return Plan(SHARD, there, tasks(TINY if options.smoke else FULL), 2 if options.smoke else REPEATS)
