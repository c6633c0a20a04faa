"""How long it will take, from how long it has taken."""

import time
from dataclasses import dataclass, field


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
