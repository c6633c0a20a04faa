"""Figure 1 as SVG: the curves of the sweep, and each level's controllers over time."""

from collections.abc import Sequence

from lab.aimd.cases import CONTROL_S, EXTERNAL, JOINS_S, case, name
from lab.aimd.figures import Level, rate
from lab.aimd.shards import RULES
from lab.grid.figures import Found
from lab.grid.show import bold, repeats, shown
from lab.pages import curve, plot

COLOURS = (plot.ORANGE, plot.BLUE, plot.SKY, plot.BLACK)


def curves(levels: Sequence[Level]) -> str:
    colours = dict(zip(EXTERNAL, curve.levels(len(EXTERNAL))))
    lines = [curve.Curve(f"{level.external} external", colours[level.external],
                         [(n, level.bps(n) / 1e6) for n in level.runs], spread(level)) for level in levels]
    return curve.draw("Throughput by streams beside external streams, 1 Gbit/s, 20 ms", lines, "our streams", "Mbit/s",
                      log_x=True, remark="medians; faint: all repeats")


def spread(level: Level) -> list[tuple[float, float, float]]:
    return [(n, min(map(rate, runs)) / 1e6, max(map(rate, runs)) / 1e6) for n, runs in level.runs.items()]


def joined(points: Sequence[tuple[float, float]]) -> list[tuple[float, float]]:
    """From the second the transfer joined to the one it was told to leave."""
    return [(t - JOINS_S, max(value, 0.0)) for t, value in points if JOINS_S < t <= JOINS_S + CONTROL_S]


def controllers(found: Found, external: int, level: Level | None) -> str | None:
    those = shown(found.get(name(external), {}), [rule.name for rule in RULES], COLOURS)
    if not those:
        return None
    rates = repeats(those, lambda run: joined(run.staircase()))
    counts = bold(those, lambda run: [(epoch.end_s, float(epoch.streams)) for log in run.logs[:1] for epoch in log])
    best = [] if level is None else [level.settled_bps(level.best) / 1e6]
    number = [] if level is None else [float(level.enough)]
    remark = "dashed: the best fixed rate, and K streams" if level else ""
    return plot.draw(case(external, CONTROL_S).title, [plot.Panel("Mbit/s", rates, best),
                                                       plot.Panel("streams", counts, number)], remark)
