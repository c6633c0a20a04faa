"""What is asked of `tidegate get` with no flag, and what each figure came to. Ratios are ratios of medians."""

import statistics
from collections.abc import Callable, Sequence

from lab.get import figures
from lab.get.cases import BUSY, CAPPED, FIG6, FIG6_FTP, LINK_ONLY, SMALL, Case
from lab.get.ours import SWEEP, fixed, rule
from lab.ground.results import Record
from lab.ground.stats import shown, spread
from lab.pages.parts import Bar

DEFAULT = "tidegate"
# On the path without per-host ceiling.
UNLIMITED = ("tidegate, no ceiling", "tidegate, no ceiling, more workers")
PUBLISHED = rule("gradient", 1.02)
# The oracle's connections are the fewest that come so near to the best.
AS_GOOD = 0.99
FIG6_LATE = 0.9
# FastBioDL, figure 6. Where the paper says how much sooner, the stricter reading: time saved.
FIG6_MARGINS = {"fig6-1": {5: 1 / (1 - 0.44), 3: 1 / (1 - 0.67)}, "fig6-2": {5: 9.3 / 7.3}, "fig6-3": {5: 1.3, 3: 2.1}}
# Of the possible ratio of twelve connections to the fixed number.
OF_POSSIBLE = 0.9
CONNECTIONS_FILL = 12


# Runs of one case and set, by contender.
Runs = dict[str, list[Record]]
Found = dict[tuple[str, str], Runs]


def median_bps(runs: Sequence[Record]) -> float:
    return statistics.median(run.rate_bps for run in runs)


def connections(runs: Sequence[Record]) -> float:
    return statistics.median(figures.connections_of(run) for run in runs)


def best(found: Runs, wanted: Callable[[str], bool]) -> str | None:
    """The contender with the best median among those, of those that were repeated more than half as often as any."""
    there = {name: runs for name, runs in found.items() if wanted(name)}
    most = max((len(runs) for runs in there.values()), default=0)
    repeated = {name: runs for name, runs in there.items() if 2 * len(runs) > most}
    return max(repeated, key=lambda name: median_bps(repeated[name]), default=None)


def is_fixed(name: str) -> bool:
    return name in {fixed(n) for n in SWEEP} or name.startswith("tidegate --fixed ")


def number(name: str) -> int:
    return int(name.rpartition(" ")[2])


def oracle_connections(found: Runs) -> int | None:
    """The fewest fixed connections that are as good as the best."""
    top = best(found, is_fixed)
    if top is None:
        return None
    near = [number(name) for name, runs in found.items()
            if is_fixed(name) and median_bps(runs) >= AS_GOOD * median_bps(found[top])]
    return min(near)


def counts(*runs: Sequence[Record]) -> str:
    return ", ".join(str(len(each)) for each in runs)


def ratio(found: Runs, where: str, other: str | None, least: float, what: str, own: str = DEFAULT,
          judged: bool = True) -> list[Bar]:
    """Ours against one of them."""
    if other is None or own not in found or other not in found:
        return []
    value = median_bps(found[own]) / median_bps(found[other])
    return [Bar(f"{where}: {what}", f"≥ {least:.2f}" if judged else "", near(value, least),
                value >= least if judged else None, counts(found[own], found[other]))]


def near(value: float, least: float) -> str:
    """As many digits as show on which side of the bar it is."""
    return next((text for digits in (2, 3, 4) if (float(text := f"{value:.{digits}f}") >= least) == (value >= least)),
                f"{value:.5f}")


def case_bars(found: Found, case: Case) -> list[Bar]:
    bars: list[Bar] = []
    for name in case.sets:
        there = found.get((case.name, name))
        if not there or DEFAULT not in there:
            continue
        where = f"{case.name}, {name}"
        if case is CAPPED:
            for n in (3, 8):
                bars += ratio(there, where, fixed(n), OF_POSSIBLE * CONNECTIONS_FILL / n, f"÷ fixed {n}")
        # Where one connection fills the link no rule can be ahead of another by much.
        bars += ratio(there, where, PUBLISHED, 1.3, "÷ FastBioDL's rule", judged=case is not LINK_ONLY)
        for family, least in (("aria2c", 1.0), ("rclone", 0.98)):
            other = best(there, lambda contender, family=family: contender.startswith(family))  # type: ignore[misc]
            bars += ratio(there, where, other, least, f"÷ best {family}" + (f" (`{other}`)" if other else ""))
        top = best(there, is_fixed)
        bars += ratio(there, where, top, 0.95, f"÷ best fixed ({number(top)})" if top else "")
        if oracle := oracle_connections(there):
            used = connections(there[DEFAULT])
            bars.append(Bar(f"{where}: mean connections ÷ oracle's ({oracle})", "≤ 1.20",
                            f"{used / oracle:.2f} ({used:.1f})", used <= 1.2 * oracle, counts(there[DEFAULT])))
    return bars


def fig6_bars(found: Found) -> list[Bar]:
    bars: list[Bar] = []
    for case in (*FIG6, *FIG6_FTP):
        there = found.get((case.name, case.sets[0]))
        if not there or DEFAULT not in there:
            continue
        late = [figures.late_bps(run.notes["samples"], run.bytes) for run in there[DEFAULT]]
        if known := [bps / (case.carries_mbit * 1e6) for bps in late if bps is not None]:
            shares = spread(known)
            bars.append(Bar(f"{case.name}: share of the link from 10 s on", f"≥ {FIG6_LATE:.2f}", shown(shares),
                            shares.median >= FIG6_LATE, len(known)))
        for n, least in FIG6_MARGINS[case.figure].items():
            bars += ratio(there, case.name, fixed(n), least, f"÷ fixed {n}")
    return bars


def small_bars(found: Found) -> list[Bar]:
    there = found.get((SMALL.name, SMALL.sets[0]), {})
    own = best(there, lambda name: name in UNLIMITED)
    if own is None:
        return []
    return [bar for other in ("aria2c -j16", "curl --parallel 16")
            for bar in ratio(there, SMALL.name, other, 1.2, f"`{own}` ÷ {other}", own)]


def bars(found: Found) -> list[Bar]:
    return [*(bar for case in (CAPPED, LINK_ONLY, BUSY) for bar in case_bars(found, case)), *fig6_bars(found),
            *small_bars(found)]
