"""Goodput and connections of downloads over time, as SVG."""

from collections.abc import Iterable, Sequence

from lab.pages import plot
from lab.get import figures
from lab.get.bars import DEFAULT, PUBLISHED, Found
from lab.get.cases import Case
from lab.get.ours import fixed
from lab.ground.stats import median_at

DRAWN = ((DEFAULT, plot.BLUE), (PUBLISHED, plot.ORANGE), (fixed(5), plot.SKY), (fixed(3), plot.BLACK))


def picture(found: Found, case: Case, set_: str | None = None, movers: Sequence[tuple[str, str]] = DRAWN) -> str | None:
    """Of the case's first set if none is named."""
    there = found.get((case.name, set_ or case.sets[0]), {})
    rates, open_ = [], []
    for name, colour in movers:
        runs = there.get(name)
        if not runs:
            continue
        bold = median_at([run.rate_bps for run in runs])
        drawn = [figures.staircase(run.notes["samples"], run.bytes) for run in runs]
        rates.append(plot.Line(name, colour, drawn[bold], [p for i, p in enumerate(drawn) if i != bold]))
        open_.append(plot.Line(name, colour, figures.opened(runs[bold].notes["samples"])))
    if not rates:
        return None
    cap = case.per_connection_mbit or case.carries_mbit
    return plot.draw(f"{set_}: {case.title}" if set_ else case.title, [
        plot.Panel(f"goodput, Mbit/s (dashed: the link, {case.carries_mbit:.0f})", rates, [case.carries_mbit]),
        plot.Panel(f"open connections (dashed: {case.carries_mbit / cap:.1f} fill the link)", open_,
                   [case.carries_mbit / cap])],
        "bold: the run of median goodput; faint: its repeats")


def pictures(found: Found, cases: Iterable[Case]) -> dict[str, str]:
    made = {case.name: picture(found, case) for case in cases}
    return {name: svg for name, svg in made.items() if svg is not None}
