"""What the default rule is to reach on each row: the best fixed number's goodput, with few more workers."""

from collections.abc import Mapping, Sequence

from lab.grid.figures import Found, Run, medians, ratio
from lab.grid.stretch import goodput, workers
from lab.pages.parts import Bar, at_least
from lab.rows.cases import OWN, ROWS, Row

LEAST, MORE_WORKERS = 0.97, 1.3
# Where one worker is enough.
FEW = 2
# Of fixed numbers as good as the best within this, the one of fewest workers is the best.
AS_GOOD = 0.99


def moved(row: Row, run: Run) -> float:
    return goodput(run, 0.0, row.case.seconds)


def used(row: Row, run: Run, begin_s: float = 0.0) -> float:
    return workers(run, begin_s, row.case.seconds)


def best_fixed(row: Row, there: Mapping[str, Sequence[Run]]) -> str | None:
    """None until all of them were run."""
    if any(rule.name not in there for rule in row.fixed):
        return None
    rates = {rule.name: medians(there[rule.name], lambda run: moved(row, run)) for rule in row.fixed}
    good = [name for name, bps in rates.items() if bps >= AS_GOOD * max(rates.values())]
    return min(good, key=lambda name: medians(there[name], lambda run: used(row, run)))


def row_bars(row: Row, there: Mapping[str, Sequence[Run]]) -> list[Bar]:
    own, best, name = there.get(OWN.name, []), best_fixed(row, there), row.case.name
    made: list[Bar] = []
    if not own:
        return made
    if row.least_mbit is not None:
        mbit = medians(own, lambda run: moved(row, run)) / 1e6
        made.append(Bar(f"{name}: Mbit/s", f"≥ {row.least_mbit:g}", f"{mbit:.1f}", mbit >= row.least_mbit, len(own)))
    pair = None if best is None else ratio(own, there[best], lambda run: moved(row, run))
    if best is None or pair is None:
        return made
    ours, theirs = (medians(runs, lambda run: used(row, run)) for runs in (own, there[best]))
    late = medians(own, lambda run: used(row, run, row.case.seconds / 2))
    most = float(FEW) if round(theirs) == 1 else MORE_WORKERS * theirs
    return [*made, *at_least(f"{name}: ÷ {best}", pair, LEAST),
            Bar(f"{name}: mean workers, beside those of {best}", f"≤ {most:.3g}", f"{ours:.2f} (late half {late:.2f})",
                ours <= most, pair.count)]


def bars(found: Found) -> list[Bar]:
    return [bar for row in ROWS for bar in row_bars(row, found.get(row.case.name, {}))]
