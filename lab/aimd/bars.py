"""What figure 1 shows and what is asked of the controllers, held against what was measured."""

import statistics
from collections.abc import Sequence

from lab.aimd.cases import name
from lab.aimd.figures import ENOUGH, Level, late
from lab.grid.figures import Found, Run
from lab.ground.stats import shown, spread
from lab.pages.parts import Bar

CONTROLLERS = ("aimd", "auto")
# Less than this of the best is a fall; what is nearer may be noise.
FALLS = 0.98
# And less than this is poor.
POOR = 0.8


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
    if bps <= 0:
        return []
    return [late(run) / (own.get(run.record.repeat) or bps) for run in there.get(rule, [])]


def reached(levels: Sequence[Level], found: Found) -> list[Bar]:
    bars = []
    for rule in CONTROLLERS:
        for level in levels:
            if values := shares(level, found, rule):
                middle = spread(values)
                bars.append(Bar(f"`{rule}`, {level.external} external: last rate ÷ that of {level.best} streams",
                                f"≥ {ENOUGH:g}", shown(middle),
                                middle.median >= ENOUGH, len(values)))
    return bars


def claims(levels: Sequence[Level]) -> list[Bar]:
    """The paper's sentences about figure 1 left."""
    alone = [level for level in levels if level.external == 0 and 1 in level.runs]
    beside = [level for level in levels if level.external and 1 in level.runs]
    bars = []
    for level in alone:
        first, last = level.bps(1) / level.top_bps, level.bps(level.most) / level.bps(1)
        count = len(level.runs[1])
        bars += [Bar("no others: one stream saturates", f"1 stream ÷ best ≥ {ENOUGH:g}", f"{first:.2f}",
                     first >= ENOUGH, count),
                 Bar("no others: more streams hurt", f"{level.most} streams ÷ 1 < {FALLS:g}", f"{last:.3f}",
                     last < FALLS, count)]
    if beside:
        count = min(len(level.runs[1]) for level in beside)
        poor = [level.bps(1) / level.top_bps for level in beside]
        needed = [level.enough for level in beside]
        falls = [level.bps(level.most) / level.top_bps for level in beside]
        bars += [
            Bar("others: one stream is poor", f"1 stream ÷ best < {POOR:g}, every level",
                ", ".join(f"{share:.2f}" for share in poor), all(share < POOR for share in poor), count),
            Bar("the streams needed grow with the others", f"least number with {ENOUGH * 100:g} % of the best, rising",
                ", ".join(map(str, needed)), needed == sorted(needed) and needed[-1] > needed[0], count),
            Bar("past a point more streams degrade", f"the most streams ÷ best < {FALLS:g}, some level",
                ", ".join(f"{share:.2f}" for share in falls), any(share < FALLS for share in falls), count)]
    return bars
