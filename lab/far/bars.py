"""What is to be reached far away."""

from collections.abc import Iterable

from lab.far.cases import AUTO, FAR, HUGE, NEAR, SEQUENTIAL, TUNED, case
from lab.grid.figures import Found, Run, median_time, medians, ratio
from lab.pages.parts import Bar, at_least, seconds
from lab.rivals.base import Contender

# Of the link, and how soon.
FULL, SOON_S = 0.9, 5.0
SEQUENTIAL_LEAST = 5.0
TUNED_LEAST = {NEAR: 0.98, FAR: 1.2}


def fastest(there: dict[str, list[Run]], movers: Iterable[Contender]) -> str | None:
    return max((mover.name for mover in movers if mover.name in there), key=lambda name: medians(there[name]),
               default=None)


def huge_bars(found: Found) -> list[Bar]:
    runs = found.get(HUGE, {}).get(AUTO.name)
    carries = case(HUGE).goodput_bps
    if not runs or carries is None:
        return []
    soon = median_time(runs, FULL * carries)
    return [Bar(f"one huge file: {FULL:g} of the link, from the first second of the program", f"within {SOON_S:g} s",
                f"{seconds(soon)} s", soon is not None and soon <= SOON_S, len(runs))]


def small_bars(found: Found) -> list[Bar]:
    bars: list[Bar] = []
    for name, least in TUNED_LEAST.items():
        there = found.get(name, {})
        for movers, what, wanted in ((TUNED[name], "the best tuned by hand", least),
                                     (SEQUENTIAL, "the best of those that take one file after the other",
                                      SEQUENTIAL_LEAST)):
            other = fastest(there, movers)
            if other is not None:
                bars += at_least(f"{name}: `{AUTO.name}` ÷ {what}, {other}",
                                 ratio(there.get(AUTO.name, []), there[other]), wanted)
    return bars
