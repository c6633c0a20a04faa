"""Workers of each stage and the rate over time, drawn as SVG. Colours hold on light and on dark pages."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from html import escape

from ._types import PerStage

COLOURS = PerStage("#2f7ed8", "#e08a1e", "#3a9d5d")
# Wide below narrow, so that curves that lie on one another are all seen.
STROKES = PerStage(6.0, 3.5, 1.5)
WIDTH, HEIGHT, LEFT, RIGHT, TOP, GAP = 640, 110, 56, 12, 30, 44
# A curve is drawn with no more points than this.
MAX_POINTS = 300


@dataclass(frozen=True, slots=True)
class Moment:
    """What a run showed at one time."""

    seconds: float
    workers: PerStage[float]
    rate_bps: float


def of_log(lines: Iterable[str]) -> list[Moment]:
    """The epochs of a run's log, a line of JSON each; an unfinished last line is left out."""
    found = []
    for line in lines:
        try:
            epoch = json.loads(line)
        except json.JSONDecodeError:
            break
        workers, rate = epoch["concurrency"], epoch["throughput_bps"]
        # What has no last stage of ours, as an upload, has arrived when it was sent.
        arrived = rate["write"] or rate["network"]
        found.append(Moment(epoch["t_ms"] / 1000, PerStage(workers["read"], workers["network"], workers["write"]), arrived))
    return found


def drawn(moments: Sequence[Moment], title: str = "") -> str:
    """The curves as a text of SVG."""
    shown = moments[:: -(-len(moments) // MAX_POINTS)] if moments else []
    end = max((moment.seconds for moment in shown), default=1.0) or 1.0

    def at(seconds: float) -> float:
        return LEFT + (WIDTH - LEFT - RIGHT) * seconds / end

    lower = TOP + HEIGHT + GAP
    out = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {lower + HEIGHT + 24}" width="{WIDTH}" '
        'style="max-width:100%" font-family="sans-serif" font-size="11" fill="#777" role="img">',
        f"<title>{escape(title or 'Workers and rate over time')}</title>",
    ]
    most = max((max(moment.workers) for moment in shown), default=1.0)
    out += _frame(TOP, most, f"workers{f' · {title}' if title else ''}")
    for i, (name, colour, stroke) in enumerate(zip(PerStage._fields, COLOURS, STROKES, strict=True)):
        out.append(f'<text x="{WIDTH - RIGHT - 60 * (3 - i)}" y="{TOP - 10}" fill="{colour}">{name}</text>')
        out.append(_steps([(at(one.seconds), one.workers[i]) for one in shown], TOP, most, colour, stroke))
    unit, name = _unit(max((moment.rate_bps for moment in shown), default=0.0))
    most = max((moment.rate_bps / unit for moment in shown), default=1.0)
    out += _frame(lower, most, name)
    out.append(_steps([(at(one.seconds), one.rate_bps / unit) for one in shown], lower, most, COLOURS.read, 2.0))
    bottom = lower + HEIGHT + 16
    for seconds in _ticks(end):
        out.append(f'<text x="{at(seconds):.1f}" y="{bottom}" text-anchor="middle">{seconds:g} s</text>')
    return "\n".join([*out, "</svg>"])


def _frame(top: int, most: float, label: str) -> list[str]:
    out = [f'<text x="{LEFT}" y="{top - 10}">{escape(label)}</text>']
    for value in _ticks(most):
        y = top + HEIGHT * (1 - value / _top(most))
        out.append(f'<path d="M{LEFT} {y:.1f}H{WIDTH - RIGHT}" stroke="#999" stroke-opacity="0.35"/>')
        out.append(f'<text x="{LEFT - 6}" y="{y + 4:.1f}" text-anchor="end">{value:g}</text>')
    return out


def _steps(points: Sequence[tuple[float, float]], top: int, most: float, colour: str, stroke: float) -> str:
    """A staircase: each value holds from the moment before to its own."""
    path: list[str] = []
    before = float(LEFT)
    for x, value in points:
        y = top + HEIGHT * (1 - value / _top(most))
        path.append(f"{'L' if path else 'M'}{before:.1f} {y:.1f}H{x:.1f}")
        before = x
    return f'<path d="{"".join(path)}" fill="none" stroke="{colour}" stroke-width="{stroke}"/>'


def _top(most: float) -> float:
    return most * 1.08 or 1.0


def _ticks(most: float, wanted: int = 4) -> list[float]:
    """Round numbers from zero to `most`."""
    raw = (most or 1.0) / wanted
    power = 10.0 ** math.floor(math.log10(raw))
    step = next(power * factor for factor in (1, 2, 5, 10) if power * factor >= raw)
    return [i * step for i in range(int((most or 1.0) / step + 1e-9) + 1)]


def _unit(bps: float) -> tuple[float, str]:
    return next(((unit, name) for unit, name in ((1e9, "Gbit/s"), (1e6, "Mbit/s"), (1e3, "kbit/s")) if bps >= unit), (1.0, "bit/s"))
