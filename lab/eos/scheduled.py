"""Figures 6 to 8 in numbers, out of the jobs of each run: all together, their transfers alone, and by size."""

import statistics
from collections.abc import Mapping, Sequence

from lab.eos.jobs import BATCH, SIZES
from lab.ground.results import Record

# Of each job its bytes, what it waited, what its transfer took, and both together, in seconds.
Job = Sequence[float]


def counts(run: Record) -> list[int]:
    """After how many jobs it is looked at: after each batch."""
    jobs, batch = len(run.notes["jobs"]), int(run.notes.get("batch", BATCH))
    return sorted({*range(batch, jobs + 1, batch), jobs})


def total_bps(run: Record, count: int) -> float:
    """Of the first jobs: their bits over the time from the first submission to the last end."""
    batch = int(run.notes.get("batch", BATCH))
    walls: list[float] = run.notes["walls_s"][:-(-count // batch)]
    return sum(job[0] for job in first(run, count)) * 8 / sum(walls)


def moving_bps(jobs: Sequence[Job]) -> float:
    """Their bits over the time that their transfers took, waits left out."""
    return sum(job[0] for job in jobs) * 8 / max(sum(job[2] for job in jobs), 1e-3)


def waited_s(jobs: Sequence[Job]) -> float:
    return statistics.fmean(job[1] for job in jobs)


def first(run: Record, count: int) -> list[Job]:
    found: list[Job] = run.notes["jobs"][:count]
    return found


def of_size(run: Record, size: int) -> list[Job]:
    return [job for job in run.notes["jobs"] if job[0] == size]


def whole_bps(jobs: Sequence[Job]) -> float:
    """Their bits over all the time they took, waits too."""
    return sum(job[0] for job in jobs) * 8 / max(sum(job[3] for job in jobs), 1e-3)


def sizes_in(runs: Mapping[str, Sequence[Record]]) -> list[tuple[str, int]]:
    """The paper's label and our bytes of each size that occurs."""
    there = {int(job[0]) for those in runs.values() for run in those for job in run.notes["jobs"]}
    return [(label, size) for label, size in SIZES.items() if size in there]
