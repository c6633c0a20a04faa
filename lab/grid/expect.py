"""How long a grid will take, before anything of it was measured."""

from collections.abc import Iterable

from lab.grid.run import Cell

# Movers that climb, or that lack something, take longer than the link would.
TIMES_THE_BEST = 1.6
# The link, the servers, and the comparison of what arrived.
AROUND_S = 8.0
# To build a link, start what runs on it and take it away.
LINK_S = 3.5


def best_s(cell: Cell) -> float | None:
    """What the data takes at the link's rate; None where time alone ends the run, or nothing limits the link."""
    case = cell.case
    if case.data is None or case.goodput_bps is None:
        return None
    return case.data.size * case.times * 8 / case.goodput_bps


def seconds(cell: Cell) -> float:
    best = best_s(cell)
    return AROUND_S + (cell.case.seconds if best is None else min(cell.case.seconds, TIMES_THE_BEST * best))


def lasting(repeats: int, seconds: Iterable[float]) -> int:
    """The minutes of runs that last so long each, where a link is all there is to be made."""
    return round(repeats * sum(each + LINK_S for each in seconds) / 60)


def minutes(cells: Iterable[Cell], repeats: int) -> int:
    return round(sum(map(seconds, cells)) * repeats / 60)
