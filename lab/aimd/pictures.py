"""Figure 1 as SVG: the curves of the sweep, and each level's controllers over time."""

from collections.abc import Sequence

from lab.aimd.cases import CONTROL_S, EXTERNAL, JOINS_S, case, name
from lab.aimd.figures import Level, rate
from lab.aimd.shards import RULES
from lab.grid.figures import Found, Run, middle
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


def streams(run: Run) -> list[tuple[float, float]]:
    return [(epoch.end_s, float(epoch.streams)) for epoch in run.logs[0]] if run.logs else []


def controllers(found: Found, external: int, level: Level | None) -> str | None:
    there = found.get(name(external), {})
    shown = [(rule.name, colour, there[rule.name]) for rule, colour in zip(RULES, COLOURS) if rule.name in there]
    if not shown:
        return None
    rates = [plot.Line(rule, colour, joined(middle(runs).staircase()),
                       [joined(run.staircase()) for run in runs if run is not middle(runs)])
             for rule, colour, runs in shown]
    counts = [plot.Line(rule, colour, streams(middle(runs))) for rule, colour, runs in shown]
    best = [] if level is None else [level.settled_bps(level.best) / 1e6]
    number = [] if level is None else [float(level.enough)]
    remark = "dashed: the best fixed rate, and K streams" if level else ""
    return plot.draw(case(external, CONTROL_S).title, [plot.Panel("Mbit/s", rates, best),
                                                       plot.Panel("streams", counts, number)], remark)
