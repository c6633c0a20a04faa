"""Runs taken one after the other: what is known is not made again, and how long the rest takes is said."""

import contextlib
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from lab.ground.results import Record, append, load


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
        record = make()
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
