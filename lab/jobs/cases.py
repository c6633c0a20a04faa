"""A copy by hand and by a job, GridFTP by a job with one stream and as it is, and LDM's policy beside `auto`.

Each knows nothing of the path: no run remembers it, and no history answers.
"""

import time
from collections.abc import Callable
from dataclasses import replace
from functools import cache, partial

from lab.automdt.cases import CHUNKS, path
from lab.automdt.paper import FIGURE_5
from lab.eos.jobs import PORT, Service
from lab.eos.service import stop
from lab.eos.site import SLOW, Limits, Way, judged, site
from lab.eos.task import Outcome, Plan, Task, counted, run_all
from lab.grid.case import Case
from lab.grid.engine import Engine, Rule
from lab.grid.run import Cell
from lab.ground import places
from lab.runs.datasets import MB, MIB, Dataset
from lab.shard import Shard, grid

COPY, GRIDFTP, POLICY = "jobs-copy", "jobs-gridftp", "jobs-policy"
REPEATS, DRIVES = 5, 3
# What a copy of the endpoint moves, and what GridFTP does: less than anybody samples for.
COPIED, LITTLE = 60 * MIB, 15 * MB
# A stream has an eighth of the link.
EIGHTH = Limits(100, 12)
BY_HAND, BY_JOB = "copy", "submit"
ONE, AS_IT_IS = "one stream", "as it is"
AUTO, LDM = Rule("auto", "auto"), Rule("ldm", "ldm", recipe="ldm")
# AutoMDT's slow reader, with a quarter of its rates.
READER, QUARTER, DRIVE_S = "slow reader", 4, 30.0


def by_hand(way: Way, source: Dataset) -> float:
    way.emptied("landed")
    began = time.monotonic()
    way.ours("copy", "--no-memory", f"{source.root}/one.bin", f"{way.ticket}/landed/")
    return time.monotonic() - began


def by_job(way: Way, source: Dataset, destination: str, *more: object) -> float:
    """From the command to its end: the job waits in a queue that is empty."""
    way.turn += 1
    state = way.trial.scratch / f"service-{way.turn}"
    service = Service(way, state, 1)
    try:
        began = time.monotonic()
        way.run(places.tidegate_binary(), "submit", f"{source.root}/one.bin", destination, "--wait", "--state", state,
                "--server", f"http://127.0.0.1:{PORT}", *more)
        return time.monotonic() - began
    finally:
        stop(service.process)


def copied(which: str, way: Way, repeat: int) -> Outcome:
    source = way.source(COPIED)
    with way.watched() as notes:
        if which == BY_HAND:
            seconds = by_hand(way, source)
        else:
            way.emptied("landed")
            seconds = by_job(way, source, f"{way.ticket}/landed/")
    judged(source, way.trial.destination / "landed")
    return Outcome(seconds, COPIED, notes, "content")


def little(which: str, way: Way, repeat: int) -> Outcome:
    source, there = way.source(LITTLE), way.emptied("landed")
    more = ("--no-optimization",) if which == ONE else ()
    with way.watched() as notes:
        seconds = by_job(way, source, f"{way.gridftp}{there}/one.bin", "--bytes", f"{LITTLE}B", *more)
    judged(source, there)
    return Outcome(seconds, LITTLE, notes, "content")


def plan(shard: str, limits: Limits, size: int, ways: tuple[str, str], measure: Callable[[str, Way, int], Outcome],
         programs: tuple[str, ...] = ()) -> Plan[Way]:
    tasks = [Task(f"{size / 1e6:.0f} MB", which, limits.seconds(size) if which == ONE else 8.0,
                  partial(measure, which), programs) for which in ways]
    return Plan(shard, partial(site, limits), tasks, REPEATS)


COPIES = plan(COPY, EIGHTH, COPIED, (BY_HAND, BY_JOB), copied)
LITTLES = plan(GRIDFTP, SLOW, LITTLE, (ONE, AS_IT_IS), little, ("globus-url-copy", "globus-gridftp-server"))


@cache
def case() -> Case:
    rates = [rate / QUARTER for rate in FIGURE_5["read"].rates]
    scenario = path("read-quarter", "The slow reader of AutoMDT's figure 5, with a quarter of its rates", rates, 250)
    return Case(READER, f"{READER}: {', '.join(f'{rate:g}' for rate in rates)} Mbit/s a worker of 250", scenario, DRIVE_S,
                replace(CHUNKS, name="chunks-few"), 3)


def cells() -> list[Cell]:
    return [Cell(case(), Engine(rule, case())) for rule in (AUTO, LDM)]


def shard(title: str, plan: Plan[Way]) -> Shard:
    minutes = max(1, round(plan.repeats * sum(task.expected_s for task in plan.tasks) / 60))
    return Shard(plan.shard, title, minutes, partial(run_all, plan), partial(counted, plan))


SHARDS = (shard("60 MiB by hand and by a job", COPIES), shard("15 MB by a job of GridFTP", LITTLES),
          grid(POLICY, "LDM's policy where reading is slow", 6, cells, DRIVES))
