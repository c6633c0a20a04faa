"""Ratios that a paper published, and how one that was measured stands beside them, judged from both sides: what is far
above a paper's ratio is as little a repetition of it as what falls short, and says that the two differ in something else.
"""

import math
from dataclasses import dataclass

# As good as reached.
REACHED = 0.98
# So many of the paper's own standard deviations above its mean are no chance of its runs.
DEVIATIONS = 2.0
# Of a mean whose deviation is not printed: the median of what FastBioDL's table 3 and LDM's table II print, as a share.
UNSAID = 0.08


@dataclass(frozen=True)
class Published:
    """A ratio, and its standard deviation as a share of it."""

    value: float
    deviation: float = UNSAID * math.sqrt(2)

    @property
    def most(self) -> float:
        """What is above this is above the paper's."""
        return self.value * (1 + DEVIATIONS * self.deviation)

    def short(self, measured: float) -> bool:
        return measured < REACHED * self.value

    def above(self, measured: float) -> bool:
        return measured > self.most

    def met(self, measured: float) -> bool:
        return not self.short(measured) and not self.above(measured)

    @property
    def asked(self) -> str:
        """What a table says is wanted."""
        return f"the paper's {self.value:.2f} (up to {self.most:.2f} by its deviation)"

    def told(self, measured: float) -> str:
        """What is said of it behind the figure."""
        return "above the paper's" if self.above(measured) else ""


def quotient(above: tuple[float, float | None], below: tuple[float, float | None]) -> Published:
    """Of two means with their standard deviations, where those are printed."""
    shares = [UNSAID if deviation is None else deviation / mean for mean, deviation in (above, below)]
    return Published(above[0] / below[0], math.hypot(*shares))
