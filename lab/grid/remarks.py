"""What a page says of the runs themselves: on what, by what and when; what failed; how the default rule stands."""

import statistics
from collections.abc import Iterable, Sequence

from lab import install
from lab.grid.case import Case
from lab.grid.figures import Found, Run, median_time, medians, ratio
from lab.ground.results import Record
from lab.ground.rotation import disturbances
from lab.pages.parts import Bar

DEFAULT = "auto"
# The default against the first of a row: the interval of the ratio reaches this, and its median is at least that.
REACHES, MEDIAN = 0.98, 0.95


def measured_on(records: Sequence[Record]) -> str:
    """Machine, program and dates; the program is named once where it was the same throughout."""
    good = [record for record in records if record.ok]
    if not good:
        return f"{install.describe()}. Nothing has been measured yet."
    builds = sorted({record.version for record in good if record.version.startswith("tidegate")})
    days = sorted({record.time[:10] for record in good})
    when = days[0] if len(days) == 1 else f"{days[0]} to {days[-1]}"
    said = f"{install.describe()}. {'; '.join(builds) or 'The program is not named'}. {when}."
    return " ".join(filter(None, (said, disturbances(good))))


def others_used(records: Sequence[Record]) -> str:
    """What else the machine did."""
    used = [record.notes["noise"]["other_cpus"] for record in records if record.ok and "noise" in record.notes]
    return f" In the median run others used {statistics.median(used):.1f} of its processors." if used else ""


def failures(records: Iterable[Record]) -> str:
    failed = [record for record in {r.key: r for r in records}.values() if not record.ok]
    if not failed:
        return ""
    lines = (f"- {r.set}, {r.contender}, repeat {r.repeat + 1}: {r.error}\n" for r in failed)
    return "Runs that failed and are not counted:\n\n" + "".join(lines) + "\n"


def rise_s(runs: Sequence[Run], bps: float) -> float:
    found = median_time(runs, bps)
    return float("inf") if found is None else found


def default_bars(found: Found, cases: Iterable[Case]) -> list[Bar]:
    """How the default rule stands in each row, against all others."""
    bars = []
    for case in cases:
        there = found.get(case.name, {})
        rivals = [name for name in there if name != DEFAULT]
        if DEFAULT not in there or not rivals:
            continue
        first = max(rivals, key=lambda name: medians(there[name]))
        own = ratio(there[DEFAULT], there[first])
        if own is not None:
            bars.append(Bar(f"{case.title}: `{DEFAULT}` ÷ the best other, {first}",
                            f"reaches {REACHES:g}, median ≥ {MEDIAN:g}", str(own),
                            own.high >= REACHES and own.median >= MEDIAN, own.count))
        wanted = 0.9 * min(max(medians(runs) for runs in there.values()), case.goodput_bps or float("inf"))
        times = {name: rise_s(runs, wanted) for name, runs in there.items()}
        slowest = max(times[name] for name in rivals)
        said = "never" if times[DEFAULT] == float("inf") else f"{times[DEFAULT]:.0f} s"
        bars.append(Bar(f"{case.title}: `{DEFAULT}`, time to 90 %", "not the longest", said,
                        times[DEFAULT] < float("inf") and times[DEFAULT] <= slowest, len(there[DEFAULT])))
    return bars
