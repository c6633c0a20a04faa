"""A path that was seen before, live: how long the second copy over it takes to get to its rate, with what the first one
left behind, with a memory that is wrong by four times either way, and with none."""

import contextlib
import copy
import json
import shutil
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from lab.beyond.cases import scenario
from lab.eos.gridftp import MB
from lab.eos.shards import shard
from lab.eos.site import Way, judged, site_on
from lab.eos.task import Outcome, Plan, Task
from lab.runs.sampler import Sample, Sampler, arrived
from lab.shard import LINK_S

SHARD, REPEATS = "beyond-memory", 3
LINKS = ("rtt-1", "rtt-20", "rtt-100", "rtt-200")
COPY_S, EVERY_S = 8.0, 0.05
NONE, RIGHT = "none", "right"
# By how much workers, and what they can do, are wrong: the same as in the simulated test of the control crate.
WRONG = {"too many workers": (4.0, 1.0), "too few workers": (0.25, 1.0), "of a wider link": (4.0, 4.0),
         "of a narrower link": (0.25, 0.25)}
# Nothing is to be found: what slow start alone takes.
FIXED = "fixed at what is remembered"
# Content beyond the hand-shake.
BEGUN = 256 << 10
SHARE = 0.9


def scaled(memory: Mapping[str, Any], workers: float, able: float) -> dict[str, Any]:
    """A path's file with `workers` times as many workers that can do `able` times as much."""
    def number(n: int) -> int:
        return max(1, round(n * workers))

    wrong = copy.deepcopy(dict(memory))
    for stage in wrong["memory"]["stages"].values():
        stage["workers"] = number(stage["workers"])
        for look in stage["looks"]:
            look["workers"], look["able_bps"] = number(look["workers"]), round(look["able_bps"] * able)
    return wrong


def remembered(state: Path) -> Path:
    """The one path's file."""
    found = list((state / "paths").glob("*"))
    if len(found) != 1:
        raise ValueError(f"{len(found)} paths are remembered in {state}")
    return found[0]


def risen(samples: Sequence[Sample], window_s: float) -> dict[str, float]:
    """When content began to arrive, the rate of the run's late half, and when that was reached first: the middle of the
    first `window_s` in which it was."""
    begun = next(second for second, bytes_, _ in samples if bytes_ >= BEGUN)
    whole = samples[-1][1]
    done = next(second for second, bytes_, _ in samples if bytes_ >= 0.98 * whole)
    middle = begun + (done - begun) / 2
    late = (arrived(samples, done) - arrived(samples, middle)) / (done - middle)

    def rate(second: float) -> float:
        return (arrived(samples, second) - arrived(samples, second - window_s)) / window_s

    at = next(second for second, _, _ in samples if second >= begun + window_s and rate(second) >= SHARE * late)
    return {"begun_s": begun, "late_bps": late * 8, "reached_s": at - window_s / 2 - begun}


def copied(way: Way, seen: str, size: int, window_s: float, *more: object) -> dict[str, float]:
    source = way.source(size)
    way.emptied(seen)
    epochs = way.trial.scratch / f"{seen}.jsonl"
    with Sampler(way.trial.link.receiver, content=True, every_s=EVERY_S) as sampler:
        way.ours("copy", f"{source.root}/", f"{way.ticket}/{seen}/", "--epochs", epochs, *more, state=seen)
    judged(source, way.trial.destination / seen)
    way.emptied(seen)
    found = risen(sampler.samples, window_s)
    lines = [json.loads(line) for line in epochs.read_text().splitlines()]
    needed = (i for i, line in enumerate(lines) if line["throughput_bps"]["network"] >= SHARE * found["late_bps"])
    return found | {"epochs": next(needed, len(lines)) + 1, "first": lines[0]["concurrency"]["network"] if lines else 0}


def seconds(link: str, where: None, repeat: int) -> Outcome:
    """Every way to begin, on one link, in an order that turns with the repeats."""
    path = scenario(link)
    size = round(path.link.rate_bps / 8 * COPY_S / MB) * MB
    window_s = max(4 * EVERY_S, 2 * path.link.rtt_s)
    with site_on(path) as way, way.watched() as notes:
        runs = {NONE: copied(way, NONE, size, window_s)}
        left = remembered(way.trial.scratch / NONE)
        memory = json.loads(left.read_text())
        held = [memory["memory"]["stages"][stage]["workers"] for stage in ("read", "network", "write")]
        begins = {RIGHT: (1.0, 1.0), **WRONG}
        order = list(begins)
        for name in order[repeat % len(order):] + order[:repeat % len(order)]:
            state = name.replace(" ", "-")
            directory = way.trial.scratch / state / "paths"
            shutil.rmtree(directory.parent, ignore_errors=True)
            directory.mkdir(parents=True, mode=0o700)
            (directory / left.name).write_text(json.dumps(scaled(memory, *begins[name])))
            runs[name] = copied(way, state, size, window_s)
        runs[FIXED] = copied(way, "fixed", size, window_s, "--no-memory", "--optimizer",
                             "fixed:" + ",".join(map(str, held)))
        notes |= {"runs": runs, "held": held}
    return Outcome(runs[RIGHT]["reached_s"], notes=notes)


def tasks() -> list[Task[None]]:
    expected = LINK_S + (len(WRONG) + 3) * (COPY_S + 2)
    return [Task(link, "auto", expected, partial(seconds, link)) for link in LINKS]


PLAN = Plan(SHARD, contextlib.nullcontext, tasks(), REPEATS)


SHARDS = (shard("the second copy over a path, with a memory that is right, wrong or none", PLAN),)
