"""Sampling by GridFTP and then moving a file with the advised number of streams: the EOS paper's figures 3 and 4.

A file that would take one stream more than about a minute is cut, and its samples by the same factor, so that what a
sample costs keeps its share of the whole.
"""

import time
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from lab.eos.site import FAST, SLOW, Limits, Way, copied, globus, site
from lab.eos.task import Outcome, Plan, Task
from lab.runs.datasets import Dataset

MB = 1_000_000
PROGRAMS = ("globus-url-copy", "globus-gridftp-server")
GLOBUS, OURS = "one stream, globus-url-copy", "one stream, tidegate"
# What logging in and starting the programs takes in one estimate, and in one copy: only to foretell how long all takes.
ASKING_S, STARTING_S = 2.5, 0.4
LIKELY_STREAMS = 9
# The estimator takes no smaller ones.
LEAST_SAMPLE = 1 << 16


@dataclass(frozen=True)
class File:
    """A file of the paper, and what it and its samples are divided by here."""

    label: str
    bytes: int
    scale: float = 1.0

    @property
    def here(self) -> int:
        return round(self.bytes / self.scale)

    def sample(self, megabytes: float) -> int:
        return max(LEAST_SAMPLE, round(megabytes * MB / self.scale))


@dataclass(frozen=True)
class Figure:
    """One figure of the paper."""

    number: int
    limits: Limits
    files: Sequence[File]
    # The paper's, in MB.
    samples: Sequence[float]
    repeats: int

    @property
    def shard(self) -> str:
        return f"eos-figure{self.number}"


FIGURE_3 = Figure(3, FAST, (File("256 MB", 256 * MB), File("1 GB", 1000 * MB), File("10 GB", 10_000 * MB, 10)),
                  (10, 25, 50, 75, 100), 5)
FIGURE_4 = Figure(4, SLOW, (File("100 MB", 100 * MB, 6.4), File("256 MB", 256 * MB, 6.4),
                            File("512 MB", 512 * MB, 6.4)), (1, 2, 4, 8), 5)


def row_of(size: int) -> str:
    """The row of a file without samples: files of equal size share it."""
    return f"{size / MB:g} MB here"


def sampling(samples: float) -> str:
    return f"samples of {samples:g} MB"


def plain(size: int, by_globus: bool, way: Way, repeat: int) -> Outcome:
    """One stream: what is used if nobody asks."""
    source = way.source(size)
    with way.watched() as notes:
        seconds = globus(way, source, None) if by_globus else copied(way, source, "--optimizer", "fixed:1")
    return Outcome(seconds, size, notes, "content")


def question(way: Way, size: int, sample: int) -> tuple[object, ...]:
    return ("estimate", "file:///dev/zero", f"{way.gridftp}/dev/null", "--bytes", f"{size}B", "--sampler", "gridftp",
            "--sample-size", f"{sample}B")


def asked(way: Way, size: int, sample: int, *more: object) -> tuple[Any, float]:
    """GridFTP's advice, and how long it took to get."""
    began = time.monotonic()
    answer = way.unremembered(*question(way, size, sample), *more)
    return answer, time.monotonic() - began


def published(way: Way, source: Dataset, question: Sequence[object], ours: tuple[int, float]) -> dict[str, Any]:
    """What EOS's own models advise by the same samples, and what GridFTP's client does with that; with as many streams
    as ours advise it is the same run."""
    answer = way.by_published(*question)
    streams, (advised, seconds) = int(answer["streams"]), ours
    return {"published_streams": streams, "published_bps": answer["throughput_bps"], "published_model": answer["model"],
            "published_s": seconds if streams == advised else globus(way, source, streams)}


def advised(size: int, sample: int, way: Way, repeat: int) -> Outcome:
    """Samples, then the file with as many streams as they advise, by both.

    Where the estimator says that samples do not pay it is told to sample all the same, as the paper did; and what it
    does otherwise is measured beside that: a copy that begins without advice and adapts.
    """
    source = way.source(size)
    with way.watched() as notes:
        answer, asking = asked(way, size, sample)
        # One sample that shows that more do not pay tells no rate.
        if declined := answer["origin"]["kind"] != "sampled" or answer["throughput_bps"] is None:
            notes |= {"why_declined": answer["reason"], "declining_s": asking, "unadvised_s": copied(way, source)}
            answer, asking = asked(way, size, sample, "--always-sample")
        streams = int(answer["streams"])
        notes |= {"declined": declined, "estimate_s": asking, "streams": streams,
                  "predicted_bps": answer["throughput_bps"], "cost_bytes": answer["cost_bytes"],
                  "model": answer["model"], "samples": [[one["streams"], one["throughput_bps"]]
                                                         for one in answer["samples"]],
                  "globus_s": globus(way, source, streams), "ours_s": copied(way, source, "--start", streams)}
        notes |= published(way, source, question(way, size, sample), (streams, notes["globus_s"]))
    return Outcome(asking + notes["globus_s"], size, notes, "content")


def tasks(figure: Figure) -> list[Task[Way]]:
    limits = figure.limits
    found: list[Task[Way]] = []
    for size in sorted({file.here for file in figure.files}):
        expected = limits.seconds(size) + STARTING_S
        found += [Task(row_of(size), GLOBUS, expected, partial(plain, size, True), PROGRAMS),
                  Task(row_of(size), OURS, expected, partial(plain, size, False))]
    for file in figure.files:
        for samples in figure.samples:
            sample = file.sample(samples)
            expected = (ASKING_S + sum(limits.seconds(sample, streams) for streams in (1, 2, 4, 8, 16))
                        + 3 * (limits.seconds(file.here, LIKELY_STREAMS) + STARTING_S))
            found.append(Task(file.label, sampling(samples), expected, partial(advised, file.here, sample), PROGRAMS))
    return found


def plan(figure: Figure) -> Plan[Way]:
    return Plan(figure.shard, partial(site, figure.limits), tasks(figure), figure.repeats)
