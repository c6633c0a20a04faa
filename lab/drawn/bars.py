"""What the default rule is to reach on random links."""

import statistics
from collections.abc import Sequence

from lab.drawn.figures import Judged
from lab.ground.stats import percentile
from lab.pages.parts import Bar

MEDIAN, LOW, LOW_SHARE, MORE_WORKERS = 0.98, 0.9, 0.05, 1.25


def bars(own: Sequence[Judged], asked: int) -> list[Bar]:
    if not own:
        return []
    count = f"{len(own)} of {asked}"
    made = []
    for what, shares, numbers in (("whole run", [each.whole for each in own], [each.workers for each in own]),
                                  ("late halves", [each.settled for each in own],
                                   [each.settled_workers for each in own])):
        middle, low, more = statistics.median(shares), percentile(shares, LOW_SHARE), statistics.median(numbers)
        made += [Bar(f"{what}: ÷ oracle, median", f"≥ {MEDIAN:g}", f"{middle:.3f}", middle >= MEDIAN, count),
                 Bar(f"{what}: ÷ oracle, 5th percentile", f"≥ {LOW:g}", f"{low:.3f}", low >= LOW, count),
                 Bar(f"{what}: workers ÷ oracle's, median", f"≤ {MORE_WORKERS:g}", f"{more:.2f}",
                     more <= MORE_WORKERS, count)]
    return made
