"""How long it will take, from how long it has taken; and runs that go on where they were stopped."""

import contextlib
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path


@dataclass
class Progress:
    """Counts expected seconds off; what is left is scaled by how the expectation has held so far."""

    expected_s: float
    spent_s: float = 0.0
    began: float = field(default_factory=time.monotonic)

    @property
    def left_min(self) -> float:
        pace = (time.monotonic() - self.began) / self.spent_s if self.spent_s else 1.0
        return max(0.0, self.expected_s - self.spent_s) * pace / 60

    def skip(self, seconds: float) -> None:
        self.expected_s -= seconds

    def done(self, seconds: float) -> None:
        self.spent_s += seconds

    def is_over(self, budget_min: float | None) -> bool:
        """Whether no further run may begin, which is said."""
        if not budget_min or time.monotonic() - self.began <= budget_min * 60:
            return False
        print("the time is over; the same command goes on", flush=True)
        return True


@contextlib.contextmanager
def resumable(results: Path) -> Iterator[None]:
    """Says, when it is stopped, that the same command goes on."""
    try:
        yield
    except BaseException:
        print(f"stopped; the same command goes on from {results}", flush=True)
        raise
