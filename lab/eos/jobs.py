"""Jobs of random sizes through the scheduler, optimized and not: the EOS paper's figures 6 to 8, scaled.

The paper's jobs are of 100 MB, 256 MB, 512 MB, 1 GB and 5 GB, submitted one after the other; here they are a fiftieth
of that, on a path where one connection has less than an eighth of the link. They are submitted a hundred at a time to
one service, so that the first hundred of a run are what a run of a hundred would be.
"""

import json
import random
import time
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from lab.eos.gridftp import MB
from lab.eos.service import ENDS, stop
from lab.eos.site import FAST, Way, site
from lab.eos.task import Outcome, Plan, Task
from lab.ground import places
from lab.ground.shell import CommandFailed
from lab.runs.trial import Command
from lab.runs.verify import same_bytes

SHARD, REPEATS, COUNT, BATCH = "eos-jobs", 3, 500, 100
SCALE = 50
# The paper's sizes, and ours.
SIZES = {label: size * MB // SCALE for label, size in
         {"100 MB": 100, "256 MB": 256, "512 MB": 512, "1 GB": 1000, "5 GB": 5000}.items()}
SEED, PORT, PATIENCE_S, POLL_S = 1, 7118, 1800.0, 0.5
# How jobs are done: whether their streams are estimated, and how many at a time.
WAYS = {"plain": (False, 1), "optimized": (True, 1), "overlapping": (True, 8)}


def sizes(count: int) -> list[int]:
    rng = random.Random(SEED)
    return [rng.choice(list(SIZES.values())) for _ in range(count)]


class Service:
    """A service at the sender, told what to do by its own command."""

    def __init__(self, way: Way, state: Path, at_once: int, *more: object) -> None:
        self.way, self.state = way, state
        command = Command(way.trial.link.sender, [places.tidegate_binary(), "serve", "--listen", f"127.0.0.1:{PORT}",
                                                  "--state", state, "--max-jobs", at_once, *more])
        self.process = way.trial.serve(command, PORT, "service")

    def ask(self, *argv: object) -> Any:
        said = self.way.run(places.tidegate_binary(), *argv, "--json", "--state", self.state, "--server",
                            f"http://127.0.0.1:{PORT}")
        return json.loads(said)


def ended(service: Service, batch: Sequence[int], done: int, verified: bool = True) -> list[dict[str, Any]]:
    """The jobs of a batch in their order, once all have ended; a mover that cannot verify need not have."""
    until = time.monotonic() + PATIENCE_S
    while True:
        counts = service.ask("jobs", "--limit", 1)["counts"]
        if sum(counts.get(state, 0) for state in ENDS) >= done + len(batch):
            break
        if time.monotonic() > until:
            raise CommandFailed(f"jobs did not end: {counts}")
        time.sleep(POLL_S)
    jobs: list[dict[str, Any]] = service.ask("jobs", "--limit", len(batch))["jobs"]
    jobs.sort(key=lambda job: int(job["id"]))
    for job in jobs:
        if job["state"] != "done" or (verified and not (job["summary"] or {}).get("verified")):
            raise CommandFailed(f"job {job['id']} is {job['state']}: {job['reason']}")
    return jobs


def spans(jobs: Sequence[Mapping[str, Any]], wanted: Sequence[int], in_turn: bool) -> list[list[float]]:
    """Of each job its bytes, what it waited, what its transfer took, and both together, in seconds.

    One after the other, a job waits from the end of the one before it until its transfer begins, and so for its own
    samples; where jobs overlap, from when it was begun.
    """
    rows, before = [], 0
    for job, size in zip(jobs, wanted, strict=True):
        begin = max(job["submitted_ms"], before) if in_turn else job["started_ms"]
        whole, moving = job["ended_ms"] - begin, job["summary"]["duration_ms"]
        rows.append([size, round(max(0, whole - moving) / 1000, 3), moving / 1000, whole / 1000])
        before = job["ended_ms"]
    return rows


def checked(landing: Path, first: int, batch: Sequence[int]) -> None:
    """The first job of a batch by content, all by size."""
    for i, size in enumerate(batch, first):
        copy = landing / str(i) / f"{size}.bin"
        if not copy.is_file() or copy.stat().st_size != size:
            raise CommandFailed(f"the copy of job {i} is not there whole")
    copy = landing / str(first) / f"{batch[0]}.bin"
    if not same_bytes(places.SOURCES / copy.name, copy):
        raise CommandFailed(f"the copy of job {first} differs in content")


def one(name: str, wanted: Sequence[int], way: Way, repeat: int) -> Outcome:
    """All jobs from the first submission to the last end; each moves a file of its own, verified."""
    optimized, at_once = WAYS[name]
    state = way.trial.scratch / f"service-{name}-{repeat}"
    rng = random.Random(SEED)
    for size in set(wanted):
        (places.SOURCES / f"{size}.bin").write_bytes(rng.randbytes(size))
    service = Service(way, state, at_once)
    rows: list[list[float]] = []
    walls: list[float] = []
    try:
        for first in range(0, len(wanted), BATCH):
            batch, landing = wanted[first:first + BATCH], way.emptied("jobs")
            listed = [{"source": str(places.SOURCES / f"{size}.bin"), "destination": f"{way.ticket}/jobs/{i}/",
                       "bytes": size, "optimization": optimized, "use_history": optimized}
                      for i, size in enumerate(batch, first)]
            file = way.trial.scratch / "jobs.json"
            file.write_text(json.dumps(listed))
            with way.watched():
                service.ask("submit", file)
                jobs = ended(service, batch, first)
            checked(landing, first, batch)
            rows += spans(jobs, batch, at_once == 1)
            walls.append((max(job["ended_ms"] for job in jobs) - min(job["submitted_ms"] for job in jobs)) / 1000)
    finally:
        stop(service.process)
        way.emptied("jobs")
    return Outcome(sum(walls), sum(wanted), {"jobs": rows, "batch": BATCH, "walls_s": walls}, "content")


def plan() -> Plan[Way]:
    wanted = sizes(COUNT)

    one_stream = FAST.seconds(sum(wanted)) + 0.1 * len(wanted)
    guess = {"plain": one_stream, "optimized": 0.5 * one_stream, "overlapping": 0.4 * one_stream}
    tasks = [Task(f"{len(wanted)} jobs", name, guess[name], partial(one, name, wanted)) for name in WAYS]
    return Plan(SHARD, partial(site, FAST), tasks, REPEATS)
