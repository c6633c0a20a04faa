"""Runs taken one after the other: what is known is not made again, and how long the rest takes is said.

Where the machine is a guest of a busy host, some runs say more of the host than of the mover. Which those are is told
by what the hypervisor took, never by how fast a run was; whoever's they are, they are made again.
"""

import contextlib
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path

from lab.ground.results import Record, append, load

# A run of which the hypervisor took more than so many processors is made again, at most so many times.
STOLEN_CPUS = 0.1
AGAIN = 2


def is_disturbed(record: Record) -> bool:
    return record.stolen_cpus > STOLEN_CPUS


def undisturbed(make: Callable[[], Record]) -> Record:
    """A run that was not disturbed, or the least disturbed of those made; the others are in its notes. A failure is one
    at once."""
    made: list[Record] = []
    while len(made) <= AGAIN:
        record = make()
        if not record.ok:
            return record
        made.append(record)
        if not is_disturbed(record):
            break
        print(f"disturbed: {record.stolen_cpus:.2f} processors went to the hypervisor; {record.set} "
              f"{record.contender}, {record.rate_bps / 1e6:.0f} Mbit/s", flush=True)
    best = min(made, key=lambda record: record.stolen_cpus)
    aside = [{"stolen_cpus": each.stolen_cpus, "rate_bps": each.rate_bps} for each in made if each is not best]
    return replace(best, notes={**best.notes, "set_aside": aside}) if aside else best


def disturbances(records: Sequence[Record]) -> str:
    """What is said of them; nothing where there were none."""
    runs = [record for record in records if record.ok]
    again, still = sum("set_aside" in run.notes for run in runs), sum(map(is_disturbed, runs))
    if not again and not still:
        return ""
    return (f"Runs of which the hypervisor took more than {STOLEN_CPUS:g} processors were made again, up to {AGAIN} "
            f"times: {again} of {len(runs)}. The least disturbed counts; {still} of those were disturbed still.")


class OutOfTime(Exception):
    """No further run may begin."""


class Rotation:
    """Counts expected seconds off; what is left is scaled by how the expectation has held so far."""

    def __init__(self, results: Path, expected_s: float, budget_min: float | None = None) -> None:
        self.results, self.expected_s, self.budget_min = results, expected_s, budget_min
        self.known = {record.key for record in load(results) if record.ok}
        self.spent_s, self.began = 0.0, time.monotonic()
        # Whether nothing that matters failed.
        self.good = True

    @property
    def left_min(self) -> float:
        pace = (time.monotonic() - self.began) / self.spent_s if self.spent_s else 1.0
        return max(0.0, self.expected_s - self.spent_s) * pace / 60

    def check(self) -> None:
        """Ends it all when the time is over."""
        if self.budget_min and time.monotonic() - self.began > self.budget_min * 60:
            raise OutOfTime

    def take(self, blank: Record, expected_s: float, make: Callable[[], Record], matters: bool = True) -> None:
        """Makes a run of which so much is known before, and keeps it."""
        if blank.key in self.known:
            self.expected_s -= expected_s
            return
        self.check()
        record = undisturbed(make)
        append(self.results, record)
        self.spent_s += expected_s
        print(f"[{self.left_min:.0f} min left] {record.set} #{record.repeat} {record.contender:36} {record.outcome}",
              flush=True)
        self.good = self.good and (record.ok or not matters)

    @contextlib.contextmanager
    def going(self) -> Iterator[None]:
        """Says, when it is stopped, that the same command goes on."""
        try:
            yield
        except OutOfTime:
            print(f"the time is over; the same command goes on from {self.results}", flush=True)
        except BaseException:
            print(f"stopped; the same command goes on from {self.results}", flush=True)
            raise
