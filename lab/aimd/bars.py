"""What figure 1 shows and what is asked of the controllers, held against what was measured."""

import statistics
from collections.abc import Sequence

from lab.aimd.cases import name
from lab.aimd.figures import ENOUGH, Level, late
from lab.grid.figures import Found, Run
from lab.pages.parts import Bar

CONTROLLERS = ("aimd", "auto")


def reference(level: Level, there: dict[str, list[Run]]) -> tuple[int, float, bool]:
    """The best fixed number and its settled rate: from the controllers' own rotation where it is there."""
    number = level.best
    if beside := there.get(f"fixed {number}"):
        return number, statistics.median(late(run) for run in beside), True
    return number, level.settled_bps(number), False


def shares(level: Level, found: Found, rule: str) -> list[float]:
    """What each run of a rule reached, as a share of the best fixed number's; of the same repeat where there is one."""
    there = found.get(name(level.external), {})
    number, bps, same = reference(level, there)
    own = {run.record.repeat: late(run) for run in there.get(f"fixed {number}", [])} if same else {}
    return [late(run) / (own.get(run.record.repeat) or bps) for run in there.get(rule, [])]


def reached(levels: Sequence[Level], found: Found) -> list[Bar]:
    bars = []
    for rule in CONTROLLERS:
        for level in levels:
            if values := shares(level, found, rule):
                middle = statistics.median(values)
                bars.append(Bar(f"`{rule}`, {level.external} external: last rate ÷ that of {level.best} streams",
                                f"≥ {ENOUGH:g}", f"{middle:.2f} ({min(values):.2f}–{max(values):.2f})",
                                middle >= ENOUGH, len(values)))
    return bars


def claims(levels: Sequence[Level]) -> list[Bar]:
    """The paper's sentences about figure 1 left."""
    alone = [level for level in levels if level.external == 0 and 1 in level.runs]
    beside = [level for level in levels if level.external and 1 in level.runs]
    bars = []
    for level in alone:
        first, last = level.bps(1) / level.top_bps, level.bps(level.most) / level.bps(1)
        count = len(level.runs[1])
        bars += [Bar("no others: one stream saturates", "1 stream ÷ best ≥ 0.95", f"{first:.2f}", first >= 0.95, count),
                 Bar("no others: more streams hurt", f"{level.most} streams ÷ 1 < 1", f"{last:.3f}", last < 1, count)]
    if beside:
        count = min(len(level.runs[1]) for level in beside)
        poor = [level.bps(1) / level.top_bps for level in beside]
        needed = [level.enough for level in beside]
        falls = [level.bps(level.most) / level.top_bps for level in beside]
        bars += [
            Bar("others: one stream is poor", "1 stream ÷ best, every level", listed(f"{x:.2f}" for x in poor),
                all(x < 0.8 for x in poor), count),
            Bar("the streams needed grow with the others", "least number with 95 % of the best, rising",
                listed(map(str, needed)), needed == sorted(needed) and needed[-1] > needed[0], count),
            Bar("past a point more streams degrade", f"{max(level.most for level in beside)} streams ÷ best < 0.98, "
                "some level", listed(f"{x:.2f}" for x in falls), any(x < 0.98 for x in falls), count)]
    return bars


def listed(values: object) -> str:
    return ", ".join(values)  # type: ignore[arg-type]
